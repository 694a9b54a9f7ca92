"""The cache of exports at a URL: where it is, what it has, its limit."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from irtools.errors import ExportError
from irtools.ir.reading import parse_json

__all__ = [
    "DEFAULT_LIMIT",
    "STATE",
    "Cached",
    "cache_folder",
    "cached",
    "clear",
    "exports_folder",
    "limit",
    "load",
    "place_of",
    "save",
    "set_limit",
    "trim",
]

DEFAULT_LIMIT = 5 << 30
"""Bytes on the disk."""
STATE = "state.json"
_SETTINGS = "settings.json"
_LARGEST_STATE = 64 << 20
_IN_USE = 3600.0
"""Seconds after its last use in which an export is not removed to keep the limit."""


@dataclass(frozen=True, slots=True)
class Cached:
    """An export in the cache.

    Attributes
    ----------
    url : str
        Root of the export.
    revision : str
        Commit at the hub; ``""`` elsewhere.
    size : int
        Bytes on the disk.
    used : float
        Time of the last use, in seconds since the epoch.
    """

    folder: Path
    url: str
    revision: str
    size: int
    used: float


def cache_folder() -> Path:
    """The folder of irtools in the cache folder that the platform gives to a user."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        return Path(base) / "irtools" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "irtools"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "irtools"


def exports_folder() -> Path:
    """The folder with a folder for each export; it is made, for its user only.

    Raises
    ------
    ExportError
        It cannot be made.
    """
    folder = cache_folder() / "exports"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name != "nt":
            folder.chmod(0o700)  # it can hold files of private repositories
    except OSError as error:
        raise ExportError(f"the cache cannot be created: {error.strerror}; set XDG_CACHE_HOME", path=folder) from error
    return folder


def place_of(*words: str) -> str:
    """Name of a file or folder that stands for some words."""
    return hashlib.sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def load(path: Path) -> dict[str, Any]:
    """A JSON object of the cache; empty if it is missing or not whole."""
    try:
        if path.stat().st_size > _LARGEST_STATE:
            return {}
        value = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def save(path: Path, value: object) -> None:
    """Write a JSON file whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value), "utf-8")
    temporary.replace(path)


def limit() -> int:
    """Bytes that the cache may take on the disk."""
    value = load(cache_folder() / _SETTINGS).get("limit")
    return value if isinstance(value, int) and value >= 0 else DEFAULT_LIMIT


def set_limit(size: int) -> None:
    """Keep another limit from now on."""
    exports_folder()
    save(cache_folder() / _SETTINGS, {"limit": size})


def cached() -> list[Cached]:
    """Exports in the cache, the one that was used last first."""
    folder = cache_folder() / "exports"
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                path = Path(entry.path)
                state = load(path / STATE)
                found.append(
                    Cached(path, str(state.get("url", "")), str(state.get("revision", "")), _size(path), _used(path))
                )
    return sorted(found, key=lambda one: -one.used)


def clear(exports: Iterable[Cached], *, all_: bool = False) -> int:
    """Remove exports from the cache, and with ``all_`` what it remembers besides; returns the bytes that were freed.

    Raises
    ------
    ExportError
        An export cannot be removed.
    """
    freed = 0
    for one in exports:
        try:
            shutil.rmtree(one.folder)
        except OSError as error:
            raise ExportError(f"cannot be removed: {error.strerror}", path=one.folder) from error
        freed += one.size
    if all_:
        for name in ("refs", "locks"):
            shutil.rmtree(cache_folder() / name, ignore_errors=True)
    return freed


def trim(keep: Path) -> None:
    """Remove the exports that were not used for the longest time, until the cache keeps its limit."""
    most, found = limit(), cached()
    total = sum(one.size for one in found)
    for one in reversed(found):
        if total <= most:
            return
        if one.folder != keep and time.time() - one.used > _IN_USE:
            with contextlib.suppress(ExportError):
                total -= clear([one])


def _used(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return (folder / STATE).stat().st_mtime
    return 0.0


def _size(folder: Path) -> int:
    """Bytes that a folder takes on the disk, which are fewer than the sizes of its sparse files."""
    return sum(_on_disk(status) for status in _statuses(folder))


def _statuses(folder: Path) -> Iterator[os.stat_result]:
    pending = [str(folder)]
    while pending:
        with contextlib.suppress(OSError):
            for entry in os.scandir(pending.pop()):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    yield entry.stat(follow_symlinks=False)


def _on_disk(status: os.stat_result) -> int:
    blocks: int | None = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else blocks * 512
