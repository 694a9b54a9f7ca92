"""A change to one IR that has been worked out but not written."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from irtools.ir.document import Document

__all__ = ["Patch", "patch"]

_CONTEXT = 3
_SPECIAL = re.compile(r'["\\]')
_ESCAPES = {'"': r"\"", "\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}


@dataclass(frozen=True, slots=True)
class Patch:
    """What a surgery would do to one file. Nothing has been written.

    Attributes
    ----------
    path : Path
        The ``.xml``.
    status : str
        ``would-write`` or ``unchanged``.
    old, new : str or None
        The annotation before and after; None for none.
    original, data : bytes
        The file before and after.
    notes : tuple of str
        Worth telling the user, such as an early form that is upgraded.
    """

    path: Path
    status: str
    old: str | None
    new: str | None
    original: bytes = field(repr=False)
    data: bytes = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the bytes differ."""
        return self.data != self.original

    def diff(self) -> str:
        """Unified diff of the file as ``patch -p1`` takes it, ``""`` without a change.

        ``patch`` refuses names with ``..``: a file is named from the working directory, one outside of it
        from the last ``..`` or the root of the file system.
        """
        if not self.changed:
            return ""
        return _unified_diff(_name(self.path), self.original, self.data)


def patch(document: Document, old: str | None, new: str | None, data: bytes, notes: tuple[str, ...] = ()) -> Patch:
    """Make the result of a surgery; its status follows from the bytes."""
    status = "unchanged" if data == document.data else "would-write"
    return Patch(document.path, status, old, new, document.data, data, notes)


def _name(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):  # the working directory is gone, or on another drive
        relative = Path(os.path.relpath(path))
        if not path.is_absolute() or ".." not in relative.parts:
            path = relative
    parts = path.parts[1:] if path.is_absolute() else path.parts
    return "/".join(parts[len(parts) - parts[::-1].index("..") :] if ".." in parts else parts)


def _quoted(name: str) -> str:
    """A name as git writes it and ``patch`` reads it."""
    if name.isprintable() and not _SPECIAL.search(name):
        return f"{name}\t" if " " in name else name
    return '"' + "".join(_escaped(character) for character in name) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def _unified_diff(name: str, old: bytes, new: bytes) -> str:
    """One hunk around what differs.

    All changes to one file are close together, and difflib would take seconds to find that out
    in a file of 100,000 lines.
    """
    before, after = _lines(old), _lines(new)
    head = _common(before, after)
    tail = min(_common(before[::-1], after[::-1]), len(before) - head, len(after) - head)
    start = max(0, head - _CONTEXT)
    end = min(_CONTEXT, tail) - tail
    lines = [
        *((" ", line) for line in before[start:head]),
        *(("-", line) for line in before[head : len(before) - tail]),
        *(("+", line) for line in after[head : len(after) - tail]),
        *((" ", line) for line in before[len(before) - tail : len(before) + end]),
    ]
    ranges = [_range(start, len(side) + end - start) for side in (before, after)]
    hunk = f"--- {_quoted(f'a/{name}')}\n+++ {_quoted(f'b/{name}')}\n@@ -{ranges[0]} +{ranges[1]} @@\n"
    return hunk + "".join(mark + _shown(line) for mark, line in lines)


def _lines(data: bytes) -> list[bytes]:
    """Lines as ``patch`` counts them: only a line feed ends one."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _common(one: list[bytes], other: list[bytes]) -> int:
    """Number of equal lines at the beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return text if line.endswith(b"\n") else f"{text}\n\\ No newline at end of file\n"
