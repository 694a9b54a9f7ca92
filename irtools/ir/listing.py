"""Directories of exports: list or link their files, require an empty one, refuse links out of them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from irtools.errors import ExportError, SaveError
from irtools.ir.files import SUFFIX, abandoned
from irtools.ir.reading import open_file

__all__ = [
    "UNFINISHED",
    "holds_ir",
    "link_file",
    "link_files",
    "list_export",
    "may_be_ir",
    "real_path",
    "refuse_link",
    "remove_leftover",
    "require_empty",
]

UNFINISHED = "unfinished"
"""Name of the marker, as a temporary file, in a directory that is being filled."""
_ROOT = re.compile(rb"\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*|<![A-Z].*?>\s*)*<([^\s/>!?]+)", re.DOTALL)
_BEGINNING = 1 << 16


def holds_ir(directory: Path) -> bool:
    """True if a directory holds an IR, or an ``.xml`` that could be one because its root element cannot be told.

    An ``.xml`` with another root element, such as a test report, is none.
    """
    try:
        names = [entry.name for entry in os.scandir(directory) if entry.name.lower().endswith(".xml")]
    except OSError:
        return True  # nothing is known of it
    return any(name.startswith("openvino_") for name in names) or any(may_be_ir(directory / name) for name in names)


def may_be_ir(path: Path) -> bool:
    """True if a file is an IR, or could be one because its root element cannot be told."""
    try:
        with open_file(path) as file:
            # Without NUL bytes and the mark, text in UTF-16 is readable too.
            beginning = file.read(_BEGINNING).replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe")
    except OSError:
        return True
    root = _ROOT.match(beginning)
    return root is None or root[1] == b"net"


def link_file(source: Path, target: Path) -> None:
    """Make a symbolic link; a hard link or a copy of a file where the system refuses it, as Windows may."""
    try:
        target.symlink_to(source, target_is_directory=source.is_dir())
        return
    except OSError:
        if source.is_dir():
            raise
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def link_files(directory: Path, into: Path, leave_out: Collection[str]) -> None:
    """Fill a directory with symbolic links to the files and folders of another one."""
    for path in directory.iterdir():
        if path.name not in leave_out:
            link_file(real_path(path), into / path.name)


def require_empty(output_dir: Path, directory: Path, *, in_place: bool = True) -> None:
    """Refuse an output directory that is not empty or lies inside the export.

    If the command can also write ``in_place``, the message says so.

    Raises
    ------
    SaveError
        The directory is refused.
    OSError
        The directory cannot be read.
    """
    source, output = real_path(directory), real_path(output_dir)
    if output == source:
        instead = "leave out --output-dir to write in place" if in_place else "give an empty or new directory"
        raise SaveError(f"is the export itself; {instead}", path=output_dir)
    if source in output.parents:
        raise SaveError(f"lies inside the export; give an --output-dir outside of {directory}", path=output_dir)
    refuse_link(output_dir, [directory], "directory")
    try:
        first = next(output_dir.iterdir(), None)
        if first is not None and any(map(_marks_leftover, output_dir.iterdir())):
            return  # the command removes it, or says why not
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise SaveError("is a file, or lies below one; give an empty or new directory", path=output_dir) from None
    if first is not None:
        raise SaveError(
            f"the directory is not empty (it contains {first.name}); give an empty or new one", path=output_dir
        )


def refuse_link(path: Path, exports: Iterable[Path] = (), noun: str = "file") -> None:
    """Refuse an output path with a link in it that could have come with an export.

    Parameters
    ----------
    exports : iterable of Path
        Model directories of the command. A link in one of them, in the two directories above it, or in another
        directory with an IR is refused.

    Raises
    ------
    SaveError
        Names the link.
    """
    whole = Path(os.path.abspath(path))  # noqa: PTH100  # `resolve` would follow the links
    links = [one for one in (whole, *whole.parents) if one.is_symlink()]
    if not links:
        return
    roots = {root for export in map(real_path, exports) for root in (export, *export.parents[:2])}
    below = {real_path(export) for export in exports}
    for link in links:
        place = real_path(link.parent)
        near = place in roots and place.parent != place  # many have a link in the root of the file system
        if near or any(place.is_relative_to(export) for export in below) or holds_ir(place):
            if not link.exists():
                raise SaveError(f"is a link to nothing; remove it, or give another {noun}", path=link)
            raise SaveError(
                f"is a link to {link.readlink()} that could have come with the export, so nothing is written through "
                f"it; remove the link, or give another {noun}",
                path=link,
            )


def _marks_leftover(path: Path) -> bool:
    return path.name.startswith(f".{UNFINISHED}.") and path.name.endswith(SUFFIX) and abandoned(path.name)


def remove_leftover(output_dir: Path, planned: Collection[Path]) -> None:
    """Empty a directory in which a run of the same command was killed; one without its marker stays as it is.

    Parameters
    ----------
    planned : collection of Path
        Files and folders that the command is about to create, relative to ``output_dir``.

    Raises
    ------
    SaveError
        The directory contains something else too; nothing was removed.
    OSError
        It cannot be read or emptied.
    """
    if not output_dir.is_dir() or not any(map(_marks_leftover, output_dir.iterdir())):
        return
    files: list[Path] = []
    folders: list[Path] = []
    pending = [output_dir]
    while pending:
        for entry in os.scandir(pending.pop()):
            path = Path(entry.path)
            if path.relative_to(output_dir) not in planned and not (
                entry.name.endswith(SUFFIX) and abandoned(entry.name)
            ):
                raise SaveError(
                    f"the directory is not empty (it contains {path.relative_to(output_dir)} beside what a killed run "
                    "left); give an empty or new one",
                    path=output_dir,
                )
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
                pending.append(path)
            else:
                files.append(path)
    for path in files:
        path.unlink()
    for path in reversed(folders):
        path.rmdir()


def list_export(directory: Path, *, leave_out: str) -> tuple[list[Path], dict[Path, Path]]:
    """List a directory recursively, without files that have the suffix ``leave_out``.

    Returns
    -------
    list of Path
        Sub-directories, relative to ``directory``.
    dict of Path to Path
        Files relative to ``directory``, with their resolved paths; IR files last.

    Raises
    ------
    SaveError
        There is a dangling or circular link, or one to a file outside of the export. A link of a Hugging Face cache
        points at a blob of its own repository, which belongs to the export.
    OSError
        A directory cannot be read.
    """
    # Not `os.walk`, which neither reports circular links nor raises for an unreadable directory by default.
    folders: list[Path] = []
    files: dict[Path, Path] = {}
    inside = _own_places(directory)
    pending = [(directory, frozenset({real_path(directory)}))]
    while pending:
        folder, above = pending.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.is_dir():
                if real_path(path) in above:
                    raise SaveError("is a link to a directory that contains it; remove the link", path=path)
                _require_inside(path, inside)
                folders.append(path.relative_to(directory))
                pending.append((path, above | {real_path(path)}))
            elif entry.is_file() and not entry.name.endswith(leave_out):
                _require_inside(path, inside)
                files[path.relative_to(directory)] = real_path(path)
            elif entry.is_symlink():
                raise SaveError("is a link to nothing; download the missing file, or remove the link", path=path)
    return folders, dict(sorted(files.items(), key=lambda item: item[0].suffix == ".xml"))


def _own_places(directory: Path) -> tuple[Path, ...]:
    """Directories whose files belong to an export: its own, and the blobs of a snapshot in a Hugging Face cache."""
    real = real_path(directory)
    above = next((parent.parent for parent in (real, *real.parents) if parent.name in ("snapshots", "snapshot")), None)
    blobs = above / "blobs" if above is not None else None
    return (real, blobs) if blobs is not None and blobs.is_dir() and not blobs.is_symlink() else (real,)


def _require_inside(path: Path, inside: Iterable[Path]) -> None:
    target = real_path(path)
    if not any(target.is_relative_to(place) for place in inside):
        raise SaveError(
            f"is a link to {target}, outside of the export, and is not copied; put the file in its place if it belongs "
            "to the export, or remove the link",
            path=path,
        )


def real_path(path: Path) -> Path:
    """Resolve symbolic links.

    Raises
    ------
    ExportError
        The path is relative and the working directory was deleted.
    """
    # Not `Path.resolve`, whose errors for circular links differ between Python versions.
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise ExportError("the working directory no longer exists; change to another one", path=path) from error
