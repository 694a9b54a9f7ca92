"""Write files to a new directory, either all or none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from irtools.ir.files import UNDONE, explained, flush_directory, make_directories, remove_made, temporary
from irtools.ir.listing import UNFINISHED, remove_leftover, require_empty
from irtools.timing import step

__all__ = ["create_files"]


def create_files(
    output_dir: Path,
    files: Mapping[str, bytes | Iterable[bytes | memoryview]],
    *,
    directory: Path,
    check: Callable[[Sequence[Path]], tuple[str, ...]] | None = None,
) -> tuple[str, ...]:
    """Write files to an empty or absent directory.

    The files are written under temporary names, flushed to the disk, checked, and renamed in their order. A
    failure removes everything that was created. What a killed process leaves is removed by the next call for the
    same directory.

    Parameters
    ----------
    files : mapping of str to bytes or iterable of bytes or memoryview
        Content by file name, or by path in the directory. The last file is the one that makes the others usable.
    directory : Path
        Source export; nothing may be written in it.
    check : callable, optional
        Checks the temporary files. It returns notes or raises ``CheckError``.

    Returns
    -------
    tuple of str
        Notes of the check.

    Raises
    ------
    CheckError
        The check rejects the files; nothing is left.
    SaveError
        The directory is not empty or lies inside the export, or a file could not be written; nothing is
        left. If only the flush of the directory failed, all files are there and the message says so.
    """
    with explained(output_dir, state="nothing was created"):
        require_empty(output_dir, directory, in_place=False)
        remove_leftover(output_dir, set(map(Path, files)))
    made: list[Path] = []
    try:
        with explained(output_dir, state=UNDONE):
            make_directories([output_dir, *dict.fromkeys((output_dir / name).parent for name in files)], made)
        with contextlib.ExitStack() as stack:
            with explained(output_dir, state=UNDONE):
                stack.enter_context(temporary(output_dir / UNFINISHED, b"", None))
            ready: dict[Path, Path] = {}
            for name, data in files.items():
                target = output_dir / name
                with step(f"Writing {target}"), explained(target, state=UNDONE):
                    ready[target] = stack.enter_context(temporary(target, data, None))
            notes = check(tuple(ready.values())) if check is not None else ()
            for target, new in ready.items():
                made.append(target)
                with explained(target, state=UNDONE):
                    new.replace(target)
    except BaseException:
        remove_made(made)
        raise
    flush_directory(output_dir / list(files)[-1])
    return notes
