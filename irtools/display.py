"""Notebook display: objects of any layer have it; the package registers the layers above that draw and write them."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Drawable", "Tabular", "register"]

Show = Callable[[object], str | None]
_finders: list[Callable[[str], Show]] = []


def register(find: Callable[[str], Show]) -> None:
    """Register the function that imports ``svg_of`` and ``html_of``; each returns None for what it cannot show."""
    _finders[:] = [find]


class Drawable:
    """Base class of objects that a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        return _finders[0]("svg_of")(self)


class Tabular:
    """Base class of objects that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return _finders[0]("html_of")(self)
