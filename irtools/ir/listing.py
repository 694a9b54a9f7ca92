"""Inspect directories: list an export, require an empty directory, suggest exports in sub-directories."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from irtools.errors import ExportError, SaveError
from irtools.ir.reading import open_file

__all__ = ["holds_ir", "link_files", "list_export", "meant_instead", "real_path", "require_empty"]


_ROOT = re.compile(rb"\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*|<![A-Z].*?>\s*)*<([^\s/>!?]+)", re.DOTALL)
_BEGINNING = 1 << 16
_SHOWN = 3
"""Number of folders that a suggestion names."""


def meant_instead(directory: Path, targets: Collection[str]) -> str:
    """Advice for a directory without an IR: name the sub-directories with one of the targets, or ask for an export."""
    # Not `Path.is_file`, which raises in a directory without search permission.
    exports = sorted(path for path in directory.iterdir() if any(os.path.isfile(path / name) for name in targets))  # noqa: PTH113
    if not exports:
        return "give an OpenVINO export"
    more = ", ..." if len(exports) > _SHOWN else ""
    return f"did you mean {', '.join(map(str, exports[:_SHOWN]))}{more}?"


def holds_ir(directory: Path) -> bool:
    """True if a directory holds an IR, or an ``.xml`` that could be one because its root element cannot be told.

    An ``.xml`` with another root element, such as a test report, is none.
    """
    try:
        names = [entry.name for entry in os.scandir(directory) if entry.name.lower().endswith(".xml")]
    except OSError:
        return True  # nothing is known of it
    return any(name.startswith("openvino_") for name in names) or any(_may_be_ir(directory / name) for name in names)


def _may_be_ir(path: Path) -> bool:
    try:
        with open_file(path) as file:
            # Without NUL bytes and the mark, text in UTF-16 is readable too.
            beginning = file.read(_BEGINNING).replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe")
    except OSError:
        return True
    root = _ROOT.match(beginning)
    return root is None or root[1] == b"net"


def link_files(directory: Path, into: Path, leave_out: Collection[str]) -> None:
    """Fill a directory with symbolic links to the files and folders of another one."""
    for path in directory.iterdir():
        if path.name not in leave_out:
            (into / path.name).symlink_to(real_path(path))


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
    try:
        first = next(output_dir.iterdir(), None)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise SaveError("is a file, or lies below one; give an empty or new directory", path=output_dir) from None
    if first is not None:
        raise SaveError(
            f"the directory is not empty (it contains {first.name}); give an empty or new one", path=output_dir
        )


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
        There is a dangling or circular link.
    OSError
        A directory cannot be read.
    """
    # Not `os.walk`, which neither reports circular links nor raises for an unreadable directory by default.
    folders: list[Path] = []
    files: dict[Path, Path] = {}
    pending = [(directory, frozenset({real_path(directory)}))]
    while pending:
        folder, above = pending.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.is_dir():
                if real_path(path) in above:
                    raise SaveError("is a link to a directory that contains it; remove the link", path=path)
                folders.append(path.relative_to(directory))
                pending.append((path, above | {real_path(path)}))
            elif entry.is_file() and not entry.name.endswith(leave_out):
                files[path.relative_to(directory)] = real_path(path)
            elif entry.is_symlink():
                raise SaveError("is a link to nothing; download the missing file, or remove the link", path=path)
    return folders, dict(sorted(files.items(), key=lambda item: item[0].suffix == ".xml"))


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
