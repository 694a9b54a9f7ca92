"""Exports that paths, patterns and directories stand for."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from irtools.errors import ExportError, UsageError
from irtools.ir.listing import may_be_ir, real_path
from irtools.ir.mistaken import missing_instead
from irtools.remote import as_path, expand
from irtools.text import is_url

__all__ = ["find", "real_place"]

_HUB = re.compile(r"(?:models|datasets|spaces)--.+")
"""Folder of a repository in the cache of huggingface_hub; it has a folder for each revision below ``snapshots``."""


def find(
    paths: Iterable[Path], recursive: bool = False, *, skipped: Callable[[Path, str], None] | None = None
) -> Iterator[Path]:
    """Find exports, in the order of the paths and each once; those of a pattern or a directory come sorted.

    A path that exists, or that is no pattern, stands for itself; the URL of an organisation for all exports. A pattern
    (``*``, ``?``, ``[...]`` and ``**`` for any depth) stands for the directories with an IR and the ``.xml`` files that
    match; links are not followed below ``**``.

    Parameters
    ----------
    recursive : bool
        Look below each path for directories with an IR, but not below a URL. Hidden directories are left out, and so
        are links to directories. A directory that cannot be read counts as an export, because nobody knows what is in
        it: whoever opens it gets the reason.
    skipped : callable, optional
        Gets each link to a directory outside of the path that is not followed, and the reason as a clause.

    Raises
    ------
    UsageError
        A pattern matches no export, or there is none below a path.
    ExportError
        There is no such directory to look in.
    """
    seen: set[Path | str] = set()
    for path in paths:
        found = _below(path, skipped) if recursive and not is_url(str(path)) else _meant(path)
        for one in found:
            real = real_place(one)
            if real not in seen:
                seen.add(real)
                yield one


def real_place(path: Path) -> Path | str:
    """What two paths of one export have in common; of one at a URL the URL, which is not opened for this."""
    return str(path) if is_url(str(path)) else real_path(path)


def _meant(path: Path) -> Iterator[Path]:
    if is_url(str(path)):
        yield from map(as_path, expand(str(path)))
        return
    if os.path.lexists(path) or not glob.has_magic(str(path)):
        yield path
        return
    matches = _matches_below(path) if "**" in path.parts else _matches(path)
    first = next(matches, None)
    if first is None:
        raise UsageError(f"no export matches {str(path)!r}", hint="A pattern matches directories with an IR, or .xml.")
    yield first
    yield from matches


def _matches(pattern: Path) -> Iterator[Path]:
    for path in _globbed(pattern):
        if path.suffix == ".xml" if path.is_file() else _is_export(path):
            yield path


def _matches_below(pattern: Path) -> Iterator[Path]:
    """Matches of a pattern with ``**``: not by :mod:`glob`, which follows links in circles."""
    depth = pattern.parts.index("**")
    start, rest = Path(*pattern.parts[:depth]), pattern.parts[depth:]
    for root in filter(Path.is_dir, _globbed(start)):
        for export in _walk(root, None):
            if _fits(export.relative_to(root).parts, rest):
                yield export
            elif rest[-1].endswith(".xml"):
                files = (export / name for name in _scan(export)[0])
                yield from (file for file in files if _fits(file.relative_to(root).parts, rest))


def _globbed(pattern: Path) -> list[Path]:
    # Not `Path.glob`, which takes no absolute pattern.
    return [Path(match) for match in sorted(glob.iglob(str(pattern)))]  # noqa: PTH207


def _fits(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[number:], pattern[1:]) for number in range(len(parts) + 1))
    return bool(parts) and fnmatch(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _below(root: Path, skipped: Callable[[Path, str], None] | None) -> Iterator[Path]:
    if not root.is_dir():
        if os.path.lexists(root):
            raise ExportError("is no directory to look in", path=root, hint="Give it without --recursive.")
        raise ExportError("no such directory", path=root, hint=missing_instead(root) or None)
    exports = _walk(root, skipped)
    first = next(exports, None)
    if first is None:
        raise UsageError("there is no export in or below this directory", path=root)
    yield first
    yield from exports


def _walk(root: Path, skipped: Callable[[Path, str], None] | None) -> Iterator[Path]:
    """Directories with an IR in and below a directory, each before those in it, sorted by name."""
    # A stack of its own: recursion would limit the depth. It holds the siblings that are still to come.
    pending = [root]
    inside = real_path(root)
    while pending:
        directory = pending.pop()
        try:
            names, folders, links = _scan(directory)
        except OSError:
            yield directory
            continue
        if any(name.startswith("openvino_") for name in names) or any(may_be_ir(directory / name) for name in names):
            yield directory
        if skipped is not None:
            for link in links:
                if not real_path(directory / link).is_relative_to(inside):
                    skipped(
                        directory / link, "a link to another place, which is not followed; give its path to include it"
                    )
        pending += [directory / name for name in reversed(folders)]


def _scan(directory: Path) -> tuple[list[str], list[str], list[str]]:
    """Names of the ``.xml`` files, of the folders to look in, and of the links to folders; each sorted."""
    xmls: list[str] = []
    folders: list[str] = []
    links: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            link = entry.is_symlink()  # `entry.is_dir` would raise for one in a circle
            if not (Path(entry.path).is_dir() if link else entry.is_dir()):
                if entry.name.endswith(".xml"):
                    xmls.append(entry.name)
            elif not entry.name.startswith("."):
                (links if link else folders).append(entry.name)
    if _HUB.fullmatch(directory.name) and "snapshots" in folders:
        folders = ["snapshots"]
    return sorted(xmls), sorted(folders), sorted(links)


def _is_export(path: Path) -> bool:
    try:
        names = _scan(path)[0]
    except NotADirectoryError:
        return False
    except OSError:
        return True
    return any(name.startswith("openvino_") or may_be_ir(path / name) for name in names)
