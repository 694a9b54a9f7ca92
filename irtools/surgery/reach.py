"""What is computed from some ops, and what they are computed from; constants count."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from irtools.graph.closure import closure
from irtools.graph.view import GraphView

__all__ = ["above", "below", "data_above"]


def below(view: GraphView, starts: Iterable[int], *, shapes: bool = True) -> set[int]:
    """Some ops and everything computed from them; without ``shapes`` not by way of a ShapeOf."""

    def step(op: int) -> list[int]:
        return [reader.op for reader in view.consumers(op) if shapes or view.op_type(reader.op) != "ShapeOf"]

    return closure(starts, step)


def above(view: GraphView, ends: Iterable[int], within: Collection[int]) -> set[int]:
    """Some ops and everything they are computed from, as far as it is in ``within``."""
    ends = [end for end in ends if end in within]
    return closure(ends, lambda op: [source for source in view.producers(op) if source in within])


def data_above(view: GraphView, starts: Iterable[int], stop: Collection[int] = ()) -> set[int]:
    """Some ops and what their values are computed from, shape arithmetic and constants left out."""

    def step(op: int) -> list[int]:
        if op in stop or view.op_type(op) == "ShapeOf":
            return []
        return [source for source in view.producers(op) if not view.constant(source)]

    return closure(starts, step)
