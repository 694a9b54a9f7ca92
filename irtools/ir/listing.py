"""Look at a directory before an export is written: is it empty, and what is in it."""

from __future__ import annotations

import os
from pathlib import Path

from irtools.errors import SaveError

__all__ = ["list_export", "require_empty"]


def require_empty(output_dir: Path, directory: Path) -> None:
    """Refuse an output directory that is not empty or lies inside the export.

    Parameters
    ----------
    output_dir : Path
    directory : Path
        The export.

    Raises
    ------
    SaveError
    OSError
        It cannot be looked into.
    """
    source, output = _real(directory), _real(output_dir)
    if output == source:
        raise SaveError(f"{output_dir}: is the export itself; leave out --output-dir to write in place")
    if source in output.parents:
        raise SaveError(f"{output_dir}: lies inside the export; give an --output-dir outside of {directory}")
    try:
        first = next(output_dir.iterdir(), None)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise SaveError(f"{output_dir}: is a file, or lies below one; give an empty or new directory") from None
    if first is not None:
        raise SaveError(f"{output_dir}: is not empty (it holds {first.name}); give an empty or new directory")


def list_export(directory: Path, *, leave_out: str) -> tuple[list[Path], dict[Path, Path]]:
    """Everything in a directory, sub-directories too.

    Parameters
    ----------
    directory : Path
    leave_out : str
        Suffix of files that are not listed.

    Returns
    -------
    list of Path
        Sub-directories, relative to it.
    dict of Path to Path
        Files, relative to it, and what they resolve to; IR files last.

    Raises
    ------
    SaveError
        A link that leads nowhere or in a circle.
    OSError
        A directory cannot be read.
    """
    folders: list[Path] = []
    files: dict[Path, Path] = {}
    pending = [(directory, frozenset({_real(directory)}))]
    while pending:
        folder, above = pending.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.is_dir():
                if _real(path) in above:
                    raise SaveError(f"{path}: links to a directory that it lies in; remove the link")
                folders.append(path.relative_to(directory))
                pending.append((path, above | {_real(path)}))
            elif entry.is_file() and not entry.name.endswith(leave_out):
                files[path.relative_to(directory)] = _real(path)
            elif entry.is_symlink():
                raise SaveError(f"{path}: is a link to nothing; download the file that it stands for, or remove it")
    return folders, dict(sorted(files.items(), key=lambda item: item[0].suffix == ".xml"))


def _real(path: Path) -> Path:
    """Resolve symbolic links; not ``Path.resolve``, whose errors for circular ones differ between Pythons."""
    return Path(os.path.realpath(path))
