"""Collects boxes and arrows while a picture is made."""

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
        """Add a box to the innermost frame, unless its key is there already; returns the key."""
        if key in self._keys:
            return key
        self._keys.add(key)
        self._levels[-1].append(Box(key, kind, title, tuple(line for line in lines if line), hint, op, column))
        return key

    def arrow(self, tail: str, head: str, label: str = "", style: str = "data") -> None:
        """Add an arrow; a second one of the same style between the same boxes is left out."""
        self._arrows.setdefault((tail, head, style), Arrow(tail, head, label, style))

    @contextmanager
    def frame(self, key: str, title: str, lines: Iterable[str] = (), *, beside: bool = False) -> Iterator[None]:
        """Frame what is added inside the ``with``."""
        self._levels.append([])
        yield
        items = tuple(self._levels.pop())
        if items:
            self._levels[-1].append(Frame(key, title, items, tuple(line for line in lines if line), beside))

    @property
    def items(self) -> tuple[Box | Frame, ...]:
        """What was added at the outermost level."""
        return tuple(self._levels[0])

    @property
    def arrows(self) -> tuple[Arrow, ...]:
        """The arrows whose ends are both there."""
        known = self._keys
        return tuple(arrow for arrow in self._arrows.values() if arrow.tail in known and arrow.head in known)
