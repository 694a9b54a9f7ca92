"""Outcomes in the order of the input."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.fleet.outcome import Outcome

__all__ = ["InOrder"]


class InOrder:
    """Holds outcomes back until all earlier ones are there, so that a result does not depend on the number of jobs."""

    def __init__(self) -> None:
        self._held: dict[int, Outcome] = {}
        self._next = 0

    def add(self, outcome: Outcome) -> Iterator[Outcome]:
        """Take an outcome; yield those whose turn it is."""
        self._held[outcome.number] = outcome
        while self._next in self._held:
            self._next += 1
            yield self._held.pop(self._next - 1)

    def rest(self) -> Iterator[Outcome]:
        """Yield what is held back, although earlier ones are missing."""
        for number in sorted(self._held):
            yield self._held.pop(number)
