"""Draw the changed ops of a comparison and their neighbours."""

from __future__ import annotations

import time

from irtools.render.drawing import SECONDS, first_in_time
from irtools.render.picture import Picture
from irtools.render.sketch import Sketch
from irtools.text import clipped

__all__ = ["ChangedEdge", "ChangedOp", "draw_changes"]

ChangedOp = tuple[str, str, str, str, tuple[str, ...]]
"""Key, friendly name, type, side (``a``, ``b`` or ``both``), and what differs in a pair."""
ChangedEdge = tuple[str, str, int, str]
"""Keys of both ends, input index, side."""
_KINDS = {"a": "removed", "b": "added", "both": "op"}
_STYLES = {"a": "only_a", "b": "only_b", "both": "data"}
_LONGEST_NAME = 60


def draw_changes(title: str, ops: tuple[ChangedOp, ...], edges: tuple[ChangedEdge, ...], *, left_out: int = 0) -> bytes:
    """Draw both graphs as one, as SVG.

    Raises
    ------
    RenderError
        No layout engine is available.
    """
    sketch = Sketch()
    for key, name, kind, side, changes in ops:
        lines = (clipped(name, _LONGEST_NAME), *changes)
        sketch.box(key, "changed" if changes else _KINDS[side], kind, lines, hint=name, op=name)
    for tail, head, index, side in edges:
        label = f"input {index}" + (f", only in {side}" if side != "both" else "")
        # An edge of each side can join the same two boxes.
        sketch.arrow(tail, head, label if side != "both" else "", _STYLES[side])
    omitted = (f"{left_out} more changed ops",) if left_out else ()
    picture = Picture(title, ("neighbours are one step away",), sketch.items, sketch.arrows, omitted)
    now = time.monotonic()
    return first_in_time(iter([picture]), "svg", now, now + SECONDS).data
