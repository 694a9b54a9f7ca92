"""Places of what is drawn, read from the SVG of a picture. All lengths in points, from the upper left corner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import NamedTuple
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
_PAIR = re.compile(r"(-?[\d.]+)[, ](-?[\d.]+)")
_STEPS = 16


class Rect(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def within(self, outer: Rect, slack: float = 0.5) -> bool:
        return (
            outer.left - slack <= self.left
            and outer.top - slack <= self.top
            and self.right <= outer.right + slack
            and self.bottom <= outer.bottom + slack
        )

    def meets(self, other: Rect, slack: float = 0.5) -> bool:
        """True if the insides of two rectangles overlap."""
        return (
            self.left + slack < other.right
            and other.left + slack < self.right
            and self.top + slack < other.bottom
            and other.top + slack < self.bottom
        )

    def has(self, x: float, y: float, slack: float = 1.5) -> bool:
        return self.left + slack < x < self.right - slack and self.top + slack < y < self.bottom - slack


@dataclass
class Places:
    """Places of boxes, frames, edges and texts.

    Attributes
    ----------
    boxes, frames : dict of str to Rect
        By key; the titles of frames and the legend are boxes too.
    edges : list of (str, str, list of (float, float))
        Tail, head and points of each edge.
    texts : list of (str, str, Rect)
        Key of the box (or ``""``), text and place.
    marks : list of Rect
        Everything that is drawn, except frames: each piece of an edge, each box, each text.
    """

    width: float
    height: float
    boxes: dict[str, Rect] = field(default_factory=dict)
    frames: dict[str, Rect] = field(default_factory=dict)
    edges: list[tuple[str, str, list[tuple[float, float]]]] = field(default_factory=list)
    texts: list[tuple[str, str, Rect]] = field(default_factory=list)
    marks: list[Rect] = field(default_factory=list)

    def corners(self) -> dict[str, float]:
        """Share of the picture that the largest empty rectangle in each corner has; the inside of a frame is empty."""
        shares = {}
        for name, right, below in (("tl", 0, 0), ("tr", 1, 0), ("bl", 0, 1), ("br", 1, 1)):
            near = sorted(
                (self.width - mark.right if right else mark.left, self.height - mark.bottom if below else mark.top)
                for mark in self.marks
            )
            best, height = 0.0, self.height
            for x, y in [*near, (self.width, 0.0)]:
                best = max(best, x * height)
                height = min(height, max(y, 0.0))
            shares[name] = best / (self.width * self.height)
        return shares

    def filled(self, fields: int = 60) -> float:
        """Share of the fields of a grid over the picture in which something is drawn."""
        full = set()
        for mark in self.marks:
            across = range(int(mark.left / self.width * fields), int(mark.right / self.width * fields) + 1)
            down = range(int(mark.top / self.height * fields), int(mark.bottom / self.height * fields) + 1)
            full.update((x, y) for x in across for y in down)
        return len(full) / fields**2

    def crossed_titles(self) -> set[str]:
        """Titles of frames that an edge crosses."""
        titles = [(text, place) for key, text, place in self.texts if key.endswith("title")]
        points = [point for _, _, line in self.edges for point in line]
        return {text for text, place in titles for x, y in points if place.has(x, y)}

    def crossed_boxes(self) -> set[tuple[str, str, str]]:
        """Edges through a box that is not one of their ends: tail, head, box."""
        return {
            (tail, head, key)
            for tail, head, line in self.edges
            for key, place in self.boxes.items()
            if key not in (tail, head) and any(place.has(x, y) for x, y in line)
        }

    def overlapping(self) -> set[tuple[str, str]]:
        """Boxes on top of each other."""
        items = sorted(self.boxes.items())
        return {(a, b) for at, (a, one) in enumerate(items) for b, other in items[at + 1 :] if one.meets(other)}


def places(svg: bytes) -> Places:
    """Read an SVG that Graphviz wrote."""
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    whole = root.find(f"{SVG}g")
    assert whole is not None
    moved = re.search(r"translate\((-?[\d.]+)[ ,]+(-?[\d.]+)\)", whole.attrib["transform"])
    assert moved is not None
    reader = _Reader(Places(width, height), float(moved[1]), float(moved[2]))
    reader.read(whole, "graph", "")
    return reader.found


class _Reader:
    def __init__(self, found: Places, dx: float, dy: float) -> None:
        self.found, self.dx, self.dy = found, dx, dy

    def read(self, group: ElementTree.Element, kind: str, key: str) -> None:
        for child in group:
            tag = child.tag.removeprefix(SVG)
            if tag == "g" and child.get("class"):
                kind_of, name = child.attrib["class"].split()[0], unescape(child.findtext(f"{SVG}title") or "")
                self.read(child, kind_of, name)
            elif tag in ("g", "a"):
                self.read(child, kind, key)
            elif tag != "title":
                self.mark(child, tag, kind, key)

    def mark(self, item: ElementTree.Element, tag: str, kind: str, key: str) -> None:
        if tag == "text":
            place = self.text(item)
            self.found.texts.append((key if kind == "node" else "", item.text or "", place))
            self.found.marks.append(place)
            return self.grow(key, place) if kind == "node" else None
        points = list(self.points(item, tag))
        if not points:
            return None
        if kind == "edge" and tag == "path":
            tail, _, head = key.partition("->")
            self.found.edges.append((tail, head, points))
            self.found.marks += [_around(points[at : at + 2]) for at in range(len(points) - 1)]
        elif kind == "cluster":
            self.found.frames.setdefault(key.removeprefix("cluster_"), _around(points))
        elif kind in ("node", "edge"):
            self.found.marks.append(_around(points))
            if kind == "node":
                self.grow(key, _around(points))
        return None

    def grow(self, key: str, place: Rect) -> None:
        old = self.found.boxes.get(key, place)
        self.found.boxes[key] = Rect(*map(min, old[:2], place[:2]), *map(max, old[2:], place[2:]))

    def text(self, item: ElementTree.Element) -> Rect:
        x, y = float(item.attrib["x"]) + self.dx, float(item.attrib["y"]) + self.dy
        width, size = float(item.get("textLength", 0)), float(item.attrib["font-size"])
        left = x - {"middle": width / 2, "end": width}.get(item.get("text-anchor", "start"), 0)
        return Rect(left, y - 0.75 * size, left + width, y + 0.2 * size)

    def points(self, item: ElementTree.Element, tag: str) -> Iterator[tuple[float, float]]:
        if tag == "ellipse":
            x, y, rx, ry = (float(item.attrib[name]) for name in ("cx", "cy", "rx", "ry"))
            yield from ((x + self.dx - rx, y + self.dy - ry), (x + self.dx + rx, y + self.dy + ry))
            return
        text = item.get("points") or item.get("d") or ""
        given = [(float(x) + self.dx, float(y) + self.dy) for x, y in _PAIR.findall(text)]
        yield from _curve(given) if tag == "path" and "C" in text else given


def _curve(given: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Points along the cubic curves of a path."""
    for at in range(0, len(given) - 3, 3):
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = given[at : at + 4]
        for step in range(_STEPS + 1):
            t = step / _STEPS
            p, q, r, s = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield p * ax + q * bx + r * cx + s * dx, p * ay + q * by + r * cy + s * dy


def _around(points: list[tuple[float, float]]) -> Rect:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return Rect(min(xs), min(ys), max(xs), max(ys))
