"""Write new files into a new directory: all of them, or none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from irtools.ir.files import explained, flush_directory, make_directories, remove_made, temporary
from irtools.ir.listing import require_empty

__all__ = ["create_files"]

_UNDONE = "what had been created was removed"


def create_files(
    output_dir: Path,
    files: Mapping[str, bytes | Iterable[bytes | memoryview]],
    *,
    directory: Path,
    check: Callable[[Sequence[Path]], tuple[str, ...]] | None = None,
) -> tuple[str, ...]:
    """Write files into an empty or absent directory.

    They are written under temporary names, flushed to the disk, checked, and renamed in their order. A
    failure removes what was created. A kill can leave hidden temporary files, and between two renames those
    of ``files`` that come first.

    Parameters
    ----------
    output_dir : Path
    files : mapping of str to bytes or iterable of bytes or memoryview
        Content by file name; what makes the others count comes last.
    directory : Path
        The export that they come from, in which nothing is written.
    check : callable, optional
        Judges the temporary files; returns notes, or raises ``CheckError``.

    Returns
    -------
    tuple of str
        What the check had to say.

    Raises
    ------
    CheckError
        The check refuses the files; nothing is left.
    SaveError
        The directory is not empty or lies inside the export, or a file could not be written: nothing is left.
        Or all is written and could not be flushed, as the message then says.
    """
    with explained(output_dir, state="nothing was created"):
        require_empty(output_dir, directory, in_place=False)
    made: list[Path] = []
    try:
        with explained(output_dir, state=_UNDONE):
            make_directories([output_dir], made)
        notes = _write(output_dir, files, check, made)
    except BaseException:
        remove_made(made)
        raise
    flush_directory(output_dir / list(files)[-1])
    return notes


def _write(
    output_dir: Path,
    files: Mapping[str, bytes | Iterable[bytes | memoryview]],
    check: Callable[[Sequence[Path]], tuple[str, ...]] | None,
    made: list[Path],
) -> tuple[str, ...]:
    with contextlib.ExitStack() as stack:
        ready: dict[Path, Path] = {}
        for name, data in files.items():
            target = output_dir / name
            with explained(target, state=_UNDONE):
                ready[target] = stack.enter_context(temporary(target, data, None))
        notes = check(tuple(ready.values())) if check is not None else ()
        for target, new in ready.items():
            made.append(target)
            with explained(target, state=_UNDONE):
                new.replace(target)
        return notes
