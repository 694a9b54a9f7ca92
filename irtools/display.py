"""Notebook display: objects of any layer are drawn, and the layer that draws registers itself from above."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Drawable", "register_drawer"]

Drawer = Callable[[object], str | None]
_drawers: list[Drawer] = []


def register_drawer(drawer: Drawer) -> None:
    """Register the function that draws a :class:`Drawable` as SVG, or returns None if it cannot."""
    _drawers[:] = [drawer]


class Drawable:
    """Base class of objects that a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        return _drawers[0](self) if _drawers else None
