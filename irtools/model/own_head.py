"""An output projection that a draft has of its own, compared with the lm_head of its target.

GenAI uses the first output ``logits`` of an MTP part. Such a projection drafts as well as the target's lm_head if it
has rows of the same weights: the first rows, or chosen rows whose scores a ScatterUpdate puts at their token ids. Only
a few rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from irtools.graph.view import GraphView, Source
from irtools.ir.constants import ELEMENT_BITS, Constant, read_constants
from irtools.ir.numbers import unpack
from irtools.ir.op import FLOATS
from irtools.ir.pread import WeightsReader
from irtools.model.document import Document
from irtools.model.part import PartFacts
from irtools.model.target import find_runtime_lm_head
from irtools.model.weights import Weight

__all__ = ["Likeness", "OwnHead", "find_own_head", "like_lm_head", "own_head_text"]

_ROWS = 8
"""Number of rows that are compared."""
_MOST = 4096
"""Bytes of a row that are compared."""
_TOLERANCE = 2**-7
"""Relative rounding of bf16, the coarsest type that weights are exported in without compression."""


@dataclass(frozen=True, slots=True)
class OwnHead:
    """An output projection inside a draft.

    Attributes
    ----------
    matmul : int
        Layer id of the MatMul.
    hidden : Source
        The value that it projects.
    weight : Weight
        One row of weights for each token that it covers.
    rows : int
        Number of tokens that it covers.
    tokens : Constant or None
        Token ids of the rows; None if row ``i`` is token ``i``.
    vocabulary : int
        Width of the logits, -1 if it is not static.
    """

    matmul: int
    hidden: Source
    weight: Weight
    rows: int
    tokens: Constant | None
    vocabulary: int


def own_head_text(head: OwnHead) -> str:
    """Tokens that a head covers, for example ``100 of 512 tokens``."""
    return f"{head.rows:,} of {head.vocabulary:,} tokens" if head.vocabulary > head.rows else f"{head.rows:,} tokens"


class Likeness(Enum):
    """Result of the comparison with the target's lm_head."""

    SAME = "has the weights of the target's lm_head"
    ZERO = "has weights of zeros only"
    OTHER = "does not have the weights of the target's lm_head"
    WIDER = "covers more tokens than the target"
    UNKNOWN = "cannot be compared with the target's lm_head"


def find_own_head(part: PartFacts, name: str = "logits") -> OwnHead | None:
    """The projection that computes an output of a draft; None if it has another form than those known.

    The known forms are a MatMul with constant weights, and a ScatterUpdate of such a MatMul with constant token ids. A
    Convert may follow.
    """
    output, graph = part.output(name), part.graph
    if output is None:
        return None
    key = _before_converts(graph, output.source.op)
    constants = {constant.id: constant for constant in read_constants((graph.scan,))}
    tokens = None
    if graph.op_type(key) == "ScatterUpdate" and len(graph.producers(key)) == 4:
        tokens = constants.get(_before_converts(graph, graph.producers(key)[1]))
        key = _before_converts(graph, graph.producers(key)[2])
        if tokens is None or len(tokens.shape) != 1:
            return None
    if graph.op_type(key) != "MatMul":
        return None
    found = _projection(part, key)
    if found is None or (tokens is not None and tokens.elements != found[1]):
        return None
    vocabulary = output.shape[-1] if output.shape else -1
    return OwnHead(key, graph.inputs(key)[0], *found, tokens, vocabulary)


def _before_converts(graph: GraphView, key: int) -> int:
    while graph.op_type(key) == "Convert":
        key = graph.producers(key)[0]
    return key


def _projection(part: PartFacts, matmul: int) -> tuple[Weight, int] | None:
    """Weights of a MatMul that are stored row by row, and their number of rows."""
    own = [weight for weight in part.weights if matmul in weight.consumers and len(weight.constant.shape) > 1]
    if len(own) != 1 or not part.graph.flag(matmul, "transpose_b"):
        return None
    return own[0], own[0].constant.shape[0]


def like_lm_head(
    own: OwnHead, part: PartFacts, target: PartFacts, reader_of: Callable[[Document], WeightsReader]
) -> Likeness:
    """Compare a sample of the rows of an own head with the rows of the target's lm_head.

    Parameters
    ----------
    part : PartFacts
        The part with the own head.
    reader_of : callable
        Reader of the ``.bin`` of a part.
    """
    readers = reader_of(part.document), reader_of(target.document)
    lm_head = find_runtime_lm_head(target).matmul
    theirs = _projection(target, lm_head) if lm_head is not None else None
    wanted = target.output("logits")
    vocabulary = wanted.shape[-1] if wanted is not None and wanted.shape else -1
    if 0 < vocabulary < max(own.rows, own.vocabulary):
        return Likeness.WIDER
    try:
        sample = list(_sample(own, readers[0]))
        _expect(own.weight, readers[0], (row for row, _ in sample))
        if theirs is not None:
            _expect(theirs[0], readers[1], (token for _, token in sample if token >= 0))
        if all(not any(_row(readers[0], own.weight.constant, row)) for row, _ in sample):
            return Likeness.ZERO
        if theirs is None or any(not 0 <= token < theirs[1] for _, token in sample):
            return Likeness.UNKNOWN if theirs is None else Likeness.OTHER
        equal = [_same_row(own.weight, theirs[0], row, token, readers) for row, token in sample]
    except _NotComparableError:
        return Likeness.UNKNOWN
    return Likeness.SAME if all(equal) else Likeness.OTHER


class _NotComparableError(Exception):
    """Weights that are stored in different forms, or cannot be read."""


def _sample(own: OwnHead, reader: WeightsReader) -> Iterator[tuple[int, int]]:
    """Rows of the own head with their token ids, the first and the last among them."""
    count = min(_ROWS, own.rows)
    for row in sorted({number * (own.rows - 1) // max(count - 1, 1) for number in range(count)}):
        if own.tokens is None:
            yield row, row
        else:
            size = ELEMENT_BITS.get(own.tokens.element_type, 0) // 8
            data = _bytes(reader, own.tokens, row * size, size)
            yield row, int.from_bytes(data, "little", signed=own.tokens.element_type.startswith("i"))


def _bytes(reader: WeightsReader, constant: Constant, start: int, size: int) -> bytes:
    inside = not constant.faults and 0 <= start <= start + size <= constant.size
    data = reader.read(constant.offset + start, size) if inside else None
    if data is None:
        raise _NotComparableError
    return data


def _row(reader: WeightsReader, constant: Constant, row: int) -> bytes:
    """The beginning of a row of a constant."""
    return _bytes(reader, constant, *_place(constant, row))


def _place(constant: Constant, row: int) -> tuple[int, int]:
    """Offset in the constant, and size, of the beginning of a row; all rows share a scale or zero point of one row."""
    if not constant.shape or constant.shape[0] == 1:
        row = 0
    bits = ELEMENT_BITS.get(constant.element_type, 0) * (constant.elements // max((*constant.shape, 1)[0], 1))
    if bits == 0 or bits % 8:
        raise _NotComparableError
    return row * bits // 8, min(bits // 8, _MOST)


def _expect(weight: Weight, reader: WeightsReader, rows: Iterable[int]) -> None:
    """Announce rows of a weight with their scales and zero points."""
    wanted = list(rows)
    places = [(part.offset, *_place(part, row)) for part in weight.parts for row in wanted if not part.faults]
    reader.expect((offset + start, size) for offset, start, size in places)


def _same_row(one: Weight, other: Weight, row: int, token: int, readers: tuple[WeightsReader, WeightsReader]) -> bool:
    """True if a row of one weight has the values of a row of another."""
    pairs = list(zip(one.parts, other.parts, strict=False))
    if len(one.parts) != len(other.parts) or any(a.shape[1:] != b.shape[1:] for a, b in pairs):
        raise _NotComparableError
    for a, b in pairs:
        ours, theirs = _row(readers[0], a, row), _row(readers[1], b, token)
        if a.element_type == b.element_type:
            if ours != theirs:
                return False
        elif not _close(_values(ours, a.element_type), _values(theirs, b.element_type)):
            return False
    return True


def _values(data: bytes, element_type: str) -> tuple[float, ...]:
    values = unpack(data, element_type) if element_type in FLOATS else None
    if values is None:
        raise _NotComparableError
    return values


def _close(ours: tuple[float, ...], theirs: tuple[float, ...]) -> bool:
    pairs = list(zip(ours, theirs, strict=False))  # one row may be cut earlier
    largest = max((abs(value) for pair in pairs for value in pair), default=0.0)
    return all(abs(one - other) <= _TOLERANCE * largest for one, other in pairs)
