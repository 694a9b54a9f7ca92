"""The one module that writes files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Check", "Progress", "Saved", "save_export", "save_file"]

Check = Callable[[Path], tuple[str, ...]]
"""Judges the temporary file; returns notes, or raises ``CheckError``."""
Progress = Callable[[Path, int, int], None]
"""Called while weights are copied: file, bytes done, bytes in all."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One file that was written.

    Attributes
    ----------
    path : Path
    replaced_link : Path or None
        What the symbolic link that was replaced had pointed to; that file is as it was.
    notes : tuple of str
        What the check had to say.
    """

    path: Path
    replaced_link: Path | None = None
    notes: tuple[str, ...] = ()


def save_file(path: Path, data: bytes, *, original: bytes, check: Check | None = None) -> Saved:
    """Replace a file in one step.

    After a failure or a crash at any point the old file or the new one is there, whole.

    Parameters
    ----------
    path : Path
        The file; a symbolic link is replaced, never written through.
    data : bytes
        The new content.
    original : bytes
        What the file is expected to hold now.
    check : callable, optional
        Judges the new file (under a temporary name beside ``path``) before it takes its place.

    Raises
    ------
    SaveError
        It could not be written, changed meanwhile, or another irtools is at work on it.
    """
    raise NotImplementedError


def save_export(
    directory: Path,
    changed: Mapping[Path, bytes],
    output_dir: Path,
    *,
    checks: Mapping[Path, Check] | None = None,
    progress: Progress | None = None,
) -> tuple[Saved, ...]:
    """Write a complete export into an empty or absent directory.

    Weights are cloned, else hard-linked, else copied. A failure removes what was created.

    Parameters
    ----------
    directory : Path
        The export to copy.
    changed : mapping of Path to bytes
        New content of some of its files.
    output_dir : Path
    checks : mapping of Path to callable, optional
        By file of ``changed``.
    progress : callable, optional

    Raises
    ------
    SaveError
    """
    raise NotImplementedError
