"""Collect boxes and arrows for a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from irtools.render.picture import Arrow, Box, Frame

__all__ = ["Sketch"]

_VALUES = ("data", "shared")
"""Styles of arrows that are labelled with the precision and shape of their value."""


class Sketch:
    """Boxes, frames and arrows in the order in which they are added."""

    def __init__(self) -> None:
        self._levels: list[list[Box | Frame]] = [[]]
        self._lines: dict[str, tuple[str, ...]] = {}
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
        if key in self._lines:
            return key
        self._lines[key] = tuple(line for line in lines if line)
        self._levels[-1].append(Box(key, kind, title, self._lines[key], hint, op, column))
        return key

    def __contains__(self, key: str) -> bool:
        return key in self._lines

    def arrow(self, tail: str, head: str, label: str = "", style: str = "data") -> None:
        """Add an arrow, unless one of the same style connects the same boxes already."""
        self._arrows.setdefault((tail, head, style), Arrow(tail, head, label, style))

    @contextmanager
    def frame(
        self, key: str, title: str, lines: Iterable[str] = (), *, beside: bool = False, apart: bool = False
    ) -> Iterator[None]:
        """Put everything that is added inside the ``with`` block into a frame.

        With ``apart``, this frame is in no other one.
        """
        self._levels.append([])
        yield
        items = tuple(self._levels.pop())
        if items:
            texts = tuple(line for line in lines if line)
            self._levels[0 if apart else -1].append(Frame(key, title, items, texts, beside))

    @property
    def items(self) -> tuple[Box | Frame, ...]:
        """Boxes and frames at the outermost level."""
        return tuple(self._levels[0])

    @property
    def arrows(self) -> tuple[Arrow, ...]:
        """Arrows with an existing box at each end; a value is labelled once, where it differs from what is read."""
        arrows = [arrow for arrow in self._arrows.values() if {arrow.tail, arrow.head} <= self._lines.keys()]
        known = {key: set(lines) for key, lines in self._lines.items()}
        for arrow in arrows:
            if arrow.style in _VALUES:
                known.setdefault(arrow.head, set()).add(arrow.label)
        return tuple(arrow if arrow.style not in _VALUES else _labelled(arrow, known) for arrow in arrows)


def _labelled(arrow: Arrow, known: dict[str, set[str]]) -> Arrow:
    told = known.setdefault(arrow.tail, set())
    if arrow.label in told:
        return replace(arrow, label="")
    told.add(arrow.label)
    return arrow
