"""Verification of many exports."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from irtools.errors import IrtoolsError, OptionError, about
from irtools.fleet.outcome import Outcome
from irtools.remote import as_path

if TYPE_CHECKING:
    from irtools.lint.engine import ModelVerification, VerifyOptions

__all__ = ["verify_many"]


def verify_many(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    options: VerifyOptions | None = None,
    *,
    jobs: int = 1,
    recursive: bool = False,
    timeout: float | None = None,
    scheduler: str | None = None,
) -> Iterator[ModelVerification]:
    """Verify many exports, each as soon as all earlier ones are done.

    An export that cannot be verified does not stop the others: its ``verification`` is None and its ``error`` has the
    reason. Configuration files are not read.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        Model directories, ``.xml`` files, and patterns of them such as ``models/*``. Each export is verified once.
    options : VerifyOptions, optional
        Options, the same for all exports.
    jobs : int
        Number of processes. A script that asks for more than 1 needs ``if __name__ == "__main__":`` around the call,
        because each process imports it.
    recursive : bool
        Look in and below each path for directories with an IR.
    timeout : float, optional
        Seconds that one export may take; it is then verified in another process, also with one job.
    scheduler : str, optional
        Address of a Dask scheduler, ``tcp://host:port``, instead of ``jobs``.

    Yields
    ------
    ModelVerification
        In the order of the paths; exports of a pattern or a directory are sorted. The findings have the titles of
        their fixes, but the fixes cannot be applied.

    Raises
    ------
    UsageError
        An option is invalid, or a pattern or a directory has no export.
    ExportError
        There is no such directory to look in.

    Examples
    --------
    >>> import irtools
    >>> for one in irtools.verify_many(["fixtures/falcon", "fixtures/none"]):
    ...     print(one.path.name, one.verification or one.error)
    falcon <Verification fixtures/falcon, 2 notes>
    none fixtures/none: no such file or directory
    """
    from irtools.fleet import require_limits
    from irtools.fleet.find import find

    require_limits(jobs, timeout)

    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    found = list(map(str, find(map(as_path, paths), recursive)))
    return _verified(found, options, jobs=jobs, scheduler=scheduler, timeout=timeout)


def _verified(paths: list[str], options: VerifyOptions | None, **how: Any) -> Iterator[ModelVerification]:
    from irtools.fleet import run
    from irtools.fleet.order import InOrder

    order = InOrder()
    with closing(run(functools.partial(_row, options), paths, **how)) as outcomes:
        for outcome in outcomes:
            for ready in order.add(outcome):
                yield _restored(ready, options)


def _row(options: VerifyOptions | None, path: str) -> dict[str, Any]:
    from irtools.lint.engine import ModelVerification, verify
    from irtools.lint.rows import to_row
    from irtools.model.directory import ModelDirectory

    try:
        place = as_path(path)
        with about(place):
            return to_row(ModelVerification(place, verify(ModelDirectory.open(place), options)))
    except OptionError as error:  # every export would raise it
        return {"stop": str(error)}
    except IrtoolsError as error:
        return to_row(ModelVerification(as_path(path), error=str(error)))


def _restored(outcome: Outcome, options: VerifyOptions | None) -> ModelVerification:
    from irtools.lint.engine import ModelVerification
    from irtools.lint.rows import from_row

    if outcome.row is None:
        return ModelVerification(as_path(outcome.path), error=f"{outcome.path}: {outcome.failure}")
    if "stop" in outcome.row:
        raise OptionError(outcome.row["stop"])
    return from_row(outcome.row, options.rules if options is not None else ())
