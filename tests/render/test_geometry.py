"""Places of what is drawn, from the SVG: nothing crosses a title, nothing overlaps, no large place is empty.

Compared as geometry, because golden PNGs change with each version of Graphviz and of the font renderer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from irtools.export import open_export
from irtools.render.drawing import render
from irtools.render.engine import engine_command
from irtools.render.picture import Frame, Picture, boxes_of
from irtools.render.pictures import PictureRequest
from tests.render.geometry import Places, Rect, places

PICTURES: list[tuple[str, dict[str, object]]] = [
    ("qwen3_5_vl", {"pair": True}),
    ("gemma4_vl", {}),
    ("llama", {"layer": 1}),
    *(
        pytest.param(name, asked, marks=pytest.mark.slow)  # type: ignore[misc]
        for name, asked in (
            ("qwen3_5_vl", {}),
            ("qwen3_5_vl", {"part": "mtp"}),
            ("qwen3_5_vl", {"part": "vision_embeddings_merger"}),
            ("qwen3_5_vl", {"part": "text_embeddings"}),
            ("qwen3_5_vl", {"layer": 0}),
            ("qwen3_5_moe_vl", {}),
            ("qwen3_dflash", {}),
            ("llama", {}),
            ("llama", {"full": True}),
            ("llama", {"around": "layers.0.mlp.act_fn", "radius": 3}),
            ("falcon", {}),
            ("bert", {}),
            ("zoo/lfm2_moe", {}),
            ("zoo/hand_post", {}),
            ("zoo/hand_unet", {}),
            ("zoo/gpt_oss", {"layer": -1}),
            ("zoo/whisper", {}),
        )
    ),
]
MOST_EMPTY = 0.26
"""Largest share of a picture that an empty rectangle in one of its corners has."""
LEAST_FILLED = 0.23
"""Smallest share of the fields of a grid over an overview in which something is drawn."""


@cache
def drawn(path: Path, asked: tuple[tuple[str, object], ...]) -> tuple[Picture, Places]:
    drawing = render(open_export(path), PictureRequest(**dict(asked)), "svg", seconds=60)  # type: ignore[arg-type]
    return drawing.picture, places(drawing.data)


def titles_by_key(shown: Picture) -> dict[str, str]:
    return {box.key: box.title for box in shown.boxes}


@pytest.mark.parametrize(("name", "asked"), PICTURES)
def test_nothing_crosses_a_title_or_covers_another_box(fixtures: Path, name: str, asked: dict[str, object]) -> None:
    shown, found = drawn(fixtures / name, tuple(asked.items()))
    assert titles_by_key(shown).keys() <= found.boxes.keys()
    assert len(found.edges) >= len([arrow for arrow in shown.arrows if arrow.style != "below"])
    assert found.crossed_titles() == set()
    assert found.crossed_boxes() == set()
    assert found.overlapping() == set()


@pytest.mark.parametrize(("name", "asked"), PICTURES)
def test_boxes_are_in_their_frames_and_in_no_other_one(fixtures: Path, name: str, asked: dict[str, object]) -> None:
    shown, found = drawn(fixtures / name, tuple(asked.items()))
    whole = Rect(0, 0, found.width, found.height)
    for frame in frames_of(shown.items):
        inside = {box.key for box in boxes_of(frame.items)} | {f"{frame.key}title"}
        assert all(found.boxes[key].within(found.frames[frame.key]) for key in inside)
        others = {box.key for box in shown.boxes} - inside
        assert [key for key in others if found.boxes[key].meets(found.frames[frame.key])] == []
    assert all(place.within(whole) for place in found.boxes.values())
    # A text wider than its box would leave the box, which grows with its texts: the box then leaves its frame.
    for key, text, place in found.texts:
        assert not key or place.within(found.boxes[key]), text


@pytest.mark.parametrize(("name", "asked"), PICTURES)
def test_no_large_place_is_empty(fixtures: Path, name: str, asked: dict[str, object]) -> None:
    _, found = drawn(fixtures / name, tuple(asked.items()))
    assert max(found.corners().values()) <= MOST_EMPTY
    if not asked or "pair" in asked:
        assert found.filled() >= LEAST_FILLED


def frames_of(items: tuple[object, ...]) -> list[Frame]:
    frames = [item for item in items if isinstance(item, Frame)]
    return [*frames, *(inner for frame in frames for inner in frames_of(frame.items))]


@pytest.mark.parametrize("name", ["qwen3_5_vl", "gemma4_vl"])
def test_values_flow_down(fixtures: Path, name: str) -> None:
    asked = {"pair": True} if name == "qwen3_5_vl" else {}
    shown, found = drawn(fixtures / name, tuple(asked.items()))
    flows = [arrow for arrow in shown.arrows if arrow.style in ("data", "skip", "wire")]
    assert flows
    for arrow in flows:
        assert found.boxes[arrow.tail].bottom <= found.boxes[arrow.head].top


def test_target_and_head_are_beside_each_other(fixtures: Path) -> None:
    _, found = drawn(fixtures / "qwen3_5_vl", (("pair", True),))
    target, head = found.frames["target"], found.frames["mtp"]
    assert target.right < head.left
    assert abs(target.top - head.top) < 2
    ends = {frozenset((tail, head)) for tail, head, _ in found.edges}
    assert any("taplast" in pair and any(key.startswith("min") for key in pair) for pair in ends)


PLACES = {
    "qwen3_5_vl-pair.places": ("qwen3_5_vl", {"pair": True}),
    "gemma4_vl.places": ("gemma4_vl", {}),
    "llama-layer.places": ("llama", {"layer": 1}),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_snapshot(fixtures: Path, name: str, snapshot: Callable[[str, str], None]) -> None:
    """Which boxes are beside each other, row by row. Another version of Graphviz can lay out otherwise."""
    if engine_command()[0] == shutil.which("dot"):
        pytest.skip("the rows are those of the engine in the wheel of pygraphviz")
    export, asked = PLACES[name]
    shown, found = drawn(fixtures / export, tuple(asked.items()))
    named = titles_by_key(shown)
    rows: dict[int, list[tuple[float, str]]] = {}
    for key, place in found.boxes.items():
        title = named.get(key) or ("(legend)" if key.startswith("legend") else f"[{key}]")
        rows.setdefault(round((place.top + place.bottom) / 8), []).append((place.left, title))
    lines = (" | ".join(title for _, title in sorted(rows[row])) for row in sorted(rows))
    snapshot(name, "".join(f"{line}\n" for line in lines))
