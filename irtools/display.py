"""Notebook display: objects of any layer have it, and the layers that draw and write it register from above."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Drawable", "Tabular", "register_drawer", "register_writer"]

Show = Callable[[object], str | None]
_drawers: list[Show] = []
_writers: list[Show] = []


def register_drawer(drawer: Show) -> None:
    """Register the function that draws a :class:`Drawable` as SVG, or returns None if it cannot."""
    _drawers[:] = [drawer]


def register_writer(writer: Show) -> None:
    """Register the function that writes a :class:`Tabular` as HTML, or returns None if it cannot."""
    _writers[:] = [writer]


class Drawable:
    """Base class of objects that a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        return _drawers[0](self) if _drawers else None


class Tabular:
    """Base class of objects that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return _writers[0](self) if _writers else None
