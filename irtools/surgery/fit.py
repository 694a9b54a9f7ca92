"""Compare an export with the export whose MTP head it is to get."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from irtools.errors import EditError, ExportError, InvalidIRError
from irtools.ir.constants import ELEMENT_BITS, Constant
from irtools.ir.numbers import unpack
from irtools.ir.op import DYNAMIC
from irtools.ir.pread import Allowance, WeightsReader
from irtools.ir.reading import parse_json, read_file
from irtools.model.compression import Compression
from irtools.model.config import read_config, text_section
from irtools.model.directory import MTP_FILE, ModelDirectory
from irtools.model.document import Document
from irtools.model.mtp import MtpHead, MtpProfile, nearest_profile
from irtools.model.part import PartFacts
from irtools.model.target import attention_states, head_width
from irtools.model.weights import Weight, weights
from irtools.registry import collect
from irtools.text import joined, plural

__all__ = ["Side", "Trait", "require_head", "require_target", "traits"]

_SAMPLED_ROWS = 64
_SAMPLED_BYTES = 4096  # of a row
_UNLIKE = 0.5
"""Correlation below which two embeddings are not those of a base and its fine-tune, whose correlation is near 1."""
_ATTENTION_KEYS = (
    *("num_attention_heads", "n_head", "num_key_value_heads", "head_dim", "partial_rotary_factor"),
    *("rope_theta", "rope_scaling", "rope_parameters", "attn_output_gate"),
)
_EXPERT_KEYS = (
    *("num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
    *("shared_expert_intermediate_size", "n_shared_experts"),
)


@dataclass(frozen=True, slots=True)
class Trait:
    """One property that both exports should share.

    Attributes
    ----------
    name : str
        ``width``, ``family``, ``embeddings``, ``vocabulary``, ``tokenizer``, ``layers``, ``attention``, ``experts`` or
        ``weights``.
    here, there : str
        Value in the export and in the other one, or in its MTP head.
    same : bool or None
        None if they could not be compared.
    note : str
        Consequence of a difference, as a sentence without full stop; empty if there is none.
    """

    name: str
    here: str
    there: str
    same: bool | None
    note: str = ""


class Side:
    """One of the two exports, and what is compared of it."""

    def __init__(self, export: ModelDirectory) -> None:
        self.export = export
        self.config: Mapping[str, Any] = export.config

    @property
    def text(self) -> Mapping[str, Any]:
        """Section of config.json about the language model."""
        return text_section(self.config)

    @cached_property
    def target(self) -> PartFacts | None:
        """The target; None if there is not exactly one."""
        candidates = self.export.target_candidates
        return PartFacts(candidates[0]) if len(candidates) == 1 else None

    @cached_property
    def embeddings(self) -> Document | None:
        """The text embeddings part."""
        return self.export.find_part("text_embeddings")

    @cached_property
    def table(self) -> Weight | None:
        """The table of the text embeddings part: the largest weight that a Gather reads."""
        if self.embeddings is None:
            return None
        graph = self.embeddings.graph
        gathers = set(graph.by_type.get("Gather", ()))
        tables = (
            weight
            for weight in weights(graph)
            if gathers & set(weight.consumers) and len(weight.shape) == 2 and len(weight.constant.shape) > 1
        )
        return max(tables, key=lambda weight: weight.elements, default=None)

    @property
    def width(self) -> int | None:
        """Hidden size: of the lm_head, else of the text embeddings."""
        width = head_width(self.target) if self.target is not None else None
        if width is None and self.table is not None:
            width = self.table.shape[-1]
        return width

    @property
    def vocabulary(self) -> int | None:
        """Width of the logits."""
        output = self.target.output("logits") if self.target is not None else None
        return output.shape[-1] if output is not None and output.shape and output.shape[-1] != DYNAMIC else None


# -- conditions ------------------------------------------------------------------------


def _nearest(document: Document, side: Side, width: int | None) -> MtpHead | None:
    return nearest_profile(PartFacts(document), collect(MtpProfile), str(side.config.get("model_type", "")), width)


def require_head(side: Side) -> MtpHead:
    """The MTP head of the other export.

    Raises
    ------
    EditError
        There is none, or the runtime does not run its form.
    """
    directory = side.export.directory
    document = side.export.find_part("mtp")
    if document is None or document.path.name != MTP_FILE:
        if side.target is not None:
            head = _nearest(side.target.document, side, None)
            if head is not None and head.comparable and head.profile.own_directory:
                message = f"is a {head.profile.title}: {head.profile.remark}, so nothing is attached"
                raise EditError(message, path=directory)
        message = f"has no MTP head ({MTP_FILE}); give an export of the same base that has one with --mtp-from"
        raise EditError(message, path=directory)
    head = _nearest(document, side, side.width)
    if head is None or not head.comparable:
        raise EditError("does not have the ports of an MTP head that the runtime knows", path=document.path)
    if not head.profile.usable:
        why = head.profile.remark or "GenAI does not run this form"
        raise EditError(f"is a {head.profile.title}: {why}", path=document.path)
    return head


def require_target(side: Side, head: MtpHead, other: Side) -> None:
    """Refuse an export that cannot take the head.

    Raises
    ------
    EditError
        It is not decomposed, or has another family or another width.
    """
    directory = side.export.directory
    again = "export it with `--task image-text-to-text`"
    if side.embeddings is None:
        message = f"has no openvino_text_embeddings_model.xml, which the runtime needs beside an MTP head; {again}"
        raise EditError(message, path=directory)
    target = side.export.target
    if PartFacts(target).input("inputs_embeds") is None:
        message = f"takes no inputs_embeds, so it is not the target of a decomposed export; {again}"
        raise EditError(message, path=target.path)
    here, there = _families(side), _families(other)
    if here and there and here.isdisjoint(there):
        message = f"is of the family {_family(side)}, but {other.export.directory} of {_family(other)}"
        raise EditError(f"{message}; take the head from an export of the same base", path=directory)
    widths = {port: width for port, width in _head_widths(head) if width != side.width}
    if side.width is not None and widths:
        port, width = next(iter(widths.items()))
        message = f"has the hidden size {side.width}, but {port} of {head.part.document.path} has width {width}"
        raise EditError(f"{message}; take the head from an export of the same base", path=directory)


def _families(side: Side) -> set[str]:
    """``model_type`` of the config and of the language model in it."""
    kinds = (side.text.get("model_type"), side.config.get("model_type"))
    return {kind for kind in kinds if isinstance(kind, str)}


def _family(side: Side) -> str:
    return " / ".join(sorted(_families(side)))


def _head_widths(head: MtpHead) -> Iterator[tuple[str, int]]:
    inputs = ((port, head.input(port)) for port in head.profile.inputs)
    outputs = ((port, head.output(port)) for port in head.profile.outputs)
    for port, actual in (*inputs, *outputs):
        if port.shape[-1] == "H" and actual is not None and actual.shape:
            yield port.name, actual.shape[-1]


# -- traits ----------------------------------------------------------------------------


def traits(side: Side, head: MtpHead, other: Side) -> tuple[Trait, ...]:
    """Compare the export, which meets the conditions, with the other one."""
    widths = joined(sorted({width for _, width in _head_widths(head)}))
    found = [
        Trait("width", _text(side.width), widths, True if side.width is not None else None),
        _plain("family", _family(side), _family(other)),
        _embeddings(side, other),
        _vocabulary(side, other),
        _tokenizer(side.export.directory, other.export.directory),
        _layers(side, other),
        _attention(side, head, other),
        _experts(side, head, other),
        _compression(side, head),
    ]
    return tuple(trait for trait in found if trait is not None)


def _text(value: object) -> str:
    return "unknown" if value in (None, "") else str(value)


def _plain(name: str, here: object, there: object, note: str = "") -> Trait:
    """Trait with two values that are equal, different or missing."""
    known = here not in (None, "") and there not in (None, "")
    same = here == there if known else None
    return Trait(name, _text(here), _text(there), same, note if same is False else "")


_OTHER_BASE = "the head was trained with another base, so expect fewer accepted tokens"


def _layers(side: Side, other: Side) -> Trait:
    here, there = (read_config(one.config).num_layers for one in (side, other))
    return _plain("layers", here, there, f"config.json has {here} and {there} decoder layers: {_OTHER_BASE}")


def _vocabulary(side: Side, other: Side) -> Trait:
    here, there = side.vocabulary, other.vocabulary
    note = (
        f"the logits have {here} and {there} tokens: drafts use the lm_head of this export, and tokens that the head "
        "was not trained with are accepted less often"
    )
    return _plain("vocabulary", here, there, note)


def _attention(side: Side, head: MtpHead, other: Side) -> Trait:
    here, there = _cache_form(side.target), _cache_form(head.part)
    keys = _different(side.text, other.text, _ATTENTION_KEYS)
    same = None if not here or not there else here == there and not keys
    reasons = [f"keys and values of the target are {here}, those of the head {there}"] if here != there else []
    reasons += [f"config.json differs in {joined(keys)}"] if keys else []
    note = f"{' and '.join(reasons)}: {_OTHER_BASE}" if same is False else ""
    return Trait("attention", _text(here), _text(there), same, note)


def _cache_form(part: PartFacts | None) -> str:
    """Heads and width of keys and values in the states of a part."""
    states = attention_states(part) if part is not None else ()
    forms = dict.fromkeys(f"{state.shape[1]} x {state.shape[3]}" for state in states)
    return ", ".join(forms)


def _experts(side: Side, head: MtpHead, other: Side) -> Trait | None:
    here, there = (one.text for one in (side, other))
    keys = _different(here, there, _EXPERT_KEYS)
    routed = side.target is not None and next(side.target.live_ops("TopK"), None) is not None
    if not routed and not head.experts and not keys:
        return None
    words = {True: "experts", False: "dense"}
    same = routed == head.experts and not keys
    reason = f"config.json differs in {joined(keys)}" if keys else "only one of head and target has experts"
    return Trait("experts", words[routed], words[head.experts], same, "" if same else f"{reason}: {_OTHER_BASE}")


def _different(here: Mapping[str, Any], there: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """Keys that both have with different values; exporters of other versions leave some out or spell them otherwise."""
    return [key for key in keys if key in here and key in there and here[key] != there[key]]


def _compression(side: Side, head: MtpHead) -> Trait:
    parts = (side.target, head.part)
    stored = [Compression.of(part.document).main_type if part is not None else "" for part in parts]
    here, there = stored
    bits = [ELEMENT_BITS.get(kind, 0) for kind in stored]
    note = f"most weights of the target are {here}, those of the head {there}"
    note += ": compress the head as the target, which makes drafts faster" if bits[0] < bits[1] else ""
    return _plain("weights", here, there, note)


# -- tokenizer -------------------------------------------------------------------------


def _tokenizer(here: Path, there: Path) -> Trait | None:
    """Compare tokenizer.json: equal bytes, else the tokens by id."""
    contents = [_optional(directory / "tokenizer.json") for directory in (here, there)]
    if None in contents:
        names = ["unknown" if data is None else "tokenizer.json" for data in contents]
        return Trait("tokenizer", names[0], names[1], None)
    if contents[0] == contents[1]:
        return Trait("tokenizer", "tokenizer.json", "the same bytes", True)
    mine, others = (_tokens(data or b"") for data in contents)
    if mine is None or others is None:
        return Trait("tokenizer", "tokenizer.json", "tokenizer.json", None, "the two tokenizer.json differ")
    sizes = plural(len(mine), "token"), plural(len(others), "token")
    moved = [key for key in mine.keys() & others.keys() if mine[key] != others[key]]
    extra = len(mine.keys() ^ others.keys())
    if not moved and not extra:
        return Trait("tokenizer", *sizes, True)
    reasons = [f"another token has the same id {plural(len(moved), 'time')}"] if moved else []
    reasons += [f"only one of them has {plural(extra, 'token')}"] if extra else []
    consequence = f": {_OTHER_BASE}" if moved else ""
    return Trait("tokenizer", *sizes, False, f"the tokenizers differ: {' and '.join(reasons)}{consequence}")


def _optional(path: Path) -> bytes | None:
    try:
        return read_file(path)
    except OSError:
        return None


def _tokens(data: bytes) -> dict[int, str] | None:
    """Tokens by id of a tokenizer.json; None if it has another form."""
    try:
        content = parse_json(data)
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, list):
            tokens = {number: str(entry[0]) for number, entry in enumerate(vocabulary)}
        else:
            tokens = {int(number): str(token) for token, number in vocabulary.items()}
        return tokens | {int(added["id"]): str(added["content"]) for added in content.get("added_tokens") or ()}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


# -- embeddings ------------------------------------------------------------------------


def _embeddings(side: Side, other: Side) -> Trait:
    """Compare the embedding tables: form, and the values of some rows."""
    name = "embeddings"
    try:
        here, there = side.table, other.table
    except (ExportError, InvalidIRError):
        here, there = side.table, None
    if here is None or there is None:
        return Trait(name, _table_text(here), _table_text(there), None)
    texts = _table_text(here), _table_text(there)
    assert side.embeddings is not None
    assert other.embeddings is not None
    if here.constant.element_type != there.constant.element_type or here.shape[1:] != there.shape[1:]:
        note = "the embedding tables have different forms, so their values were not compared"
        return Trait(name, *texts, None, note)
    pair = (side.embeddings.weights_path, here.constant), (other.embeddings.weights_path, there.constant)
    try:
        mine, others = (b"".join(rows) for rows in zip(*_sampled(*pair), strict=True))
    except (OSError, ValueError):
        return Trait(name, *texts, None, "the embedding tables could not be read, so their values were not compared")
    if mine == others:
        return Trait(name, *texts, True)
    share, correlation = _difference(mine, others, here.constant.element_type)
    note = f"the input embeddings differ in {_percent(share)} of the sampled values"
    if correlation is not None and correlation < _UNLIKE:
        note += f" and have nothing in common (correlation {correlation:.2f}): {_OTHER_BASE}"
    else:
        known = f" (correlation {correlation:.4f})" if correlation is not None else ""
        note += f"{known}, as after fine-tuning"
    return Trait(name, *texts, False, note)


def _table_text(table: Weight | None) -> str:
    return "unknown" if table is None else f"{' x '.join(map(str, table.shape))} {table.constant.element_type}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "less than 1 %"


def _sampled(here: tuple[Path, Constant], there: tuple[Path, Constant]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the beginnings of equal rows of both tables, evenly distributed."""
    rows = min(here[1].shape[0], there[1].shape[0])
    lengths = {constant.size // max(constant.shape[0], 1) for _, constant in (here, there)}
    if len(lengths) != 1 or not rows:
        raise ValueError("the rows have different sizes")
    length = lengths.pop()
    count, size = min(rows, _SAMPLED_ROWS), min(length, _SAMPLED_BYTES)
    readers = [WeightsReader(path, Allowance(count * size)) for path, _ in (here, there)]
    for number in range(count):
        row = number * (rows - 1) // max(count - 1, 1)
        starts = (constant.offset + row * length for _, constant in (here, there))
        mine, others = (reader.read(start, size) for reader, start in zip(readers, starts, strict=True))
        if mine is None or others is None:
            raise ValueError("a file is truncated")
        yield mine, others


def _difference(mine: bytes, others: bytes, element_type: str) -> tuple[float, float | None]:
    """Share of the values that differ, and the correlation of the values; None for types of less than 8 bits."""
    size = max(ELEMENT_BITS.get(element_type, 8) // 8, 1)
    starts = range(0, len(mine), size)
    different = sum(mine[at : at + size] != others[at : at + size] for at in starts)
    numbers = [unpack(data, element_type) or () for data in (mine, others)]
    return different / max(len(starts), 1), _correlation(*numbers)


def _correlation(a: tuple[float, ...], b: tuple[float, ...]) -> float | None:
    if not a or not all(map(math.isfinite, (*a, *b))):
        return None
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    product = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / product if product else None
