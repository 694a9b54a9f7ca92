"""From a request to a file: always an answer, in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from irtools.errors import RenderError
from irtools.model.directory import ModelDirectory
from irtools.render.dot import to_dot
from irtools.render.engine import DPI, LARGE_DPI, Layout, engine_command
from irtools.render.part import shown_part
from irtools.render.picture import Picture
from irtools.render.pictures import Request, pictures
from irtools.text import plural

__all__ = ["SECONDS", "Drawing", "first_in_time", "render"]

SECONDS = 3.2
"""For everything after the program has started: the answer is there within 5 s."""
_NEXT_START = (0.45, 0.6, 0.75)
"""When to begin with a coarser picture, as shares of the time that is left for layouts."""
_GRACE = 10.0
_PAUSE = 0.01
_MANY_BOXES = 150


@dataclass(frozen=True, slots=True)
class Drawing:
    """A finished picture.

    Attributes
    ----------
    data : bytes
        The file.
    picture : Picture
        What is on it; ``picture.omitted`` says what was left out.
    """

    data: bytes
    picture: Picture


def render(export: ModelDirectory, request: Request, form: str = "svg", *, seconds: float = SECONDS) -> Drawing:
    """Draw an export.

    Parameters
    ----------
    export : ModelDirectory
    request : Request
    form : str
        ``svg``, ``png``, ``pdf`` or ``dot``.
    seconds : float
        After which there is a picture, if need be a coarser one than was asked for.

    Returns
    -------
    Drawing

    Raises
    ------
    RenderError
        No engine (``dot`` needs none), or nothing to draw.
    UsageError
        An op, layer or part that does not exist.
    """
    started = time.monotonic()
    if form != "dot":
        _ = shown_part(export, request.part)  # no export: more to the point than no engine
        engine_command()  # no engine: say so before any work
    candidates = pictures(export, request)
    if form == "dot":
        picture = next(candidates)
        return Drawing(to_dot(picture).encode(), picture)
    at_once = 2 if request.generous else 1
    return first_in_time(candidates, form, started, started + seconds, at_once=at_once)


def first_in_time(
    candidates: Iterator[Picture], form: str, started: float, deadline: float, *, at_once: int = 1
) -> Drawing:
    """Draw the first picture whose layout is ready by the deadline, trying coarser ones in good time.

    Parameters
    ----------
    candidates : iterator of Picture
        The finest first.
    form : str
    started, deadline : float
        As ``time.monotonic`` counts.
    at_once : int
        How many to begin with.
    """
    with _Race(candidates, form) as race:
        return race.run(started, deadline, at_once)


class _Race:
    """Lays out the picture that was asked for and, when that takes long, coarser ones beside it."""

    def __init__(self, candidates: Iterator[Picture], form: str) -> None:
        self._candidates = candidates
        self._form = form
        self._running: list[tuple[Picture, Layout]] = []
        self._slow: list[str] = []

    def __enter__(self) -> _Race:
        return self

    def __exit__(self, *exception: object) -> None:
        for _, layout in self._running:
            layout.close()

    def _start(self) -> None:
        picture = next(self._candidates, None)
        if picture is None:
            return
        shown = picture.without(*self._slow)
        boxes = len(picture.boxes)
        layout = Layout(to_dot(shown), self._form, dpi=DPI if boxes <= _MANY_BOXES else LARGE_DPI)
        self._running.append((shown, layout))
        self._slow.append(f"a finer picture of {plural(boxes, 'element')}, whose layout took too long")

    def run(self, started: float, deadline: float, at_once: int) -> Drawing:
        """Return the finest picture that is ready by the deadline, or else the first one after it."""
        for _ in range(at_once):
            self._start()
        begun = time.monotonic()
        starts = [begun + share * max(deadline - begun, 1.0) for share in _NEXT_START]
        while True:
            now = time.monotonic()
            if starts and now >= starts[0]:
                starts.pop(0)
                self._start()
            for position, (picture, layout) in enumerate(self._running):
                if (position == 0 or now >= deadline) and (data := layout.result()) is not None:
                    return Drawing(data, picture)
            if now > max(deadline, begun) + _GRACE:
                raise RenderError(f"no layout was found in {now - started:.0f} s; -o FILE.dot works without")
            time.sleep(_PAUSE)
