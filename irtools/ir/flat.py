"""Read layers and edges that are spelled as OpenVINO spells them, whole sections at a time.

Each function proves the spelling of what it reads, or returns None; :mod:`irtools.ir.scan` reads any other spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = [
    "ATTRIBUTES",
    "Edge",
    "FlatLayers",
    "OtherLayers",
    "Run",
    "flat_edges",
    "flat_layers",
    "layers_like",
    "outer_edges",
]

ATTRIBUTES = rb"""(?:\s+[^\s=>/"']+\s*=\s*(?:"[^"]*"|'[^']*'))*"""
"""Regular expression for the attributes of a tag."""
Edge = tuple[int, int, int, int]
"""One ``<edge>``: ids of from layer, from port, to layer and to port."""
# Not a NamedTuple: for 600,000 edges it takes 0.5 s more.
_HEAD = re.compile(
    rb'\s*(<layer) id="([0-9]{1,18})" name="([^"]*)" type="([^"]*)"(?: version="([^"]*)")?(?:>|'
    + ATTRIBUTES
    + rb"\s*>)(?:\s*<data[^<>]*/>)?"  # stops in a value with `/>`: no reader takes such a content for plain
)
_NAMES = re.compile(rb' names="[^"<>]*"')
_LAYERS_END = re.compile(rb"\s*</layers\s*>")
_MOST_CONTENTS = 1 << 14
_MOST_CHANGED, _FEW_CHANGED = 64, 16  # layers, and the share of them, up to which two files are compared
_LONGEST_STEP = 1 << 12  # layers that are compared at a time
_DIGITS = b"0123456789"
_LARGEST_ID = 10**18 - 1
_EDGE_PIECES = (b'\n\t\t<edge from-layer="', b'" from-port="', b'" to-layer="', b'" to-port="', b'" />')
_COMMAS = bytes.maketrans(b"=", b",")
_NOT_NUMBERS = bytes(byte for byte in range(256) if byte not in _DIGITS + b"=")


class FlatLayers(NamedTuple):
    """Layers of one ``<layers>``, none of which is nested.

    Attributes
    ----------
    heads : list of bytes or None
        Five of each layer, as written: tag, id, name, type, and version or None if it does not follow the type.
    starts, ends : list of int
        Offsets of the layers.
    contents : list of bytes or None
        What follows the ``<data>`` of each layer, with empty tensor names. Almost all layers of a model share a few
        of them; equal ones are the same object. None beyond the first 16,384 different ones.
    """

    heads: list[bytes]
    starts: list[int]
    ends: list[int]
    contents: list[bytes | None]


def flat_layers(data: bytes, position: int) -> tuple[FlatLayers, int] | None:
    """Layers from the offset after ``<layers>`` on, and the offset after ``</layers>``.

    None if a layer is spelled otherwise than by OpenVINO, or nested. Such a file is scanned in half the time, because
    the regular expression reads only the tags of layers.
    """
    layers = _read_layers(data, position, len(data), {})
    end = _LAYERS_END.match(data, layers.ends[-1] if layers.ends else position) if layers is not None else None
    return (layers, end.end()) if layers is not None and end is not None else None


def _read_layers(data: bytes, position: int, most: int, known: dict[bytes, bytes]) -> FlatLayers | None:
    """At most so many layers from an offset on; None as for :func:`flat_layers`. ``known`` has the contents so far."""
    heads: list[bytes] = []
    starts: list[int] = []
    ends: list[int] = []
    contents: list[bytes | None] = []
    match, find = _HEAD.match, data.find
    while len(ends) < most and (layer := match(data, position)) is not None:
        stop = layer.end()
        position = find(b"</layer>", stop) + len(b"</layer>")
        if position < stop:
            return None
        heads += layer.groups()
        starts.append(layer.start(1))
        ends.append(position)
        content = data[stop:position]
        if b' names="' in content:
            content = _NAMES.sub(b' names=""', content)
        try:
            contents.append(known[content])
        except KeyError:
            if b"<layer" in content:
                return None  # in the body of a Loop: `</layer>` was found too early
            contents.append(known.setdefault(content, content) if len(known) < _MOST_CONTENTS else None)
    return FlatLayers(heads, starts, ends, contents)


class Run(NamedTuple):
    """Layers ``first`` to ``last`` (exclusive) of another file, whose bytes are from ``start`` to ``end`` here.

    The range begins after the layer before them; ``shift`` is the distance of the offsets in both files.
    """

    first: int
    last: int
    start: int
    end: int
    shift: int


class OtherLayers(NamedTuple):
    """The layers of another file: its bytes, the offset after its ``<layers>``, ids, offsets and contents."""

    data: bytes
    start: int
    ids: Sequence[int]
    spans: Sequence[tuple[int, int]]
    contents: Iterable[bytes | None]


def layers_like(data: bytes, start: int, other: OtherLayers) -> list[Run | FlatLayers] | None:
    """Layers from the offset after ``<layers>`` on, as runs of those of another file and as others between them.

    None if they are not in the same order, too many differ, or one that differs is no flat layer.
    """
    found: list[Run | FlatLayers] = []
    count, step, here, there = 0, 1, start, other.start
    places: dict[int, int] = {}
    known: dict[bytes, bytes] = {}
    left = len(other.spans) // _FEW_CHANGED + _MOST_CHANGED
    while _LAYERS_END.match(data, here) is None:
        last = min(count + step, len(other.spans))
        length = other.spans[last - 1][1] - there if last > count else 0
        if length and data[here : here + length] == other.data[there : there + length]:
            found.append(Run(count, last, here, here + length, here - there))
            here, there, count, step = here + length, there + length, last, min(2 * step, _LONGEST_STEP)
        elif length and step > 1:
            step //= 2
        else:
            places = places or {key: place for place, key in enumerate(other.ids)}
            known = known or {content: content for content in {*other.contents} if content is not None}
            layer = _read_layers(data, here, 1, known)
            if layer is None or not layer.ends or not left:
                return None
            place = places.get(int(layer.heads[1]), count - 1)
            if place > count:  # those before it are not here
                there, count = other.spans[place - 1][1], place
                continue
            left -= 1
            found.append(layer)
            here = layer.ends[0]
            if place == count < len(other.spans):
                there, count = other.spans[count][1], count + 1
    return found


def outer_edges(data: bytes) -> tuple[int, int]:
    """Range between the tags of the last ``<edges>`` of a file; empty if there is none."""
    end = max(data.rfind(b"</edges>"), 0)
    start = data.rfind(b"<edges>", 0, end)
    return (start + len(b"<edges>"), end) if start >= 0 else (0, 0)


def flat_edges(written: bytes) -> list[Edge] | None:
    """Edges between the tags of an ``<edges>``, in a fifth of the time of a regular expression."""
    written = written.rstrip()
    count = written.count(b"<edge")
    # Without digits the text is that of the edges without numbers, and the digits are nowhere but between quotes.
    if written.translate(None, _DIGITS) != b"".join(_EDGE_PIECES) * count:
        return None
    first, *inner, last = _EDGE_PIECES
    if any(written.count(piece) != count for piece in inner) or written.count(last + first) != max(count - 1, 0):
        return None
    if not (written.startswith(first) and written.endswith(last)) and count:
        return None
    try:
        # Each number comes after a "=". Reading them as JSON is three times as fast as `int` for each.
        numbers = json.loads(b"[%b]" % written.translate(_COMMAS, _NOT_NUMBERS)[1:])
    except ValueError:  # no digits, leading zeros, or thousands of digits
        return None
    if len(numbers) != 4 * count or max(numbers, default=0) > _LARGEST_ID:
        return None
    values = iter(numbers)
    return list(zip(values, values, values, values, strict=True))
