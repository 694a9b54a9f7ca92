"""Places of what is drawn, from the SVG: text that no edge crosses, corners that are not empty.

Compared as geometry, because golden PNGs change with each version of Graphviz and of the font renderer.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from irtools.export import open_export
from irtools.render.drawing import render
from irtools.render.pictures import PictureRequest

SVG = "{http://www.w3.org/2000/svg}"
Place = tuple[float, float]


def curve(path: str) -> list[Place]:
    """Points along the cubic curves of a path."""
    numbers = [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)]
    points = []
    for at in range(0, len(numbers) - 3, 3):
        a, b, c, d = numbers[at : at + 4]
        for step in range(21):
            t = step / 20
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            points.append(tuple(sum(w * p[k] for w, p in zip(weights, (a, b, c, d), strict=True)) for k in (0, 1)))
    return points  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "asked"), [("qwen3_5_vl", {}), ("qwen3_5_vl", {"pair": True}), ("llama", {"layer": 1})]
)
def test_no_edge_crosses_the_title_of_a_frame(fixtures: Path, name: str, asked: dict[str, object]) -> None:
    request = PictureRequest(**asked)  # type: ignore[arg-type]
    root = ElementTree.fromstring(render(open_export(fixtures / name), request, "svg", seconds=60).data)
    titles, edges = [], []
    for group in root.iter(f"{SVG}g"):
        label = group.findtext(f"{SVG}title") or ""
        if group.get("class", "").startswith("node") and label.endswith("title"):
            for text in group.iter(f"{SVG}text"):
                x, y, width = (float(text.attrib[key]) for key in ("x", "y", "textLength"))
                titles.append((text.text, x, y - 8, x + width, y))
        elif group.get("class") == "edge":
            edges += [curve(path.attrib["d"]) for path in group.iter(f"{SVG}path")]
    assert titles
    assert edges
    crossed = {
        text
        for text, left, top, right, bottom in titles
        for points in edges
        for x, y in points
        if left < x < right and top < y < bottom
    }
    assert crossed == set()
