"""Ancestors, descendants and states of ops; constants included unless noted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from irtools.graph.closure import closure
from irtools.graph.view import GraphView

__all__ = ["above", "below", "data_above", "state_writers", "variable_id"]


def below(view: GraphView, starts: Iterable[int], *, shapes: bool = True) -> set[int]:
    """Return ops and everything computed from them; without ``shapes`` not through a ShapeOf."""

    def step(op: int) -> list[int]:
        return [reader.op for reader in view.consumers(op) if shapes or view.op_type(reader.op) != "ShapeOf"]

    return closure(starts, step)


def above(view: GraphView, ends: Iterable[int], within: Collection[int]) -> set[int]:
    """Return the ops of ``within`` that are ends, or from which an end is computed through ops of ``within``."""
    ends = [end for end in ends if end in within]
    return closure(ends, lambda op: [source for source in view.producers(op) if source in within])


def data_above(view: GraphView, starts: Iterable[int], stop: Collection[int] = ()) -> set[int]:
    """Return ops and everything their values are computed from, without shape arithmetic and constants."""

    def step(op: int) -> list[int]:
        if op in stop or view.op_type(op) == "ShapeOf":
            return []
        return [source for source in view.producers(op) if not view.constant(source)]

    return closure(starts, step)


def variable_id(view: GraphView, op: int) -> str:
    """Return the state that a ReadValue or Assign belongs to; empty for another op."""
    return view.data(op).get("variable_id", "")


def state_writers(view: GraphView) -> dict[str, list[int]]:
    """Map every state to its Assigns, in file order."""
    writers: dict[str, list[int]] = {}
    for op in view.by_type.get("Assign", ()):
        writers.setdefault(variable_id(view, op), []).append(op)
    return writers
