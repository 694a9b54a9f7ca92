"""Run the rows of a benchmark in turn, and keep what was measured when one fails or the user interrupts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from irtools.bench.figures import Row
from irtools.bench.samples import HUNG, RAN, Attempt, Contender

__all__ = ["Measured", "Progress", "Watcher", "schedule"]

Run = Callable[[Contender, int], Attempt]
"""Runs a contender in a repetition."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What runs now.

    Attributes
    ----------
    repetition, repeat : int
        From 1, and the number of repetitions.
    left : float or None
        Seconds to the end, estimated from the rows that ran; None before one did.
    """

    row: str
    repetition: int
    repeat: int
    left: float | None


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told how a benchmark proceeds.

    Attributes
    ----------
    step : callable
        Called before each row of each repetition.
    done : callable
        Called with a row, and that of plain decoding, when the row will not run again.
    """

    step: Callable[[Progress], None] = lambda _: None
    done: Callable[[Row, Row | None], None] = lambda *_: None


@dataclass(frozen=True, slots=True)
class Measured:
    """Rows, and whether the user interrupted them."""

    rows: tuple[Row, ...]
    interrupted: bool = False


@dataclass
class _Table:
    contenders: Sequence[Contender]
    repeat: int
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    durations: dict[str, list[float]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def row(self, contender: Contender) -> Row:
        return Row(contender, tuple(self.attempts.get(contender.name, ())))

    def order(self, repetition: int) -> Iterator[Contender]:
        """Rows of a repetition. The first one changes and every second repetition runs backwards.

        A row that always ran after the same one would get what that leaves behind: heat, caches, a drift of the load.
        """
        start = repetition // 2 % len(self.contenders)
        turned = [*self.contenders[start:], *self.contenders[:start]]
        yield from reversed(turned) if repetition % 2 else turned

    def left(self, repetition: int, place: int) -> float | None:
        """Seconds to the end; rows that have not run yet take as long as the others."""
        if not self.durations:
            return None
        means = {name: mean(times) for name, times in self.durations.items()}
        usual = mean(means.values())
        names = [one.name for one in self.order(repetition)]
        names = names[place:] + names * (self.repeat - repetition - 1)
        return sum(means.get(name, usual) for name in names if name not in self.ended)


def schedule(
    contenders: Sequence[Contender],
    run: Run,
    *,
    repeat: int,
    refused: Mapping[str, Attempt] | None = None,
    watcher: Watcher | None = None,
) -> Measured:
    """Run each contender once in each repetition.

    A row that fails before it ran once, or hangs, is not run again; one that crashes after it ran is, because a crash
    may be rare.

    Parameters
    ----------
    refused : mapping of str to Attempt, optional
        Rows that are not run.
    """
    table, watch = _Table(contenders, repeat), watcher or Watcher()
    for name, attempt in (refused or {}).items():
        table.attempts[name] = [attempt]
        table.ended.add(name)
    try:
        for repetition in range(repeat):
            for place, contender in enumerate(table.order(repetition)):
                if contender.name in table.ended:
                    continue
                watch.step(Progress(contender.name, repetition + 1, repeat, table.left(repetition, place)))
                _attempt(table, contender, run, repetition)
                if repetition == repeat - 1 or contender.name in table.ended:
                    watch.done(table.row(contender), _plain(table))
    except KeyboardInterrupt:
        return Measured(tuple(map(table.row, contenders)), interrupted=True)
    return Measured(tuple(map(table.row, contenders)))


def _attempt(table: _Table, contender: Contender, run: Run, repetition: int) -> None:
    began = time.monotonic()
    attempt = run(contender, repetition)
    table.durations.setdefault(contender.name, []).append(time.monotonic() - began)
    earlier = table.attempts.setdefault(contender.name, [])
    earlier.append(attempt)
    never_ran = all(one.status != RAN for one in earlier)
    if attempt.status == HUNG or (attempt.status != RAN and never_ran):
        table.ended.add(contender.name)


def _plain(table: _Table) -> Row | None:
    row = table.row(table.contenders[0])
    return row if any(one.status == RAN for one in row.attempts) else None
