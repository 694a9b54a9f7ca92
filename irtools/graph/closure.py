"""Ops that are reachable from other ops of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["closure"]


def closure(starts: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    """Start ops and all ops reachable from them.

    ``step`` returns the neighbours of an op to continue with, such as its producers or its consumers.
    """
    # Not nx.descendants: `step` may skip ops, and constants are not nodes of the view.
    reached = set(starts)
    pending = list(reached)
    while pending:
        fresh = [op for op in step(pending.pop()) if op not in reached]
        reached.update(fresh)
        pending += fresh
    return reached
