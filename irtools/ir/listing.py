"""Look at a directory: is it empty, what is in it, and does it only hold exports."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from irtools.errors import ExportError, SaveError

__all__ = ["list_export", "meant_instead", "real_path", "require_empty"]


_SHOWN = 3
"""How many folders a question names."""


def meant_instead(directory: Path, targets: Collection[str]) -> str:
    """Ask for one of the folders of a directory that are exports, or else for an export.

    Parameters
    ----------
    directory : Path
        Without an IR of its own.
    targets : collection of str
        Names of which an export has one.

    Returns
    -------
    str
        The end of an error's sentence.
    """
    # Not `Path.is_file`: it raises for a folder that may not be looked into.
    holds = {folder: any(os.path.isfile(folder / name) for name in targets) for folder in directory.iterdir()}  # noqa: PTH113
    found = sorted(folder for folder, is_export in holds.items() if is_export)
    if not found:
        return "give an OpenVINO export"
    more = ", ..." if len(found) > _SHOWN else ""
    return f"did you mean {', '.join(map(str, found[:_SHOWN]))}{more}?"


def require_empty(output_dir: Path, directory: Path, *, in_place: bool = True) -> None:
    """Refuse an output directory that is not empty or lies inside the export.

    Parameters
    ----------
    output_dir : Path
    directory : Path
        The export.
    in_place : bool
        Whether what is to be written could take the place of what is there.

    Raises
    ------
    SaveError
    OSError
        It cannot be looked into.
    """
    source, output = real_path(directory), real_path(output_dir)
    if output == source:
        instead = "leave out --output-dir to write in place" if in_place else "give an empty or new directory"
        raise SaveError(f"is the export itself; {instead}", path=output_dir)
    if source in output.parents:
        raise SaveError(f"lies inside the export; give an --output-dir outside of {directory}", path=output_dir)
    try:
        first = next(output_dir.iterdir(), None)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise SaveError("is a file, or lies below one; give an empty or new directory", path=output_dir) from None
    if first is not None:
        raise SaveError(f"is not empty (it holds {first.name}); give an empty or new directory", path=output_dir)


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
    pending = [(directory, frozenset({real_path(directory)}))]
    while pending:
        folder, above = pending.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.is_dir():
                if real_path(path) in above:
                    raise SaveError("links to a directory that it lies in; remove the link", path=path)
                folders.append(path.relative_to(directory))
                pending.append((path, above | {real_path(path)}))
            elif entry.is_file() and not entry.name.endswith(leave_out):
                files[path.relative_to(directory)] = real_path(path)
            elif entry.is_symlink():
                raise SaveError("is a link to nothing; download the file that it stands for, or remove it", path=path)
    return folders, dict(sorted(files.items(), key=lambda item: item[0].suffix == ".xml"))


def real_path(path: Path) -> Path:
    """Resolve symbolic links; not ``Path.resolve``, whose errors for circular ones differ between Pythons.

    Raises
    ------
    ExportError
        A relative path, and the working directory has been deleted.
    """
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise ExportError("the working directory is gone; change to another one", path=path) from error
