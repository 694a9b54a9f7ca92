"""Keys of exports: what a row of an export depends on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from irtools.errors import IrtoolsError
from irtools.fleet.installed import installed
from irtools.ir.files import SUFFIX
from irtools.ir.reading import chunks, open_file, read_limit
from irtools.lint.configuration import find_config, load_config

__all__ = ["keys"]

_READ = (".xml", ".toml", ".py")
"""Files whose content counts, not only size and time."""


def keys(settings: object = (), *, without: Path | None = None) -> Callable[[str], str]:
    """Function for the key of an export: a digest of everything that its row depends on.

    That is size and time of change of every file of the export, the content of its XML files, the same of every path in
    the settings, the configuration file of the working directory, and what is installed. All but the export is read
    once.

    Parameters
    ----------
    settings : object
        The options: text, numbers, paths, enums, and tuples, mappings and dataclasses of them.
    without : Path, optional
        File that changes during the run, and so is left out where it lies in an export.

    Returns
    -------
    callable
        Takes a model directory or ``.xml`` file, whose spelling counts because it is in the row. Returns ``""`` if the
        key cannot be told, as for an export that cannot be read or a URL: such a row is computed each time.
    """
    found, _ = find_config(Path())
    left_out = os.path.realpath(without) if without is not None else ""
    common = [dict(installed()), read_limit("xml").size, _told(settings), _told(found)]

    def key(path: str) -> str:
        try:
            if "://" in path or not Path(path).exists():
                return ""
            told = json.dumps([path, common, _files(Path(path), left_out)])
        except OSError:
            return ""
        return hashlib.sha256(told.encode()).hexdigest()

    return key


def _told(value: Any) -> Any:
    """A setting as JSON. Fields of dataclasses that begin with an underscore are no settings."""
    if value is None or isinstance(value, str | int | float):
        return [value.name] if isinstance(value, Enum) else value
    if isinstance(value, Path):
        return [str(value), *_beside(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return [type(value).__name__, *([name, _told(getattr(value, name))] for name in names)]
    if isinstance(value, dict):
        return [[_told(key), _told(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    raise TypeError(f"{type(value).__name__} is no setting")


def _beside(path: Path) -> Iterator[Any]:
    """What a path of the settings stands for, and what a configuration file names in its turn."""
    try:
        yield _files(path) if path.exists() else []
        if path.suffix == ".toml":
            config = load_config(path)
            yield _told([config.baseline, config.rules])
    except (OSError, IrtoolsError):  # the command has words for it
        yield None


def _files(path: Path, left_out: str = "") -> list[Any]:
    """Name, size and time of a file or of the files of a directory, and the content of each that is read as a whole.

    The directory of an ``.xml`` is meant with it. Folders that are exports of their own do not belong to it.
    """
    if path.suffix == ".xml" and not path.is_dir():
        path = path.parent
    if not path.is_dir():
        return [_file(path)]
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
    if path.suffix.lower() in _READ and path.is_file() and status.st_size <= read_limit("xml").size:
        digest = hashlib.sha256()
        with open_file(path) as file:
            for piece in chunks(file, status.st_size):
                digest.update(piece)
        told.append(digest.hexdigest())
    return told
