"""What can be reached from some ops of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["closure"]


def closure(starts: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    """Some ops and everything that is reached from them.

    Parameters
    ----------
    starts : iterable of int
        Layer ids.
    step : callable
        Where an op leads to: what it is computed from, or what is computed from it.
    """
    found = set(starts)
    pending = list(found)
    while pending:
        fresh = [op for op in step(pending.pop()) if op not in found]
        found.update(fresh)
        pending += fresh
    return found
