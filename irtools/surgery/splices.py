"""Differences between two versions of a file, as byte ranges and their replacements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from irtools.ir.markup import Splice

__all__ = ["compose", "difference"]

_PIECE = 1 << 20  # bytes that are compared at a time


def difference(old: bytes, new: bytes) -> tuple[Splice, ...]:
    """Return the one splice that turns ``old`` into ``new``; none if they are equal."""
    if old == new:
        return ()
    here, there = len(old), len(new)
    most = min(here, there)
    head = _longest(most, lambda low, high: new.startswith(old[low:high], low))
    tail = _longest(most - head, lambda low, high: new.endswith(old[here - high : here - low], 0, there - low))
    return (Splice(head, here - tail, new[head : there - tail]),)


def _longest(most: int, same: Callable[[int, int], bool]) -> int:
    """Return the length of the equal prefix: pieces of it, and then bisection; slices are compared in C.

    Not ``os.path.commonprefix``, which compares byte by byte in Python.
    """
    low = 0
    while low < most and same(low, min(low + _PIECE, most)):
        low = min(low + _PIECE, most)
    high = min(low + _PIECE, most)
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def compose(first: Sequence[Splice], second: Sequence[Splice]) -> tuple[Splice, ...]:
    """Join splices of a file, and splices of the intermediate file that they result in."""
    if not first or not second:
        return tuple(first or second)
    between = _Pieces(first)
    made: list[_Piece] = []
    for start, end, new in second:
        made += between.up_to(start)
        between.up_to(end)
        made.append(new)
    return tuple(_as_splices([*made, *between.up_to(_END)]))


_END = sys.maxsize
_Piece: TypeAlias = range | bytes
"""A range of the old file, or new bytes."""


class _Pieces:
    """Pieces of the intermediate file, taken from the front."""

    def __init__(self, splices: Sequence[Splice]) -> None:
        pieces: list[_Piece] = []
        last = 0
        for start, end, new in splices:
            pieces += [range(last, start), new]
            last = end
        self._left = [*pieces, range(last, _END)][::-1]
        self._position = 0

    def up_to(self, offset: int) -> list[_Piece]:
        """Take the pieces before an offset of the intermediate file."""
        taken: list[_Piece] = []
        while self._left and self._position < offset:
            piece = self._left.pop()
            wanted = offset - self._position
            if wanted < len(piece):
                self._left.append(piece[wanted:])
                piece = piece[:wanted]
            self._position += len(piece)
            taken.append(piece)
        return taken


def _as_splices(pieces: Sequence[_Piece]) -> Iterator[Splice]:
    last, new = 0, b""
    for piece in pieces:
        if isinstance(piece, bytes):
            new += piece
        elif piece:
            if new or piece.start > last:
                yield Splice(last, piece.start, new)
            last, new = piece.stop, b""
