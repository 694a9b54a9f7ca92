"""Many exports: found, worked on in processes or on a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from irtools.errors import OptionError
from irtools.fleet.outcome import Outcome

__all__ = ["Outcome", "require_limits", "run"]

Unit = Callable[[str], Any]


def run(
    unit: Unit,
    paths: Iterable[str],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    timeout: float | None = None,
    known: Callable[[str], Any | None] | None = None,
) -> Generator[Outcome, None, None]:
    """Run a unit of work for each path, in this process, in several processes, or on a Dask cluster.

    Parameters
    ----------
    unit : callable
        Takes a path and returns a row. It is pickled: a function of a module, or a ``functools.partial`` of one.
    paths : iterable of str
        Read as the work goes on.
    jobs : int
        Number of processes; with 1 and without a timeout, the work is done in this process.
    scheduler : str, optional
        Address of a Dask scheduler, ``tcp://host:port``. Then ``jobs`` does not count.
    timeout : float, optional
        Seconds that one path may take.
    known : callable, optional
        Takes a path and returns its row if an earlier run had it, else None. Called in this process, before the unit.

    Yields
    ------
    Outcome
        As they come, in any order; one for each path.
    """
    if known is None:
        yield from _run(unit, paths, jobs, scheduler, timeout)
        return
    ready: deque[Outcome] = deque()
    numbers: list[int] = []

    def unknown() -> Iterator[str]:
        for number, path in enumerate(paths):
            row = known(path)
            if row is not None:
                ready.append(Outcome(number, path, row, None, 0.0, known=True))
            else:
                numbers.append(number)
                yield path

    with closing(_run(unit, unknown(), jobs, scheduler, timeout)) as outcomes:
        try:
            for outcome in outcomes:
                while ready:
                    yield ready.popleft()
                yield replace(outcome, number=numbers[outcome.number])
        except KeyboardInterrupt:
            yield from ready
            raise
    yield from ready


def require_limits(jobs: int, timeout: float | None) -> None:
    """Raise ``OptionError`` for numbers with which nothing would be done."""
    if jobs < 1:
        raise OptionError(f"jobs is {jobs}", hint="Give a number of processes of at least 1.")
    if timeout is not None and not timeout > 0:
        raise OptionError(f"timeout is {timeout:g}", hint="Give a number of seconds above 0, or None.")


def _run(
    unit: Unit, paths: Iterable[str], jobs: int, scheduler: str | None, timeout: float | None
) -> Generator[Outcome, None, None]:
    if scheduler is not None:
        from irtools.fleet import cluster

        yield from cluster.run(unit, paths, scheduler=scheduler, timeout=timeout)
        return
    from irtools.fleet import pool

    yield from pool.run(unit, paths, jobs=jobs, timeout=timeout)
