"""IR026 to IR029: samples of the weights and of the strings of a tokenizer, read from the ``.bin``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from irtools.authoring import Context, Finding, PartFacts, Severity, rule
from irtools.graph.view import GraphView
from irtools.ir.constants import Constant
from irtools.ir.op import FLOATS
from irtools.ir.pread import WeightsReader
from irtools.model.document import Document
from irtools.model.samples import Sample
from irtools.text import plural

_RESTORE = "Restore the .bin; it is incomplete, damaged or belongs to another model."
_NAMED = {"head": "lm_head", "embedding": "embedding", "scale": "scales", "norm": "norm weights", "matrix": "weights"}
_FRACTION = 1 / 16
"""Least share of a constant that must be blank; a vocabulary that is padded with zero rows has less."""
_FEW = 2
"""Blank weights that are no pattern yet: in many exports the lm_head alone is the largest weight."""
_PASSING = ("Convert", "Reshape", "Squeeze", "Unsqueeze")
_ODD = 0.05
_STRIDE = 64


class _Window(NamedTuple):
    start: int
    end: int
    blank: bool
    sample: Sample


def _windows(samples: tuple[Sample, ...]) -> list[_Window]:
    """All windows of a file by position; windows of tied weights once."""
    found = {
        start: _Window(start, start + len(piece), _blank(piece, sample), sample)
        for sample in samples
        for start, piece in sample.windows
    }
    return [found[start] for start in sorted(found)]


def _blank(piece: bytes, sample: Sample) -> bool:
    """True for zeros, and for the bytes 0xff where they are numbers."""
    return not any(piece) or (sample.weight.constant.element_type not in FLOATS and set(piece) == {0xFF})


@rule("IR026", "blank-weights", Severity.WARNING, "A part of the weights is blank")
def blank_weights(context: Context) -> Iterator[Finding]:
    """A part of the weights is blank.

    What it checks
    --------------
    A sample of each weight: windows of 64 bytes, spread over its bytes, at most 128,000 bytes of an export. Windows
    that follow each other in the file and have only zeros (or only the byte 0xff in integers) are one blank range. It
    is an error if the range is the whole lm_head, the whole table that the token ids are looked up in, or all scales
    of a weight, if it covers several weights, or if it reaches the end of the file. A blank matrix, norm or other
    table alone is a warning, because pruning can leave one. A file in which all matrices are blank, but norms or
    integers are not, is a note: it was made as a skeleton, for tests and measurements. A file of zeros is an error.

    Why it matters
    --------------
    A download that reserves the space of the file first and is interrupted leaves zeros. If the integers that
    shape the graph are in the part that arrived, OpenVINO loads the model without an error message, and it
    generates garbage. A blank lm_head gives every token the same logit, a blank table every token the same embedding.

    How to fix it
    -------------
    Restore the ``.bin`` from the source of the ``.xml``.

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1: with a blank lm_head the same token is generated forever.
    """
    for document, samples in context.samples.items():
        norms = [sample for sample in samples if sample.weight.use == "norm"]
        windows = _windows(tuple(sample for sample in samples if sample.weight.use != "norm"))
        if _skeleton(windows) or all(window.blank for window in windows):
            yield from _all_blank(context, document, norms, windows)
            continue
        runs = [list(group) for blank, group in groupby(windows, key=lambda window: window.blank) if blank]
        part = context.target_facts if document is context.target else None
        table = _token_table(part) if part is not None and any(map(_matters, runs)) else set()
        found = [_Range(run, table, last=run[-1] is windows[-1]) for run in runs if _matters(run)]
        if found:
            yield _blank_ranges(document, found)
        zero = [sample for sample in norms if not any(any(piece) for _, piece in sample.windows)]
        if zero:
            first = zero[0].weight.constant.name
            others = f", and those of {plural(len(zero) - 1, 'other norm')}" if len(zero) > 1 else ""
            message = f"the norm weights {first!r} are zeros{others}"
            yield Finding(message, _RESTORE, document.weights_path, op=first)


def _skeleton(windows: list[_Window]) -> bool:
    """True if exactly the weights above some size are blank, as no interrupted download leaves them."""
    filled = {window.sample for window in windows if not window.blank}
    blank = {window.sample for window in windows} - filled
    return len(blank) > _FEW and max((s.weight.constant.size for s in filled), default=0) < min(
        sample.weight.constant.size for sample in blank
    )


def _all_blank(context: Context, document: Document, norms: list[Sample], windows: list[_Window]) -> Iterator[Finding]:
    if not windows:
        return
    reader, path = context.weights_reader(document), document.weights_path
    message = "every sampled weight of the file is blank"
    content = any(any(piece) for sample in norms for _, piece in sample.windows)
    if content or any(any(reader.integers(c, _STRIDE) or ()) for c in context.constants(document)):
        hint = "If this is not a skeleton for tests and measurements, restore the .bin: the model generates garbage."
        message = "the large weights of the file are blank, but its small constants are not"
        yield Finding(message, hint, path, severity=Severity.NOTE)
    else:
        yield Finding(message, _RESTORE, path, severity=Severity.ERROR)


def _whole(run: list[_Window]) -> list[Sample]:
    """Samples whose windows are all in a run, and tell about the whole constant."""
    inside = {window.start for window in run}
    samples = dict.fromkeys(window.sample for window in run)
    return [
        sample
        for sample in samples
        if inside.issuperset(start for start, _ in sample.windows)
        and (len(sample.windows) > 1 or len(sample.windows[0][1]) == sample.weight.constant.size)
    ]


def _matters(run: list[_Window]) -> bool:
    if _whole(run):
        return True
    first, last = run[0], run[-1]
    return len(run) > 1 and last.end - first.start > _FRACTION * max(w.sample.weight.constant.size for w in run)


def _token_table(part: PartFacts) -> set[int]:
    """Layer ids of the ops that compute the tables in which the token ids are looked up."""
    port, graph = part.input("input_ids"), part.graph
    pending = [port.op] if port is not None else []
    table: set[int] = set()
    while pending:
        for reader in graph.consumers(pending.pop()):
            if graph.op_type(reader.op) == "Gather" and reader.input == 1:
                table |= set(part.ancestors([graph.producers(reader.op)[0]]))
            elif graph.op_type(reader.op) in _PASSING and reader.input == 0:
                pending.append(reader.op)
    return table


class _Range:
    """A blank range of a file: windows that follow each other; ``last`` if it ends with the last window.

    ``table`` are the layer ids of the table that the token ids are looked up in.
    """

    def __init__(self, run: list[_Window], table: set[int], *, last: bool) -> None:
        touched = list(dict.fromkeys(window.sample for window in run))
        whole = _whole(run)
        telling = next((s for s in whole if s.weight.use in ("head", "scale") or s.weight.constant.id in table), None)
        self.certain = telling is not None or len(touched) > 1 or last
        self.named = (telling or touched[0]).weight
        amount = "all" if (telling or touched[0]) in whole else "some"
        others = f" and {plural(len(touched) - 1, 'other constant')}" if len(touched) > 1 else ""
        end = " (the end of the file)" if last else ""
        self.text = f"every sample between the bytes {run[0].start:,} and {run[-1].end:,}{end} is blank: "
        self.text += f"{amount} of the {_NAMED[self.named.use]} {self.named.constant.name!r}{others}"


def _blank_ranges(document: Document, found: list[_Range]) -> Finding:
    """One finding for all blank ranges of a file; it describes a certain one if there is one."""
    first = next((one for one in found if one.certain), found[0])
    message = first.text + (f"; so are {plural(len(found) - 1, 'other range')}" if len(found) > 1 else "")
    severity = Severity.ERROR if first.certain else None
    return Finding(message, _RESTORE, document.weights_path, op=first.named.constant.name, severity=severity)


@rule("IR027", "non-finite-weights", Severity.ERROR, "The weights are not finite")
def non_finite_weights(context: Context) -> Iterator[Finding]:
    """The weights are not finite.

    What it checks
    --------------
    That no sampled number of a matrix, an embedding, a norm or a scale is infinite or NaN. Masks, which may be
    infinite, are not sampled. The sample is that of IR026.

    Why it matters
    --------------
    One such number makes every logit NaN. The runtime reports nothing and generates garbage.

    How to fix it
    -------------
    Restore the ``.bin`` from the source of the ``.xml``. If the checkpoint itself has such weights, convert it in
    a type with the range of its training (bf16 or f32 instead of f16).

    Source
    ------
    Reproduced with OpenVINO GenAI 2026.4.1.
    """
    for document, samples in context.samples.items():
        odd = [sample for sample in samples if sample.infinite]
        if odd:
            yield _numbers(document, odd, len(samples), f"{plural(odd[0].infinite, 'sampled number')} not finite")


@rule("IR028", "implausible-weights", Severity.WARNING, "The weights are not plausible numbers")
def implausible_weights(context: Context) -> Iterator[Finding]:
    """The weights are not plausible numbers.

    What it checks
    --------------
    That in every sampled constant at most a twentieth of the floating-point numbers is above 100,000,000 (f16:
    4,096) in magnitude. The sample is that of IR026.

    Why it matters
    --------------
    These are bytes of something else: another model's weights at other offsets, or another element type. The model
    loads and generates garbage.

    How to fix it
    -------------
    Restore the ``.bin`` from the source of the ``.xml``.

    Source
    ------
    Of random bits read as f32, two in five are above 100,000,000; no weight of the fixtures is above 100.
    """
    for document, samples in context.samples.items():
        odd = [sample for sample in samples if sample.extreme > _ODD and not sample.infinite]
        if odd:
            yield _numbers(document, odd, len(samples), f"{odd[0].extreme:.0%} of the sampled numbers too large")


def _numbers(document: Document, odd: list[Sample], of: int, fault: str) -> Finding:
    first = odd[0].weight
    message = f"in {len(odd)} of {plural(of, 'sampled constant')}, numbers cannot be weights; the first are the "
    message += f"{_NAMED[first.use]} {first.constant.name!r}, with {fault}"
    return Finding(message, _RESTORE, document.weights_path, op=first.constant.name)


_STRINGS = {"BPETokenizer": (5, 8, 11), "VocabDecoder": (1,), "WordpieceTokenizer": (5,), "VocabEncoder": (3,)}
"""Input indices of string tables (begins, ends and characters follow each other), by op type."""
_TEXTS = {"RegexSplit": (-1,), "SpecialTokensSplit": (-1,), "RegexNormalization": (3, 4)}


@rule("IR029", "damaged-vocabulary", Severity.ERROR, "The strings of a tokenizer are damaged")
def damaged_vocabulary(context: Context) -> Iterator[Finding]:
    """The strings of a tokenizer are damaged.

    What it checks
    --------------
    A sample of each table of strings in a tokenizer or detokenizer: each string begins after the previous one and
    ends within the characters, not every string is empty and not every character 0. Patterns and special tokens
    must be UTF-8.

    Why it matters
    --------------
    The runtime reads beyond the characters, and crashes or encodes every text wrongly.

    How to fix it
    -------------
    Restore the ``.bin``, or convert the tokenizer again (``convert_tokenizer --with-detokenizer``).

    Source
    ------
    openvino_tokenizers 2026.4, where a decomposed string tensor consists of begins, ends and characters; reproduced
    with OpenVINO GenAI 2026.4.1.
    """
    for document in context.all_documents:
        reader = context.weights_reader(document)
        for integers in context.integers(document):
            graph = integers.graph
            table = {c.id: c for c in context.constants(document) if not c.in_body}
            for key, constants in _tables(graph, table):
                fault = _strings_fault(reader, constants)
                if fault:
                    message = f"the {graph.op_type(key)} {graph.op_name(key)!r} has {fault}"
                    yield Finding(message, _RESTORE, document.weights_path, op=graph.op_name(key))
                    break
            break  # bodies have no tables


def _tables(graph: GraphView, table: dict[int, Constant]) -> Iterator[tuple[int, tuple[Constant, ...]]]:
    for kinds, length in ((_STRINGS, 3), (_TEXTS, 1)):
        for kind, starts in kinds.items():
            for key in graph.by_type.get(kind, ()):
                sources = graph.producers(key)
                for start in starts:
                    at = start if start >= 0 else len(sources) + start
                    chosen = tuple(table[source] for source in sources[at : at + length] if source in table)
                    if len(chosen) == length and chosen[-1].element_type == "u8":
                        yield key, chosen


def _strings_fault(reader: WeightsReader, constants: tuple[Constant, ...]) -> str | None:
    *bounds, characters = constants
    if not bounds:
        return _text_fault(reader.read(characters.offset, min(characters.size, 4096)), characters.size)
    begins, ends = bounds
    if not begins.elements or any((c.element_type, c.size) != ("i32", 4 * begins.elements) for c in bounds):
        return None  # other rules report a constant of another size
    longest = 0
    firsts = range(0, begins.elements, max(begins.elements // 16, 1))
    last = max(characters.size - _STRIDE, 0)
    texts = [
        (characters.offset + start, min(_STRIDE, characters.size)) for start in {last * at // 15 for at in range(16)}
    ]
    bounded = [_bound(constant, first) for constant in (begins, ends) for first in firsts]
    reader.expect([*bounded, *texts])
    for first in firsts:
        pieces = [reader.read(*_bound(constant, first)) for constant in (begins, ends)]
        if pieces[0] is None or pieces[1] is None:
            return None
        previous = 0
        for begin, end in zip(*(memoryview(piece).cast("i") for piece in pieces if piece), strict=True):
            if not previous <= begin <= end <= characters.elements:
                return f"a string from {begin} to {end} in {characters.elements:,} characters"
            previous = end
            longest = max(longest, end - begin)
    if not longest and begins.elements > 1 and characters.elements > 1:
        return f"only empty strings, but {characters.elements:,} characters"
    for start, size in texts if characters.size else ():
        piece = reader.read(start, size)
        if piece is not None and len(piece) > 1 and not any(piece):
            return "strings of zero bytes"
    return None


def _bound(constant: Constant, first: int) -> tuple[int, int]:
    """Offset in the file and size of some entries of a table, from ``first`` on."""
    return constant.offset + first * 4, min(_STRIDE, constant.size - first * 4)


def _text_fault(text: bytes | None, size: int) -> str | None:
    if text is None or not size:
        return None
    if not any(text):
        return "a pattern of zero bytes"
    try:
        text.decode()
    except UnicodeDecodeError as error:
        if error.start < len(text) - 4:
            return "a pattern that is not UTF-8"
    return None
