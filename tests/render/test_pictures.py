"""Content of pictures: boxes, arrows and DOT text."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from irtools.errors import RenderError, UsageError
from irtools.export import open_export
from irtools.graph.find import find_op
from irtools.render.dot import to_dot
from irtools.render.picture import KINDS, Frame, Picture
from irtools.render.pictures import PictureRequest, pictures
from irtools.render.select import around, between
from tests.marks import mostly_slow

Snapshot = Callable[[str, str], None]
EXPORTS = ["falcon", "gemma4_vl", "gpt2", "granite", "llama", "llava", "mixtral", "opt", "qwen3", "qwen3_5_moe_vl"]
EXPORTS += ["qwen3_5_vl", "qwen3_5_vl_int4", "qwen3_5_vl_trained", "qwen3_dflash", "bert"]


def picture(path: Path, **asked: object) -> Picture:
    return next(pictures(open_export(path), PictureRequest(**asked)))  # type: ignore[arg-type]


def titles(shown: Picture, kind: str) -> list[str]:
    return [box.title for box in shown.boxes if box.kind == kind]


OF_STATES = ("Broadcast", "Concat", "Unsqueeze", "ShapeOf", "Slice", "Reshape")
"""Ops that compute what a state starts or ends with."""
SNAPSHOTS = {
    "falcon.dot": ("falcon", {}),
    "qwen3_5_moe_vl.dot": ("qwen3_5_moe_vl", {}),
    "gemma4_vl.dot": ("gemma4_vl", {}),
    "qwen3_5_vl-pair.dot": ("qwen3_5_vl", {"pair": True}),
    "qwen3_5_vl-mtp.dot": ("qwen3_5_vl", {"part": "mtp"}),
    "llama-layer.dot": ("llama", {"layer": 1}),
    "llama-around.dot": ("llama", {"around": "layers.0.mlp.act_fn", "radius": 1}),
    "qwen3_dflash.dot": ("qwen3_dflash", {}),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_dot_snapshot(fixtures: Path, name: str, snapshot: Snapshot) -> None:
    export, asked = SNAPSHOTS[name]
    snapshot(name, to_dot(picture(fixtures / export, **asked)))


@pytest.mark.slow
def test_dot_does_not_depend_on_the_run(fixtures: Path) -> None:
    code = (
        "import sys, irtools\n"
        "from irtools.render.drawing import render\n"
        "from irtools.render.pictures import PictureRequest\n"
        "export = irtools.open_export(sys.argv[1])\n"
        "for request in (PictureRequest(), PictureRequest(full=True), PictureRequest(layer=0)):\n"
        "    sys.stdout.buffer.write(render(export, request, 'dot').data)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(fixtures / "qwen3_5_moe_vl")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("name", mostly_slow(EXPORTS[::-1], fast=6))
def test_arrows_join_boxes_and_keys_are_unique(fixtures: Path, name: str) -> None:
    for asked in ({}, {"full": True}, {"part": "mtp"} if name == "qwen3_5_vl" else {}):
        shown = picture(fixtures / name, **asked)
        keys = [box.key for box in shown.boxes]
        assert len(keys) == len(set(keys))
        assert {arrow.tail for arrow in shown.arrows} | {arrow.head for arrow in shown.arrows} <= set(keys)
        assert {box.kind for box in shown.boxes} <= KINDS.keys()


@pytest.mark.parametrize("name", [name for name in EXPORTS if name not in ("bert", "qwen3_dflash")])
def test_whiteboard_has_every_layer_and_tap_once(fixtures: Path, name: str) -> None:
    config = json.loads((fixtures / name / "config.json").read_text())
    config = config.get("text_config", config)
    count = config.get("num_hidden_layers") or config["n_layer"]
    shown = picture(fixtures / name)
    taps = [index for title in titles(shown, "tap") if "of the target" not in title for index in numbers(title)]
    assert sorted(taps) == list(range(count))
    assert titles(shown, "head")[0] == "Head"
    assert "logits" in titles(shown, "input")
    assert shown.omitted == ()


def numbers(text: str) -> list[int]:
    """The layers that a title such as ``tap 0-2, 4`` names."""
    spans = re.findall(r"(\d+)(?:-(\d+))?", text)
    return [layer for low, high in spans for layer in range(int(low), int(high or low) + 1)]


def test_each_kind_is_opened_once(fixtures: Path) -> None:
    shown = picture(fixtures / "qwen3_5_moe_vl")
    target = next(item for item in shown.items if isinstance(item, Frame) and item.key == "target")
    frames = [(item.title, *item.lines) for item in target.items if isinstance(item, Frame)]
    assert frames == [
        ("layers 0-2", "linear attention + experts and shared expert", "3 equal layers in a row, drawn once"),
        ("layer 3", "full attention + experts and shared expert"),
    ]
    inside = [box.title for box in Picture("", (), target.items, ()).boxes]
    assert inside.count("Linear attention") == inside.count("Full attention") == 1
    assert inside.count("Router") == inside.count("Experts") == inside.count("Shared expert") == 2
    assert inside.count("State") == inside.count("Keys and values") == 1


def test_mtp_head_stands_beside_the_target(fixtures: Path) -> None:
    shown = picture(fixtures / "qwen3_5_vl")
    assert [item.key for item in shown.items if isinstance(item, Frame)] == ["target", "mtp"]
    wires = {(arrow.tail, arrow.label) for arrow in shown.arrows if arrow.style == "wire"}
    assert ("embeddings", "next token") in wires
    assert titles(shown, "fusion") == ["Fusion"]


def test_pair_is_wired_as_the_runtime_does(fixtures: Path) -> None:
    shown = picture(fixtures / "qwen3_5_vl", pair=True)
    names = {box.key: box.title for box in shown.boxes}
    wires = [
        (names[arrow.tail], names[arrow.head]) for arrow in shown.arrows if arrow.style in ("wire", "feed", "same")
    ]
    assert ("tap 3, after the norm", "hidden_states") in wires
    assert ("Text embeddings", "inputs_embeds") in wires
    assert ("last_hidden_state", "Head") in wires
    assert ("Head", "Head") in wires  # the target's weights
    assert titles(shown, "layers") == ["layers 0-2", "layer 3"]


def _target_lines(shown: Picture) -> tuple[str, ...]:
    return next(item.lines for item in shown.items if isinstance(item, Frame) and item.title.startswith("target"))


def test_a_draft_head_in_the_target_is_what_the_runtime_clones(export_copy: Callable[..., Path]) -> None:
    path = export_copy("qwen3_5_vl_trained")
    export = open_export(path)
    plain = _target_lines(picture(path, pair=True))
    export.graft(100)
    export.save(check=False)
    shown = picture(path, pair=True)
    boxes = {box.key: box for box in shown.boxes}
    same = [(boxes[arrow.tail].title, boxes[arrow.head].title) for arrow in shown.arrows if arrow.style == "same"]
    assert same == [("Head", "Draft head"), ("Draft head", "Head")]
    assert "the first 100 rows of the head" in boxes["graft"].lines
    assert _target_lines(shown) == plain, "no more weights"


def test_a_head_of_its_own_is_drawn_in_the_mtp_part(export_copy: Callable[..., Path]) -> None:
    path = export_copy("qwen3_5_vl_trained")
    export = open_export(path)
    export.graft(tokens=[5, 7, 300], own_head=True)
    export.save(check=False)
    shown = picture(path, pair=True)
    own = next(box for box in shown.boxes if box.title == "Head of its own")
    assert own.lines == ("3 of 512 tokens", "weights 768 B f32")  # 3 rows of 64 values of 4 bytes
    assert not [arrow for arrow in shown.arrows if arrow.style == "same"]
    assert "draft logits" not in {box.title for box in shown.boxes}


def test_shapes_and_precisions_are_on_the_edges(fixtures: Path) -> None:
    shown = picture(fixtures / "llama")
    labels = [arrow.label for arrow in shown.arrows if arrow.style == "data" and arrow.label]
    assert labels == ["f32 [B, S, 32]"], "the value that runs through all layers, once"
    shared = [box for box in shown.boxes if box.kind == "shared"]
    assert {box.title: box.lines[-1] for box in shared} == {
        "rotary table": "f32 [B, 1, S, 8]",
        "attention mask": "f32 [B, 1, S, T]",
    }


def test_weights_are_lines_not_boxes(fixtures: Path) -> None:
    shown = picture(fixtures / "qwen3_5_vl_int4", full=True)
    assert not {"Const", "Convert"} & {box.title for box in shown.boxes if "zero_point" in box.op}
    assert "Const" not in {box.title for box in shown.boxes}
    products = [box for box in shown.boxes if box.title == "MatMul"]
    assert any("u4" in line for box in products for line in box.lines)


def test_shared_values_are_drawn_once_per_use(fixtures: Path) -> None:
    export = open_export(fixtures / "llama")
    shown = picture(fixtures / "llama", full=True, most=0)
    (mask,) = {
        export.target.graph.producers(key)[3] for key in export.target.graph.by_type["ScaledDotProductAttention"]
    }
    stubs = [box for box in shown.boxes if box.kind == "shared" and box.op == export.target.graph.op_name(mask)]
    assert len(stubs) == len(export.target.graph.by_type["ScaledDotProductAttention"])
    assert not [arrow for arrow in shown.arrows if arrow.tail == f"n{mask}"]


def test_full_has_every_op_and_says_what_it_has_not(fixtures: Path) -> None:
    export = open_export(fixtures / "falcon")
    everything = {f"n{key}" for key in export.target.graph}
    assert everything <= {box.key for box in picture(fixtures / "falcon", full=True, most=0).boxes}
    some = picture(fixtures / "falcon", full=True, most=50)
    assert some.omitted == (
        f"{len(everything) - 50} of {len(everything)} ops without constants, in the middle, beyond the limit of 50 "
        "(--max-nodes); irtools report writes a page with every op",
    )
    assert {"input_ids", "logits"} <= {box.title for box in some.boxes} | {
        name for key in export.target.graph.results for name in export.target.graph.result_names(key)
    }
    assert {f"n{key}" for key in export.target.graph.results} <= {box.key for box in some.boxes}
    assert "Left out: " in to_dot(some)


def test_layer_has_its_ops_in_frames(fixtures: Path) -> None:
    export = open_export(fixtures / "llama")
    shown = picture(fixtures / "llama", layer=2)
    stack = export.locate()
    drawn = {box.key.removeprefix("n") for box in shown.boxes if box.kind in ("attention", "mlp", "sum")}
    assert {int(key) for key in drawn} <= set(stack.layers[2].ops)
    assert sorted(item.title for item in shown.items if isinstance(item, Frame)) == sorted(
        [
            *("Q", "K", "RoPE of Q", "RoPE of K", "V", "Value cache", "Key cache"),
            *("Full attention", "Dense MLP"),
        ]
    )
    states = sorted(box.title for box in shown.boxes if box.kind == "state")
    assert states == ["Keys, read", "Keys, written", "Values, read", "Values, written"]
    assert {"rotary table", "attention mask", "from layer 1"} <= set(titles(shown, "shared"))
    assert len(titles(shown, "norm")) == 2
    with pytest.raises(UsageError, match="no layer 9"):
        picture(fixtures / "llama", layer=9)


def test_around_and_between_follow_the_edges(fixtures: Path) -> None:
    view = open_export(fixtures / "falcon").target.graph
    op = view.by_type["ScaledDotProductAttention"][0]
    near = set(around(view, op, 1))
    assert near == {op, *view.pred[op], *view.succ[op]}
    assert around(view, op, 0) == [op]
    path = between(view, view.pred[op].__iter__().__next__(), op)
    assert path[-1] == op
    assert between(view, op, path[0]) == path


def test_a_constant_stands_for_what_reads_it(fixtures: Path) -> None:
    view = open_export(fixtures / "qwen3_5_vl_int4").target.graph
    product = view.by_type["MatMul"][-1]
    weights = view.producers(product)[1]
    assert view.constant(weights)
    assert around(view, weights, 0) == [product]
    assert set(around(view, weights, 1)) == set(around(view, product, 1))


def test_ops_are_found_by_name_part_of_it_and_id(fixtures: Path) -> None:
    view = open_export(fixtures / "falcon").target.graph
    op = view.by_type["ScaledDotProductAttention"][0]
    name = view.op_name(op)
    assert find_op(view, name) == find_op(view, str(op)) == op
    with pytest.raises(UsageError, match="could be"):
        find_op(view, "ScaledDotProductAttention")
    with pytest.raises(UsageError, match="no op is called") as error:
        find_op(view, name[:-3] + "xyz")
    assert name in str(error.value)


def test_nothing_to_pair_with(fixtures: Path) -> None:
    with pytest.raises(RenderError, match="no MTP head"):
        picture(fixtures / "falcon", pair=True)


def test_what_has_no_stack_is_grouped_if_it_has_layers(fixtures: Path) -> None:
    shown = picture(fixtures / "bert")
    assert any("no decoder stack" in line for line in shown.subtitle)
    assert "Full attention" in titles(shown, "attention")
    merger = picture(fixtures / "qwen3_5_vl", part="vision_embeddings_merger")
    assert titles(merger, "attention") == ["Full attention"]
    assert titles(merger, "norm") == ["Layer norm"] * 3


def test_coarser_pictures_get_smaller_and_end_with_a_card(fixtures: Path) -> None:
    for asked in (PictureRequest(), PictureRequest(full=True), PictureRequest(layer=0)):
        sizes = [len(shown.boxes) for shown in pictures(open_export(fixtures / "qwen3_5_vl"), asked)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] == 1


def test_hostile_names_are_only_text(export_copy: Callable[..., Path]) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    text = path.read_text(encoding="utf-8")
    name = "__module.transformer.h.0/aten::add/Add"
    assert text.count(f'name="{name}"') == 1
    hostile = "&lt;b&gt;&quot;]; a -&gt; b \\N &#10;\N{CJK UNIFIED IDEOGRAPH-6F22}&lt;script&gt;"
    path.write_text(text.replace(f'name="{name}"', f'name="{hostile}"'), encoding="utf-8")
    shown = next(pictures(open_export(path), PictureRequest(around="<script>", radius=1)))
    labels = "".join(re.findall(r"label=<(.*)>", to_dot(shown)))
    assert "<script>" not in labels
    assert "&lt;script&gt;" in labels


def lightness(colour: str) -> float:
    """L* of ``#rrggbb``, the lightness in greyscale."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance


def test_kinds_of_one_shape_differ_in_lightness_or_border() -> None:
    plain = [kind for kind in KINDS.values() if kind.shape == "box" and not kind.style]
    values = sorted(lightness(kind.fill) for kind in plain)
    assert all(high - low >= 6 for low, high in pairwise(values)), values


def test_text_stands_out_from_its_box() -> None:
    for kind in KINDS.values():
        darker, lighter = sorted((lightness(kind.fill), lightness(kind.text)))

        # 4.5 to 1, as the accessibility guidelines ask for.
        def luminance(value: float) -> float:
            return ((value + 16) / 116) ** 3 if value > 8 else value / 903.3

        assert (luminance(lighter) + 0.05) / (luminance(darker) + 0.05) >= 4.5, kind.label


def test_layer_types_of_the_config_can_be_read_off_the_picture(fixtures: Path) -> None:
    config = json.loads((fixtures / "qwen3_5_moe_vl" / "config.json").read_text())["text_config"]
    shown = picture(fixtures / "qwen3_5_moe_vl")
    by_title = {box.title: box for box in shown.boxes}
    assert by_title["Router"].lines[0] == f"top {config['num_experts_per_tok']} of {config['num_experts']}"
    assert f"convolution over {config['linear_conv_kernel_dim']} tokens" in by_title["Linear attention"].lines


@pytest.mark.parametrize(("name", "most"), [("llama", 120), ("qwen3_5_vl", 250)])
def test_full_leaves_out_the_middle_and_keeps_both_ends(fixtures: Path, name: str, most: int) -> None:
    export = open_export(fixtures / name)
    view, shown = export.target.graph, picture(fixtures / name, full=True, most=most)
    drawn = {int(box.key[1:]) for box in shown.boxes if re.fullmatch(r"n\d+", box.key)}
    (gap,) = [box for box in shown.boxes if box.key == "gap"]
    every = {key for key in view if not view.constant(key)}
    assert drawn <= every
    assert gap.title == f"{len(every - drawn)} ops"
    assert len(drawn) == most
    stack = export.locate()
    outside = every - {op for layer in stack.layers for op in layer.ops}
    ends = {*view.parameters, *view.results, stack.embedding, stack.head, *stack.logits_tail}
    assert ends <= drawn
    assert drawn & set(stack.layers[0].ops)
    assert drawn & set(stack.layers[-1].ops)
    assert not drawn & set(stack.layers[len(stack.layers) // 2].ops)
    # What is beside the layers stays, except the states of layers that are left out.
    assert {view.op_type(op) for op in outside - drawn} <= {"ReadValue", "Assign", "Gather", *OF_STATES}
    into, out = ([arrow for arrow in shown.arrows if getattr(arrow, end) == "gap"] for end in ("head", "tail"))
    assert into
    assert out
    assert any("irtools report writes a page with every op" in sentence for sentence in shown.omitted)
