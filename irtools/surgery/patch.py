"""A change to one IR that has been worked out but not written."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from irtools.ir.markup import Splice, spliced
from irtools.surgery.restore import inverse
from irtools.surgery.splices import compose

if TYPE_CHECKING:
    from irtools.surgery.edits import Edit

__all__ = ["Expected", "Patch"]

_CONTEXT = 3
_SPECIAL = re.compile(r'["\\]')
_ESCAPES = {'"': r"\"", "\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}

Ports = tuple[tuple[str, tuple[int, ...]], ...]
"""Element type and shape of each output of an op."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What OpenVINO is expected to read from a file whose layers were edited.

    Attributes
    ----------
    inputs : int
        Number of model inputs.
    outputs : tuple of tuple of str
        Names of each model output; empty for one that takes those of what it reads.
    ops : mapping of int to (str, Ports)
        Friendly name and outputs, by layer id, of what was added or changed.
    removed : frozenset of int
        Layer ids that are not there any more.
    graph : bool
        Whether more than names changed, so that OpenVINO is to be asked.
    """

    inputs: int
    outputs: tuple[tuple[str, ...], ...]
    ops: Mapping[int, tuple[str, Ports]]
    removed: frozenset[int] = frozenset()
    graph: bool = True

    def after(self, before: Expected) -> Expected:
        """The same with what an earlier change expects."""
        ops = {key: op for key, op in before.ops.items() if key not in self.removed} | dict(self.ops)
        return replace(self, graph=self.graph or before.graph, ops=ops)


@dataclass(frozen=True, slots=True)
class Patch:
    """What a surgery would do to one file. Nothing has been written.

    Attributes
    ----------
    path : Path
        The ``.xml``.
    old, new : str or None
        The annotation before and after; None for none.
    original, data : bytes
        The file before and after.
    splices : tuple of Splice
        The difference between the two.
    notes : tuple of str
        Worth telling the user, such as an early form that is upgraded.
    expected : Expected or None
        What OpenVINO should read; None when only rt_info changed.
    """

    path: Path
    old: str | None
    new: str | None
    original: bytes = field(repr=False)
    data: bytes = field(repr=False)
    splices: tuple[Splice, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    expected: Expected | None = field(default=None, repr=False)

    @property
    def changed(self) -> bool:
        """Whether the bytes differ."""
        return self.data != self.original

    @property
    def status(self) -> str:
        """``would-write`` or ``unchanged``."""
        return "would-write" if self.changed else "unchanged"

    @property
    def undo(self) -> tuple[Edit, ...]:
        """Edits that give the original bytes back, made to what the patch makes; none without a change."""
        return inverse(self.original, self.data, self.splices) if self.changed else ()

    def then(self, following: Patch) -> Patch:
        """Join it with a change of what it makes."""
        expected = following.expected or self.expected
        if self.expected is not None and following.expected is not None:
            expected = following.expected.after(self.expected)
        return Patch(
            following.path,
            self.old,
            following.new,
            self.original,
            following.data,
            compose(self.splices, following.splices),
            self.notes + following.notes,
            expected,
        )

    def diff(self) -> str:
        """Unified diff of the file as ``patch -p1`` takes it, ``""`` without a change.

        ``patch`` refuses names with ``..``: a file is named from the working directory, one outside of it
        from the last ``..`` or the root of the file system.
        """
        if not self.changed:
            return ""
        name = _name(self.path)
        head = f"--- {_quoted(f'a/{name}')}\n+++ {_quoted(f'b/{name}')}\n"
        return head + "".join(_hunks(self.original, self.splices))


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


# -- the diff ----------------------------------------------------------------------------
# From the splices: difflib would take seconds to find them again in a file of 100,000 lines.


class _Block(NamedTuple):
    """Whole lines of the old file, and what takes their place."""

    start: int
    end: int
    new: bytes


def _blocks(old: bytes, splices: Sequence[Splice]) -> Iterator[_Block]:
    """The changed lines; splices that touch the same line are one block."""
    pending: list[Splice] = []
    start = end = 0
    for splice in splices:
        first = old.rfind(b"\n", 0, splice.start) + 1
        if pending and first >= end:
            yield _block(old, start, end, pending)
            pending = []
        if not pending:
            start = first
        pending.append(splice)
        end = max(end if len(pending) > 1 else 0, _line_end(old, splice.end))
    if pending:
        yield _block(old, start, end, pending)


def _line_end(data: bytes, offset: int) -> int:
    """Offset behind the line that holds an offset."""
    return data.find(b"\n", offset) + 1 or len(data)


def _block(old: bytes, start: int, end: int, splices: Sequence[Splice]) -> _Block:
    """Without the lines at its beginning and its end that stay."""
    new = spliced(old[start:end], [Splice(a - start, b - start, text) for a, b, text in splices])
    before, after = _lines(old[start:end]), _lines(new)
    head = _common(before, after)
    tail = min(_common(before[::-1], after[::-1]), len(before) - head, len(after) - head)
    start += sum(map(len, before[:head]))
    end -= sum(map(len, before[len(before) - tail :]))
    return _Block(start, end, b"".join(after[head : len(after) - tail]))


def _hunks(old: bytes, splices: Sequence[Splice]) -> Iterator[str]:
    groups: list[list[_Block]] = []
    for block in _blocks(old, splices):
        if groups and old.count(b"\n", groups[-1][-1].end, block.start) <= 2 * _CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    counted = line = shift = 0
    for group in groups:
        begin = _context_before(old, group[0].start)
        line, counted = line + old.count(b"\n", counted, begin), begin
        lines: list[tuple[str, bytes]] = []
        position = begin
        for block in group:
            lines += [(" ", text) for text in _lines(old[position : block.start])]
            lines += [("-", text) for text in _lines(old[block.start : block.end])]
            lines += [("+", text) for text in _lines(block.new)]
            position = block.end
        lines += [(" ", text) for text in _lines(old[position : _context_behind(old, position)])]
        counts = [sum(mark != other for mark, _ in lines) for other in "+-"]
        yield f"@@ -{_range(line, counts[0])} +{_range(line + shift, counts[1])} @@\n"
        yield "".join(mark + _shown(text) for mark, text in lines)
        shift += counts[1] - counts[0]


def _context_before(data: bytes, offset: int) -> int:
    for _ in range(_CONTEXT):
        offset = data.rfind(b"\n", 0, max(offset - 1, 0)) + 1
    return offset


def _context_behind(data: bytes, offset: int) -> int:
    for _ in range(_CONTEXT):
        offset = _line_end(data, offset)
    return offset


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
