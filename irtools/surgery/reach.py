"""What is computed from some ops, and what they are computed from; constants count."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from irtools.graph.view import GraphView

__all__ = ["above", "below", "data_above"]


def below(view: GraphView, starts: Iterable[int], *, shapes: bool = True) -> set[int]:
    """Some ops and everything computed from them; without ``shapes`` not by way of a ShapeOf."""
    found = set(starts)
    pending = list(found)
    while pending:
        for consumer in view.consumers(pending.pop()):
            if consumer.op not in found and (shapes or view.op_type(consumer.op) != "ShapeOf"):
                found.add(consumer.op)
                pending.append(consumer.op)
    return found


def above(view: GraphView, ends: Iterable[int], within: Collection[int]) -> set[int]:
    """Some ops and everything they are computed from, as far as it is in ``within``."""
    found = {end for end in ends if end in within}
    pending = list(found)
    while pending:
        for source in view.producers(pending.pop()):
            if source in within and source not in found:
                found.add(source)
                pending.append(source)
    return found


def data_above(view: GraphView, starts: Iterable[int], stop: Collection[int] = ()) -> set[int]:
    """Some ops and what their values are computed from, shape arithmetic and constants left out."""
    found = set(starts)
    pending = [op for op in found if op not in stop]
    while pending:
        op = pending.pop()
        if view.op_type(op) == "ShapeOf":
            continue
        for source in view.producers(op):
            if source not in found and not view.constant(source):
                found.add(source)
                if source not in stop:
                    pending.append(source)
    return found
