"""Places of what is drawn, from the SVG: nothing crosses a title, nothing overlaps, no large place is empty.

Compared as geometry, because golden PNGs change with each version of Graphviz and of the font renderer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import irtools
from irtools.export import open_export
from irtools.render.drawing import render
from irtools.render.engine import engine_command
from irtools.render.picture import Frame, Picture, boxes_of
from irtools.render.pictures import PictureRequest, pictures
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
            ("mixtral", {"around": "layers.1.post_attention_layernorm/aten::mul/Multiply"}),
            ("gpt2", {"around": "h.0.mlp.c_proj", "radius": 3}),
            ("zoo/mamba", {"around": "layers.0.mixer.in_proj"}),
            ("pieces/stages/stage-0", {}),
            ("pieces/stages/stage-1", {}),
            ("pieces/between_ops", {}),
            ("pieces/linear_layers", {}),
            ("pieces/different_layers", {}),
            ("pieces/experts_to_logits", {}),
            ("pieces/stateless", {}),
            ("pieces/norm_and_mlp", {}),
            ("pieces/attention", {}),
            ("pieces/from_mid_attention", {}),
            ("pieces/to_mid_attention", {}),
            ("pieces/parallel", {}),
            ("pieces/shared_keys", {}),
            ("zoo/xglm", {"layer": -1}),
            ("zoo/nested_llama", {"full": True}),
            ("zoo/opt_export", {"full": True}),
            ("scale", {"full": True}),
        )
    ),
]
LLAMA = "__module.model.layers.1"
LLAMA_SDPA = f"{LLAMA}.self_attn/aten::scaled_dot_product_attention/ScaledDotProductAttention"
PIECES: dict[str, tuple[str, dict[str, Any]]] = {
    "stages": ("llama", {"stages": "0,1-"}),
    "between_ops": (
        "llama",
        {
            "from_": "__module.model.layers.0.input_layernorm/aten::mul/Multiply",
            "to": "__module.model.layers.1.mlp.down_proj/aten::linear/MatMul",
        },
    ),
    "linear_layers": ("qwen3_5_vl", {"layers": "1-2"}),
    "different_layers": ("gemma4_vl", {"layers": "2-3"}),
    "experts_to_logits": ("mixtral", {"layers": "1-", "to": "logits"}),
    "stateless": ("zoo/gpt_oss", {"layers": "last", "stateless": True}),
    "norm_and_mlp": (
        "llama",
        {
            "from_": f"{LLAMA}.post_attention_layernorm/aten::pow/Power",
            "to": f"{LLAMA}.mlp.down_proj/aten::linear/MatMul",
        },
    ),
    "attention": (
        "llama",
        {
            "from_": [f"{LLAMA}.self_attn.{name}_proj/aten::linear/MatMul" for name in "qkv"],
            "to": f"{LLAMA}.self_attn.o_proj/aten::linear/MatMul",
        },
    ),
    "from_mid_attention": ("llama", {"from_": LLAMA_SDPA, "to": f"{LLAMA}/aten::add/Add_1"}),
    "to_mid_attention": ("llama", {"from_": f"{LLAMA}.input_layernorm/aten::pow/Power", "to": LLAMA_SDPA}),
    "parallel": (
        "falcon",
        {
            "from_": "__module.transformer.h.1.self_attention/aten::scaled_dot_product_attention/"
            "ScaledDotProductAttention",
            "to": "__module.transformer.h.1/aten::add/Add",
        },
    ),
    "head": ("llama", {"from_": "__module.model.norm/aten::pow/Power", "to": "logits"}),
    "experts": (
        "qwen3_5_moe_vl",
        {
            "from_": "__module.model.model.language_model.layers.1.post_attention_layernorm/aten::pow/Power",
            "to": "__module.model.model.language_model.layers.1/aten::add/Add_1",
        },
    ),
    "shared_keys": ("gemma4_vl", {"layers": "last"}),
}
"""Pieces of exports that are drawn, and how they are cut."""
MOST_EMPTY = 0.26
"""Largest share of a picture that an empty rectangle in one of its corners has."""
LEAST_FILLED = 0.22
"""Smallest share of the fields of a grid over an overview in which something is drawn."""


LEGIBLE = {900: 4.5, 1600: 8.0}
"""Smallest text in pixels, by the width in pixels of the page that a picture is fitted into."""
LEGIBLE_ALONE = {400: 4.5, 900: 9.0, 1600: 11.0}
"""The same for a piece or a part without the others."""


@pytest.fixture(scope="module")
def export_of(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Directory of an export or, for ``pieces/NAME``, of a piece that is cut when it is first needed."""
    cut: dict[str, Path] = {}

    def find(name: str) -> Path:
        if not name.startswith("pieces/"):
            return fixtures / name
        _, piece, *stage = name.split("/")
        if piece not in cut:
            source, options = PIECES[piece]
            cut[piece] = tmp_path_factory.mktemp("pieces") / piece
            irtools.open_export(fixtures / source).extract(cut[piece], check=False, **options)
        return cut[piece].joinpath(*stage)

    return find


@cache
def drawn(path: Path, asked: tuple[tuple[str, object], ...]) -> tuple[Picture, Places]:
    drawing = render(open_export(path), PictureRequest(**dict(asked)), "svg", seconds=60)  # type: ignore[arg-type]
    return drawing.picture, places(drawing.data)


def titles_by_key(shown: Picture) -> dict[str, str]:
    return {box.key: box.title for box in shown.boxes}


@pytest.mark.parametrize(("name", "asked"), PICTURES)
def test_nothing_crosses_a_title_or_covers_another_box(
    export_of: Callable[[str], Path], name: str, asked: dict[str, object]
) -> None:
    shown, found = drawn(export_of(name), tuple(asked.items()))
    assert titles_by_key(shown).keys() <= found.boxes.keys()
    assert len(found.edges) >= len([arrow for arrow in shown.arrows if arrow.style != "below"])
    assert found.crossed_titles() == set()
    assert found.crossed_boxes() == set()
    assert found.overlapping() == set()


@pytest.mark.parametrize(("name", "asked"), PICTURES)
def test_boxes_are_in_their_frames_and_in_no_other_one(
    export_of: Callable[[str], Path], name: str, asked: dict[str, object]
) -> None:
    shown, found = drawn(export_of(name), tuple(asked.items()))
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
def test_no_large_place_is_empty(export_of: Callable[[str], Path], name: str, asked: dict[str, object]) -> None:
    _, found = drawn(export_of(name), tuple(asked.items()))
    assert max(found.corners().values()) <= MOST_EMPTY
    if not asked or "pair" in asked:
        assert found.filled() >= LEAST_FILLED


@pytest.mark.parametrize(("name", "asked"), PICTURES)
def test_the_smallest_text_is_legible_at_three_widths(
    export_of: Callable[[str], Path], name: str, asked: dict[str, object]
) -> None:
    if "full" in asked:
        pytest.skip("every op is for the zoom of a viewer")
    shown, found = drawn(export_of(name), tuple(asked.items()))
    alone = name.startswith("pieces/") or ("part" in asked and not any(box.kind == "layers" for box in shown.boxes))
    smallest = min(place.bottom - place.top for _, _, place in found.texts) / 0.95  # of the size of the font
    for width, least in {**LEGIBLE, **(LEGIBLE_ALONE if alone else {})}.items():
        assert smallest * min(96 / 72, width / found.width) >= least, width


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


def test_a_piece_is_grouped_and_its_ends_are_named(export_of: Callable[[str], Path]) -> None:
    shown, _ = drawn(export_of("pieces/stages/stage-0"), ())
    titles = [box.title for box in shown.boxes]
    assert [title for title in titles if title in ("RMS norm", "Full attention", "Dense MLP")] == [
        *("RMS norm", "Full attention", "RMS norm", "Dense MLP")
    ]
    ends = {box.title: box.lines for box in shown.boxes if box.kind == "input"}
    assert ends == {"input_ids": ("i64 [B, S]",), "hidden_states.0": ("f32 [B, S, 32]",)}


@pytest.mark.parametrize(
    ("piece", "blocks"),
    [
        ("norm_and_mlp", ["RMS norm", "Dense MLP"]),
        ("attention", ["Full attention"]),
        ("from_mid_attention", ["Full attention", "+", "RMS norm", "Dense MLP", "+"]),
        ("to_mid_attention", ["RMS norm", "Full attention"]),
        ("parallel", ["Full attention", "+"]),
        ("head", ["RMS norm", "Head"]),
        ("experts", ["RMS norm", "Router", "Shared expert", "Experts", "+"]),
    ],
)
def test_a_piece_of_part_of_a_layer_is_grouped(export_of: Callable[[str], Path], piece: str, blocks: list[str]) -> None:
    shown = next(pictures(open_export(export_of(f"pieces/{piece}")), PictureRequest()))
    kinds = ("norm", "attention", "mlp", "experts", "head", "sum", "op")
    titles = [box.title or "+" for box in shown.boxes if box.kind in kinds]
    assert sorted(titles) == sorted(blocks)
    states = [box for box in shown.boxes if box.kind == "state"]
    assert len(states) == (piece in ("attention", "to_mid_attention"))
    read = {arrow.head for arrow in shown.arrows}
    assert {box.key for box in shown.boxes if box.kind in kinds} <= read, "each block reads something"


@pytest.mark.slow
def test_every_op_of_a_deep_stack_is_folded(fixtures: Path) -> None:
    shown, found = drawn(fixtures / "zoo/nested_llama", (("full", True),))
    titles = [box.title for box in shown.boxes]
    leads = sorted(title.removeprefix("to ") for title in titles if title.startswith("to layer"))
    assert leads
    for title in leads:  # each column begins with the hidden state that the column before ends with
        assert f"from layer {int(title.split()[1]) - 1}" in titles
    assert found.height < 3 * found.width


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
    "nested_llama.places": ("zoo/nested_llama", {}),
    "qwen3_5_vl-layer.places": ("qwen3_5_vl", {"layer": 0}),
    "stage-0.places": ("pieces/stages/stage-0", {}),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_snapshot(export_of: Callable[[str], Path], name: str, snapshot: Callable[[str, str], None]) -> None:
    """Which boxes are beside each other, row by row. Another version of Graphviz can lay out otherwise."""
    if engine_command()[0] == shutil.which("dot"):
        pytest.skip("the rows are those of the engine in the wheel of pygraphviz")
    export, asked = PLACES[name]
    shown, found = drawn(export_of(export), tuple(asked.items()))
    named = titles_by_key(shown)
    rows: dict[int, list[tuple[float, str]]] = {}
    for key, place in found.boxes.items():
        title = named.get(key) or ("(legend)" if key.startswith("legend") else f"[{key}]")
        rows.setdefault(round((place.top + place.bottom) / 8), []).append((place.left, title))
    lines = (" | ".join(title for _, title in sorted(rows[row])) for row in sorted(rows))
    snapshot(name, "".join(f"{line}\n" for line in lines))
