"""Temporary copies of an export with another draft head, made of links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from irtools.errors import UsageError
from irtools.ir.files import scratch
from irtools.ir.listing import link_files
from irtools.model.directory import ModelDirectory
from irtools.surgery.graft.target import grafting
from irtools.surgery.transaction import apply

__all__ = ["grafted"]


@contextmanager
def grafted(export: ModelDirectory, rows: int, instead: str) -> Iterator[Path]:
    """A temporary copy of an export, made of links, whose target has a draft head over ``rows`` tokens.

    Parameters
    ----------
    instead : str
        Advice for a file system without links, as a clause.

    Raises
    ------
    UsageError
        Links are impossible.
    EditError, LocateRefusedError
        The draft head is impossible.
    """
    target = export.target
    patch = apply(target, grafting(target, rows, force=True).edits)
    with scratch("graft") as copy:
        try:
            link_files(export.directory, copy, {target.path.name})
        except OSError as error:
            raise UsageError(
                f"a copy of the export cannot be made from links in {copy} ({error}); {instead}"
            ) from error
        (copy / target.path.name).write_bytes(patch.data)
        yield copy
