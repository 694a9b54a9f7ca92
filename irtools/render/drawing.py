"""Render a request to a file within a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from irtools.errors import OptionError, RenderError
from irtools.model.directory import ModelDirectory
from irtools.render.dot import to_dot
from irtools.render.engine import DPI, LARGE_DPI, Layout, engine_command
from irtools.render.part import shown_part
from irtools.render.picture import Picture
from irtools.render.pictures import MOST_NODES, PictureRequest, pictures
from irtools.text import plural, short_repr, size_text
from irtools.timing import step

__all__ = ["SECONDS", "Drawing", "first_in_time", "render"]

SECONDS = 3.2
"""Time limit after program start; with the start, an answer takes at most 5 s."""
_NEXT_START = (0.45, 0.6, 0.75)
"""Start times of coarser layouts, as shares of the layout time.

With the usual limit of boxes, a layout takes 0.1 to 1.2 s, also for a model of 265,000 ops; with 27,000 boxes, it
takes more than 20 s. A single fallback must be ready in any case, and only the last picture is: one box.
"""
_GRACE = 10.0
_PAUSE = 0.01
_MANY_BOXES = 150


@dataclass(frozen=True, slots=True)
class Drawing:
    """A finished picture.

    Attributes
    ----------
    data : bytes
        Content of the file.
    picture : Picture
        The picture that was drawn; ``picture.omitted`` lists omitted content.
    format : str
        ``svg``, ``png``, ``pdf`` or ``dot``.
    """

    data: bytes
    picture: Picture
    format: str

    def __repr__(self) -> str:
        boxes = plural(len(self.picture.boxes), "element")
        return short_repr(self, self.picture.title, f"{self.format} of {size_text(len(self.data))}", boxes)

    def _repr_svg_(self) -> str | None:
        # HTML has no XML declaration.
        return self.data.decode().partition("?>")[2].lstrip() if self.format == "svg" else None

    def _repr_png_(self) -> bytes | None:
        return self.data if self.format == "png" else None


def render(export: ModelDirectory, request: PictureRequest, form: str = "svg", *, seconds: float = SECONDS) -> Drawing:
    """Draw an export.

    Parameters
    ----------
    form : str
        ``svg``, ``png``, ``pdf`` or ``dot``.
    seconds : float
        Time limit. If the requested picture takes longer, a coarser one is returned.

    Raises
    ------
    RenderError
        No engine is available (``dot`` needs none), or there is nothing to draw.
    UsageError
        An op, layer or part does not exist.
    """
    if form not in MOST_NODES:
        raise OptionError(f"there is no format {form!r} for a picture; use one of {', '.join(MOST_NODES)}")
    started = time.monotonic()
    candidates = pictures(export, request)
    if form == "dot":
        picture = next(candidates)
        return Drawing(to_dot(picture).encode(), picture, form)
    _ = shown_part(export, request.part)  # a missing export is reported before a missing engine
    engine_command()  # a missing engine is reported before any work
    at_once = 2 if request.generous else 1
    with step(f"Drawing {export.path}"):
        return first_in_time(candidates, form, started, started + seconds, at_once=at_once)


def first_in_time(
    candidates: Iterator[Picture], form: str, started: float, deadline: float, *, at_once: int = 1
) -> Drawing:
    """Draw the finest picture whose layout is ready at the deadline, or else the first one after it.

    ``candidates`` begin with the finest picture; ``at_once`` layouts start immediately. ``started`` and ``deadline``
    are times of ``time.monotonic``.
    """
    layouts = _layouts(candidates, form)
    running: list[tuple[Picture, Layout]] = []
    # Coarser layouts run beside the finest one, not after it: so the finest one can use all the time, and a
    # coarser one is ready if the finest one needs more.
    try:
        running += islice(layouts, at_once)
        begun = time.monotonic()
        starts = [begun + share * max(deadline - begun, 1.0) for share in _NEXT_START]
        while True:
            now = time.monotonic()
            if starts and now >= starts[0]:
                starts.pop(0)
                running += islice(layouts, 1)
            for position, (picture, layout) in enumerate(running):
                if (position == 0 or now >= deadline) and (data := layout.result()) is not None:
                    return Drawing(data, picture, form)
            if now > max(deadline, begun) + _GRACE:
                raise RenderError(f"no layout was found in {now - started:.0f} s; -o FILE.dot works without")
            time.sleep(_PAUSE)
    finally:
        for _, layout in running:
            layout.close()


def _layouts(candidates: Iterator[Picture], form: str) -> Iterator[tuple[Picture, Layout]]:
    """Start the layout of each picture; a coarser picture names the finer ones that took too long."""
    slow: list[str] = []
    for picture in candidates:
        shown = picture.without(*slow)
        boxes = len(picture.boxes)
        yield shown, Layout(to_dot(shown), form, dpi=DPI if boxes <= _MANY_BOXES else LARGE_DPI)
        slow.append(f"a finer picture of {plural(boxes, 'element')}, whose layout took too long")
