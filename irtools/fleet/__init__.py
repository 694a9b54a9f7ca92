"""Many exports: found, worked on in processes or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from irtools.fleet.outcome import Outcome

__all__ = ["Outcome", "run"]


def run(
    unit: Callable[[str], Any],
    paths: Iterable[str],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    timeout: float | None = None,
) -> Iterator[Outcome]:
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

    Yields
    ------
    Outcome
        As they come, in any order; one for each path.
    """
    if scheduler is not None:
        from irtools.fleet import cluster

        return cluster.run(unit, paths, scheduler=scheduler, timeout=timeout)
    from irtools.fleet import pool

    return pool.run(unit, paths, jobs=jobs, timeout=timeout)
