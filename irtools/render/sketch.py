"""Collect boxes and arrows for a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from irtools.render.picture import Arrow, Box, Frame

__all__ = ["Sketch"]


class Sketch:
    """Boxes, frames and arrows in the order in which they are added."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._levels: list[list[Box | Frame]] = [[]]
        self._arrows: dict[tuple[str, str, str], Arrow] = {}

    def box(
        self,
        key: str,
        kind: str,
        title: str,
        lines: Iterable[str] = (),
        *,
        hint: str = "",
        op: str = "",
        column: str = "",
    ) -> str:
        """Add a box to the innermost frame, unless its key exists already; return the key."""
        if key in self._keys:
            return key
        self._keys.add(key)
        self._levels[-1].append(Box(key, kind, title, tuple(line for line in lines if line), hint, op, column))
        return key

    def arrow(self, tail: str, head: str, label: str = "", style: str = "data") -> None:
        """Add an arrow, unless one of the same style connects the same boxes already."""
        self._arrows.setdefault((tail, head, style), Arrow(tail, head, label, style))

    @contextmanager
    def frame(self, key: str, title: str, lines: Iterable[str] = (), *, beside: bool = False) -> Iterator[None]:
        """Put everything that is added inside the ``with`` block into a frame."""
        self._levels.append([])
        yield
        items = tuple(self._levels.pop())
        if items:
            self._levels[-1].append(Frame(key, title, items, tuple(line for line in lines if line), beside))

    @property
    def items(self) -> tuple[Box | Frame, ...]:
        """Boxes and frames at the outermost level."""
        return tuple(self._levels[0])

    @property
    def arrows(self) -> tuple[Arrow, ...]:
        """Arrows with an existing box at each end."""
        return tuple(arrow for arrow in self._arrows.values() if {arrow.tail, arrow.head} <= self._keys)
