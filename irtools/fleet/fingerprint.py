"""Fingerprints of exports: whether one has changed since it was worked on."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from irtools.ir.files import SUFFIX
from irtools.ir.reading import chunks, open_file, read_limit

__all__ = ["fingerprint"]


def fingerprint(path: str, *, without: Path) -> str:
    """Digest of size and time of change of every file of an export, and of the content of its XML files.

    Parameters
    ----------
    path : str
        Model directory or ``.xml`` file.
    without : Path
        File that changes meanwhile, and is left out where it lies in the export.

    Returns
    -------
    str
        ``""`` if it cannot be told, as for an export that cannot be read or a URL.
    """
    try:
        if "://" in path or not Path(path).exists():
            return ""
        files = _files(Path(path), os.path.realpath(without))
    except OSError:
        return ""
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def _files(path: Path, left_out: str) -> list[Any]:
    """Name, size and time of the files of an export, and a digest of each of its XML files.

    The directory of an ``.xml`` is meant with it. Folders that are exports of their own do not belong to it.
    """
    if path.suffix == ".xml" and not path.is_dir():
        path = path.parent
    told = []
    pending = [(path, "")]
    while pending:
        folder, prefix = pending.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and not _is_export(Path(entry.path)):
                    pending.append((Path(entry.path), f"{name}/"))
            elif not entry.name.endswith(SUFFIX) and os.path.realpath(entry.path) != left_out:
                told.append([name, *_file(Path(entry.path))])
    return told


def _is_export(folder: Path) -> bool:
    return any(entry.name.startswith("openvino_") and entry.name.endswith(".xml") for entry in os.scandir(folder))


def _file(path: Path) -> list[Any]:
    try:
        status = path.stat()
    except FileNotFoundError:  # a link to nothing
        return [str(path.readlink())] if path.is_symlink() else []
    told: list[Any] = [status.st_size, status.st_mtime_ns, os.path.realpath(path)]
    if path.suffix.lower() == ".xml" and path.is_file() and status.st_size <= read_limit("xml").size:
        digest = hashlib.sha256()
        with open_file(path) as file:
            for piece in chunks(file, status.st_size):
                digest.update(piece)
        told.append(digest.hexdigest())
    return told
