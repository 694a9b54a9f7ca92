"""Files of an export at a URL, as its server lists them, and which of their names can be files here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from irtools.errors import RemoteError
from irtools.remote.meter import Meter

__all__ = ["MOST_FILES", "Entry", "Listing", "Sink", "Source", "usable"]

MOST_FILES = 20_000
_LONGEST = 1000
_LONGEST_PART = 250
_DEEPEST = 12
_LARGEST = 1 << 45
"""Bytes of the largest file that a listing can have: 32 TiB."""
_WINDOWS = os.name == "nt"
_BARRED = '\\:*?"<>|' if _WINDOWS else "\\"
_RESERVED = {"con", "prn", "aux", "nul", *(f"{word}{number}" for word in ("com", "lpt") for number in range(1, 10))}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a listing.

    Attributes
    ----------
    name : str
        Path below the root, with ``/``.
    etag : str
        What the server calls this version of the file; ``""`` if it has no word for it.
    sha256, git : str
        SHA-256 of the content, as Git LFS has it, or the SHA-1 that Git gives to a file; ``""`` if unknown.
    """

    name: str
    size: int
    etag: str = ""
    sha256: str = ""
    git: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Files of one version of an export.

    Attributes
    ----------
    revision : str
        Commit at the hub; ``""`` elsewhere.
    left_out : tuple of str
        Names that can be no files here.
    """

    entries: tuple[Entry, ...]
    revision: str = ""
    left_out: tuple[str, ...] = ()


class Sink(Protocol):
    """Takes pieces of a file."""

    def __call__(self, offset: int, piece: bytes, /) -> None:
        """Take a piece and its offset."""


class Source(Protocol):
    """Where the files of an export are. Methods raise ``RemoteError``, which names no token and no signed address."""

    meter: Meter

    def revision(self) -> str:
        """The version that the URL names now; ``""`` where only the files have versions."""

    def listing(self, revision: str) -> Listing:
        """Files of a version."""

    def read(self, entry: Entry, start: int, end: int, sink: Sink, revision: str) -> None:
        """Read a range of bytes; ``NotFetchedError`` if only this file cannot be read in ranges."""


def usable(entries: Iterable[Entry], url: str) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """The entries that can be files below a directory, and the names of the others.

    Raises
    ------
    RemoteError
        The listing is too long, or has a size that no file has.
    """
    kept: list[Entry] = []
    left: list[str] = []
    seen: set[str] = set()
    for count, entry in enumerate(entries, 1):
        if count > MOST_FILES:
            raise RemoteError(f"has more than {MOST_FILES:,} files; give the folder of one export", url=url)
        if not 0 <= entry.size <= _LARGEST:
            raise RemoteError(f"the listing gives {entry.name!r} {entry.size} bytes, which no file can have", url=url)
        if not _is_name(entry.name) or entry.name in seen:
            left.append(entry.name)
        else:
            seen.add(entry.name)
            kept.append(entry)
    return tuple(kept), tuple(left)


def _is_name(name: str) -> bool:
    parts = name.split("/")
    return (
        len(name) <= _LONGEST
        and len(parts) <= _DEEPEST
        and not any(ord(letter) < 32 or ord(letter) == 127 or letter in _BARRED for letter in name)
        and all(map(_is_part, parts))
        and PurePosixPath(name).as_posix() == name
    )


def _is_part(part: str) -> bool:
    try:
        length = len(part.encode())
    except UnicodeEncodeError:
        return False
    if part in ("", ".", "..") or length > _LONGEST_PART:
        return False
    return not _WINDOWS or (part.split(".", 1)[0].lower() not in _RESERVED and part[-1] not in ". ")
