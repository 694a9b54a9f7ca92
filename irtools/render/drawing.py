"""From a request to a file: always an answer, in time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from irtools.errors import RenderError
from irtools.ir.export import Export
from irtools.render.dot import to_dot
from irtools.render.engine import LayoutTimeoutError, draw, engine_command
from irtools.render.picture import Picture
from irtools.render.pictures import Request, pictures

__all__ = ["Drawing", "render"]

SECONDS = 3.6
"""For everything after the program has started: the answer is there within 5 s."""
_SHARE = 0.6


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


def render(export: Export, request: Request, form: str = "svg", *, seconds: float = SECONDS) -> Drawing:
    """Draw an export.

    Parameters
    ----------
    export : Export
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
    deadline = time.monotonic() + seconds
    if form != "dot":
        engine_command()  # no engine: say so before any work
    return _first_in_time(pictures(export, request), form, deadline)


def _first_in_time(candidates: Iterable[Picture], form: str, deadline: float) -> Drawing:
    """Try pictures from fine to coarse, each with a share of the time that is left."""
    failed: list[str] = []
    for picture in candidates:
        shown = picture.without(*failed)
        text = to_dot(shown)
        if form == "dot":
            return Drawing(text.encode(), shown)
        left = max(deadline - time.monotonic(), 0.5)
        try:
            return Drawing(draw(text, form, seconds=left * _SHARE if len(picture.boxes) > 1 else left), shown)
        except LayoutTimeoutError:
            failed = [f"a picture of {len(picture.boxes)} boxes, whose layout took too long"]
    raise RenderError("no layout was found in time; -o FILE.dot works without")
