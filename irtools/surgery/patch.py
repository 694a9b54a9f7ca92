"""Unwritten change to one IR, and its unified diff."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.errors import EditError
from irtools.ir.markup import Splice, spliced
from irtools.remote import is_remote
from irtools.surgery.restore import inverse
from irtools.surgery.splices import compose
from irtools.text import short_repr

if TYPE_CHECKING:
    from irtools.ir.save import WeightsChange
    from irtools.surgery.edits import Edit

__all__ = ["Expected", "Patch"]

_CONTEXT = 3
_SPECIAL = re.compile(r'["\\]')
_ESCAPES = {'"': r"\"", "\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}

OutputTypes = tuple[tuple[str, tuple[int, ...]], ...]
"""Element type and shape of every output of an op."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Contents that OpenVINO should read from a file whose layers were edited.

    Attributes
    ----------
    inputs : int
        Number of model inputs.
    outputs : tuple of tuple of str
        Names of every model output; empty for an output without names of its own.
    ops : mapping of int to (str, OutputTypes)
        Friendly name and outputs, by layer id, of added and changed ops.
    removed : frozenset of int
        Layer ids of removed ops.
    graph : bool
        True if more than names changed, so that OpenVINO must check the file.
    """

    inputs: int
    outputs: tuple[tuple[str, ...], ...]
    ops: Mapping[int, tuple[str, OutputTypes]]
    removed: frozenset[int] = frozenset()
    graph: bool = field(kw_only=True)

    def after(self, before: Expected) -> Expected:
        """Join with the expectations of an earlier change."""
        ops = {key: op for key, op in before.ops.items() if key not in self.removed} | dict(self.ops)
        return replace(self, graph=self.graph or before.graph, ops=ops)


@dataclass(frozen=True, slots=True)
class Patch:
    """A change to one file that has not been written.

    Attributes
    ----------
    path : Path
        The ``.xml``.
    old, new : str or None
        The annotation before and after; None if there is none.
    original, data : bytes
        The file before and after.
    splices : tuple of Splice
        The difference between ``original`` and ``data``.
    notes : tuple of str
        Messages for the user.
    weights : WeightsChange or None
        Change of the weights that belongs to it.
    """

    path: Path
    old: str | None
    new: str | None
    original: bytes
    data: bytes
    splices: tuple[Splice, ...] = ()
    notes: tuple[str, ...] = ()
    expected: Expected | None = None  # contents that OpenVINO should read; None if only rt_info changed
    weights: WeightsChange | None = None

    def __repr__(self) -> str:
        return short_repr(self, str(self.path), self.status, f"{len(self.data) - len(self.original):+d} bytes")

    @property
    def changed(self) -> bool:
        """True if the bytes of the file or of its weights differ."""
        return self.data != self.original or self.weights is not None

    @property
    def status(self) -> str:
        """``would-write`` or ``unchanged``."""
        return "would-write" if self.changed else "unchanged"

    @property
    def undo(self) -> tuple[Edit, ...]:
        """Edits of the changed file that restore the original bytes; empty without a change."""
        return inverse(self.original, self.data, self.splices) if self.splices else ()

    def then(self, following: Patch) -> Patch:
        """Join with a later change of the same file."""
        if self.weights is not None and following.weights is not None:
            raise EditError("two changes of the same weights cannot be joined; save the first one", path=self.path)
        expected = following.expected or self.expected
        if self.expected is not None and following.expected is not None:
            expected = following.expected.after(self.expected)
        return replace(
            following,
            old=self.old,
            original=self.original,
            splices=compose(self.splices, following.splices),
            notes=self.notes + following.notes,
            expected=expected,
            weights=self.weights or following.weights,
        )

    def diff(self) -> str:
        """Unified diff of the file for ``patch -p1``, ``""`` without a change.

        File names are relative to the working directory. ``patch`` refuses names with ``..``, so a file outside of
        the working directory is named from its last ``..`` or from the root of the file system.
        """
        if self.data == self.original:
            return ""
        name = _name(self.path)
        head = f"--- {_quoted(f'a/{name}')}\n+++ {_quoted(f'b/{name}')}\n"
        return head + "".join(_hunks(self.original, self.splices))


def _name(path: Path) -> str:
    if is_remote(path):
        return path.name
    with contextlib.suppress(OSError, ValueError):  # the working directory is gone, or on another drive
        relative = Path(os.path.relpath(path))
        if not path.is_absolute() or ".." not in relative.parts:
            path = relative
    parts = path.parts[1:] if path.is_absolute() else path.parts
    return "/".join(parts[len(parts) - parts[::-1].index("..") :] if ".." in parts else parts)


def _quoted(name: str) -> str:
    """Quote a name as git does, the only form that ``patch`` can read."""
    if name.isprintable() and not _SPECIAL.search(name):
        return f"{name}\t" if " " in name else name
    return '"' + "".join(map(_escaped, name)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


# -- the diff ----------------------------------------------------------------------------


def _blocks(old: bytes, splices: Sequence[Splice]) -> Iterator[Splice]:
    """Yield splices of whole lines; splices that touch the same line are in one block."""
    pending: list[Splice] = []
    start = end = 0
    for splice in splices:
        first = old.rfind(b"\n", 0, splice.start) + 1
        if pending and first >= end:
            yield _block(old, start, end, pending)
            pending = []
        if not pending:
            start = end = first
        pending.append(splice)
        end = max(end, _line_end(old, splice.end))
    if pending:
        yield _block(old, start, end, pending)


def _block(old: bytes, start: int, end: int, splices: Sequence[Splice]) -> Splice:
    return Splice(start, end, spliced(old[start:end], [Splice(a - start, b - start, new) for a, b, new in splices]))


def _line_end(data: bytes, offset: int) -> int:
    """Return the offset after the line that contains an offset."""
    return data.find(b"\n", offset) + 1 or len(data)


def _hunks(old: bytes, splices: Sequence[Splice]) -> Iterator[str]:
    """Yield the hunks of the diff.

    difflib sees only the lines that the splices touch: in a file of 100,000 lines it would take seconds to find
    them again.
    """
    groups: list[list[Splice]] = []
    for block in _blocks(old, splices):
        if groups and old.count(b"\n", groups[-1][-1].end, block.start) <= 2 * _CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    counted = line = shift = 0
    for group in groups:
        position = group[0].start
        for _ in range(_CONTEXT):
            position = old.rfind(b"\n", 0, max(position - 1, 0)) + 1
        line, counted = line + old.count(b"\n", counted, position), position
        marked: list[str] = []
        for start, end, new in group:
            marked += [f" {text}" for text in _lines(old[position:start])]
            before, after = _lines(old[start:end]), _lines(new)
            compared = list(unified_diff(before, after, n=len(before)))
            marked += compared[3:] or [f" {text}" for text in before]  # three lines of heading; none if all is equal
            position = end
        for _ in range(_CONTEXT):
            end = _line_end(old, position)
            marked += [f" {text}" for text in _lines(old[position:end])]
            position = end
        changed = [number for number, text in enumerate(marked) if text[0] != " "]
        if not changed:
            continue
        first = max(changed[0] - _CONTEXT, 0)
        marked = marked[first : changed[-1] + 1 + _CONTEXT]
        counts = [sum(text[0] != mark for text in marked) for mark in "+-"]
        yield f"@@ -{_range(line + first, counts[0])} +{_range(line + first + shift, counts[1])} @@\n"
        yield "".join(text if text.endswith("\n") else f"{text}\n\\ No newline at end of file\n" for text in marked)
        shift += counts[1] - counts[0]


def _lines(data: bytes) -> list[str]:
    """Split into lines as ``patch`` does: only a line feed ends one."""
    return list(StringIO(data.decode("utf-8", "replace")))


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"
