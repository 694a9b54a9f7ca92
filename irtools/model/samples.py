"""Samples of the weights of a part, read from the ``.bin``: a few windows of each, spread over its bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from irtools.graph.view import GraphView
from irtools.ir.constants import ELEMENT_BITS, Constant, byte_size
from irtools.ir.numbers import unpack
from irtools.ir.op import FLOATS
from irtools.ir.pread import WeightsReader

__all__ = ["Sample", "WeightUse", "take_samples", "weight_uses"]

_WINDOW = 64
"""Bytes of one window, a multiple of the size of every element."""
_MOST = {"head": 32, "embedding": 32, "matrix": 8, "norm": 2, "scale": 2}
"""Windows of one constant, by use."""
_WEIGHT_TYPES = FLOATS | {kind for kind, bits in ELEMENT_BITS.items() if bits <= 8 and kind != "boolean"}
_SMALLEST = 16
_LARGEST = {"f16": 4096.0}
_LARGEST_FLOAT = 1e8
"""Magnitude that no weight has; of random bits in 16 to 64 bits, every third to seventh number is beyond it."""


class WeightUse(NamedTuple):
    """A constant with numbers, and what reads it.

    ``use`` is ``head`` (the lm_head), ``embedding`` (a Gather reads it), ``matrix`` (a MatMul or a convolution),
    ``norm`` (multiplied with a computed value) or ``scale`` (multiplied with a compressed weight).
    """

    constant: Constant
    use: str


def weight_uses(graph: GraphView, constants: Iterable[Constant], head: int | None = None) -> Iterator[WeightUse]:
    """Yield the constants of one graph that are weights.

    Parameters
    ----------
    constants : iterable of Constant
        Those of this graph, without those of bodies.
    head : int, optional
        Layer id of the MatMul that computes the logits.
    """
    for constant in constants:
        right_size = constant.size == byte_size(constant.element_type, constant.elements)
        if constant.elements >= _SMALLEST and constant.element_type in _WEIGHT_TYPES and right_size:
            use = _use(graph, constant, head)
            if use:
                yield WeightUse(constant, use)


def _use(graph: GraphView, constant: Constant, head: int | None) -> str:
    key = constant.id
    for _ in range(8):
        consumers = graph.readers(key)
        if not consumers:
            return ""
        # Tied weights have several consumers: the most telling one counts.
        users = [(op, index) for op, index, _ in consumers if not graph.constant(op)]
        kinds = {graph.op_type(op) for op, _ in users}
        if any(op == head for op, _, _ in consumers):
            return "head"
        if kinds & {"MatMul", "Convolution", "GroupConvolution"}:
            return "matrix"
        if any(index == 0 and graph.op_type(op) == "Gather" for op, index in users):
            return "embedding" if len(constant.shape) > 1 else ""
        if kinds:
            return "norm" if kinds == {"Multiply"} and key == constant.id and _is_vector(constant) else ""
        consumer, place, _ = consumers[0]
        kind = graph.op_type(consumer)
        if kind == "Multiply":
            other = next((source for source in graph.producers(consumer) if source != key), key)
            if _compressed_above(graph, other) and not _compressed_above(graph, key):
                return "scale"
        elif kind == "Subtract" and place == 1:
            return ""
        key = consumer
    return ""


def _is_vector(constant: Constant) -> bool:
    return max(constant.shape, default=0) == constant.elements


def _compressed_above(graph: GraphView, key: int) -> bool:
    """True if a constant value starts at a compressed weight."""
    for _ in range(8):
        sources = graph.producers(key)
        if not sources:
            return graph.data(key).get("element_type") not in FLOATS
        key = sources[0]
    return False


@dataclass(frozen=True)
class Sample:
    """The windows of one constant.

    Attributes
    ----------
    windows : tuple of tuple
        Offset in the file and bytes of each window, in file order; the first is at the beginning of the constant
        and the last at its end.
    """

    weight: WeightUse
    windows: tuple[tuple[int, bytes], ...]

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """Values of a floating-point constant; empty for another."""
        kind = self.weight.constant.element_type
        data = b"".join(piece for _, piece in self.windows)
        return (unpack(data, kind) or ()) if kind in FLOATS else ()

    @property
    def extreme(self) -> float:
        """Share of the values that no weight has, from 0 to 1."""
        most = _LARGEST.get(self.weight.constant.element_type, _LARGEST_FLOAT)
        return sum(not abs(number) <= most for number in self.numbers) / max(len(self.numbers), 1)

    @property
    def infinite(self) -> int:
        """Number of values that are infinite or not a number."""
        return sum(not math.isfinite(number) for number in self.numbers)


def take_samples(
    weights: Mapping[WeightsReader, Iterable[WeightUse]], most: int
) -> dict[WeightsReader, tuple[Sample, ...]]:
    """Read samples of the weights of several files.

    Parameters
    ----------
    most : int
        Bytes to read from all files together. If there are more weights than windows, some weights are left out,
        evenly over all files; heads and embeddings never.
    """
    uses = {reader: tuple(uses) for reader, uses in weights.items()}
    windows = {reader: [_MOST[use.use] for use in own] for reader, own in uses.items()}
    wanted = sum(map(sum, windows.values()))
    share = min(1.0, most / _WINDOW / wanted) if wanted else 1.0
    return {reader: tuple(_sampled(reader, own, share)) for reader, own in uses.items()}


def _sampled(reader: WeightsReader, uses: Iterable[WeightUse], share: float) -> Iterator[Sample]:
    planned: list[tuple[WeightUse, tuple[tuple[int, int], ...]]] = []
    credit = 0.0
    for use in uses:
        count = _MOST[use.use]
        if use.use not in ("head", "embedding"):
            credit += count * share
            count = min(count, int(credit))
            credit -= count
        planned.append((use, tuple(_windows(use.constant, count))))
    reader.expect(window for _, windows in planned for window in windows)
    for use, windows in planned:
        pieces = ((start, reader.read(start, size)) for start, size in windows)
        taken = tuple((start, piece) for start, piece in pieces if piece is not None)
        if taken:
            yield Sample(use, taken)


def _windows(constant: Constant, count: int) -> Iterator[tuple[int, int]]:
    """Offset in the file and size of each window of a constant."""
    size = constant.size
    if size <= count * _WINDOW:
        starts = list(range(0, size, _WINDOW))
    else:
        last = size - _WINDOW
        starts = [last * at // max(count - 1, 1) // 8 * 8 for at in range(count)]  # at the start of an element
    yield from ((constant.offset + start, min(_WINDOW, size - start)) for start in starts)
