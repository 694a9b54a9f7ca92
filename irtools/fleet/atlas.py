"""The atlas of many exports as rows."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from typing import Any

from irtools.errors import UsageError
from irtools.fleet import require_limits, run
from irtools.fleet.find import find
from irtools.fleet.order import InOrder
from irtools.lint.engine import require_runtime
from irtools.remote import as_path
from irtools.report.atlas import atlas_row, failed_row
from irtools.report.atlas_row import AtlasRow

__all__ = ["atlas"]


def atlas(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    recursive: bool = True,
    jobs: int = 1,
    scheduler: str | None = None,
    timeout: float | None = None,
    target_runtime: str | None = None,
    context: int | None = None,
) -> Iterator[AtlasRow]:
    """Chart many exports: one row for each, also for drafts and for those that fail.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        Directories below which all exports are meant, or the exports themselves.
    recursive : bool
        False if the paths are the exports themselves.
    jobs : int
        Number of processes.
    scheduler : str, optional
        Address of a Dask scheduler, which then does the work.
    timeout : float, optional
        Seconds that one export may take.
    target_runtime : str, optional
        OpenVINO GenAI release for the decoding strategies and the rules.
    context : int, optional
        Tokens in the state, for the memory; by default 4096, or what the model takes.

    Returns
    -------
    iterator of AtlasRow
        In the order of the paths, as the work goes on; those below a directory sorted.

    Raises
    ------
    UsageError
        An argument is invalid, or there is no export below a directory.
    ExportError
        There is no such directory.

    Examples
    --------
    >>> import irtools
    >>> for row in irtools.atlas(["fixtures/falcon", "fixtures/qwen3_dflash"]):
    ...     print(row.family, row.role, row.layers, row.decoding)
    falcon target 4 ('plain', 'draft')
    qwen3 dflash 2 ('dflash',)
    """
    if target_runtime is not None:
        require_runtime(target_runtime)
    if context is not None and context < 1:
        raise UsageError(f"context {context}: it must be at least 1")
    require_limits(jobs, timeout)
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    found = map(str, find(map(as_path, paths), recursive))
    unit = functools.partial(_unit, target_runtime=target_runtime, context=context)
    return _rows(unit, found, jobs=jobs, scheduler=scheduler, timeout=timeout)


def _rows(unit: Any, found: Iterable[str], **how: Any) -> Iterator[AtlasRow]:
    order = InOrder()
    for outcome in run(unit, found, **how):
        for one in order.add(outcome):
            row = one.row
            yield AtlasRow.restored(row) if row is not None else failed_row(one.path, one.failure or "")


def _unit(path: str, *, target_runtime: str | None, context: int | None) -> dict[str, Any]:
    return atlas_row(path, target_runtime=target_runtime, context=context).plain()
