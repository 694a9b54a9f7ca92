"""Blocks of layers, and kinds of layers, compared with the configs of the exports."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import openvino as ov
import pytest
from openvino import opset15 as op

from irtools.anatomy.blocks import Block, LayerBlocks, head_blocks, stack_blocks
from irtools.anatomy.describe import block_facts
from irtools.anatomy.kinds import layer_kinds, segments
from irtools.export import Export, open_export
from irtools.render.part import DrawnPart
from tests.benchmarks.large import HIDDEN, INNER, Builder

ALL = [
    "falcon",
    "gemma4_vl",
    "gpt2",
    "granite",
    "llama",
    "llava",
    "mixtral",
    "opt",
    "qwen3",
    "qwen3_5_moe_vl",
    "qwen3_5_vl",
    "qwen3_5_vl_int4",
    "qwen3_5_vl_trained",
]
MIXERS = {"full_attention", "sliding_attention", "linear_attention"}


def text_config(export: Export) -> dict[str, Any]:
    config = json.loads((export.directory / "config.json").read_text())
    return config.get("text_config", config)


def layers_of(export: Export) -> tuple[LayerBlocks, ...]:
    return stack_blocks(export.target.graph, export.locate()).layers


def kinds_of(layer: LayerBlocks) -> list[str]:
    return [block.kind for block in layer.blocks]


def block(layer: LayerBlocks, *kinds: str) -> Block:
    return next(block for block in layer.blocks if block.kind in kinds)


@pytest.mark.parametrize("name", ALL)
def test_mixers_are_the_layer_types_of_the_config(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    config = text_config(export)
    count = config.get("num_hidden_layers") or config.get("n_layer")
    expected = config.get("layer_types") or ["full_attention"] * count
    mixers = [[kind for kind in kinds_of(layer) if kind in MIXERS] for layer in layers_of(export)]
    assert mixers == [[kind] for kind in expected]


@pytest.mark.parametrize("name", ALL)
def test_every_layer_has_norms_sums_and_a_feed_forward_and_no_loose_op(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    experts = any(key in text_config(export) for key in ("num_local_experts", "num_experts")) and "gemma4" not in name
    for layer in layers_of(export):
        kinds = kinds_of(layer)
        assert "op" not in kinds
        assert "norm" in kinds
        assert "sum" in kinds
        assert ("experts" in kinds) == experts
        assert ("dense" in kinds) == (not experts)


@pytest.mark.parametrize("name", ALL)
def test_blocks_of_a_layer_share_no_op_and_lie_on_its_stream(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    blocks = stack_blocks(export.target.graph, export.locate())
    ops = [op for layer in (*blocks.layers, blocks.closing) for block in layer.blocks for op in block.ops]
    assert len(ops) == len(set(ops))
    assert set(ops) <= blocks.stream.ops


@pytest.mark.parametrize(
    "name", ["granite", "llama", "llava", "mixtral", "qwen3", "qwen3_5_vl", "qwen3_5_moe_vl", "gpt2"]
)
def test_heads_are_those_of_the_config(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    config = text_config(export)
    heads = config.get("num_attention_heads") or config["n_head"]
    hidden = config.get("hidden_size") or config["n_embd"]
    keys = config.get("num_key_value_heads") or heads
    expected = f"{heads} heads of {config.get('head_dim') or hidden // heads}"
    if keys != heads:
        expected += f", {keys} key/value heads"
    for layer in layers_of(export):
        for block in layer.blocks:
            if block.kind == "full_attention":
                assert block_facts(export.target.graph, block) == (expected,)


@pytest.mark.parametrize("name", ["mixtral", "qwen3_5_moe_vl"])
def test_experts_are_those_of_the_config(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    config, view = text_config(export), export.target.graph
    count = config.get("num_local_experts") or config["num_experts"]
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    for layer in layers_of(export):
        assert block_facts(view, block(layer, "router")) == (f"top {config['num_experts_per_tok']} of {count}",)
        assert block_facts(view, block(layer, "experts"))[0].startswith(f"{count} experts, width {width}")
        shared = config.get("shared_expert_intermediate_size")
        assert ("shared_expert" in kinds_of(layer)) == (shared is not None)
        if shared is not None:
            assert block_facts(view, block(layer, "shared_expert"))[0].startswith(f"width {shared}, gated")


@pytest.mark.parametrize("name", ["llama", "qwen3", "qwen3_5_vl", "granite"])
def test_mlp_width_is_that_of_the_config(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    expected = f"width {text_config(export)['intermediate_size']}, gated, Swish"
    assert {block_facts(export.target.graph, block(layer, "dense")) for layer in layers_of(export)} == {(expected,)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3_5_vl", [(0, 1, 2), (3,)]),
        ("qwen3_5_moe_vl", [(0, 1, 2), (3,)]),
        ("llama", [(0, 1, 2, 3)]),
        ("opt", [(0, 1, 2, 3)]),
        # config: sliding x 2, full, sliding x 2, full; the last two share keys and values of earlier layers
        ("gemma4_vl", [(0, 1, 3), (2,), (4,), (5,)]),
    ],
)
def test_equal_layers_collapse(fixtures: Path, name: str, expected: list[tuple[int, ...]]) -> None:
    kinds = layer_kinds(layers_of(open_export(fixtures / name)))
    assert [kind.indices for kind in kinds] == expected
    assert len({kind.text for kind in kinds}) == len(kinds)


def test_gemma4_says_whose_keys_a_layer_reads(fixtures: Path) -> None:
    export = open_export(fixtures / "gemma4_vl")
    config = text_config(export)
    own = len(config["layer_types"]) - config["num_kv_shared_layers"]
    for layer in layers_of(export):
        reads = {value.layer for value in layer.outside if value.kind == "layer"}
        same = [i for i in range(own) if config["layer_types"][i] == config["layer_types"][layer.index]]
        assert reads == ({same[-1]} if layer.index >= own else set())


def test_states_are_with_their_mixers(fixtures: Path) -> None:
    for layer in layers_of(open_export(fixtures / "qwen3_5_vl")):
        assert [len(block.states) for block in layer.blocks if block.kind in MIXERS] == [2]
        assert sum(len(block.states) for block in layer.blocks) == 2


def test_parallel_branches_read_one_norm(fixtures: Path) -> None:
    layer = layers_of(open_export(fixtures / "falcon"))[0]
    norm = kinds_of(layer).index("norm")
    readers = {layer.blocks[link.head].kind for link in layer.links if link.tail == norm}
    assert readers == {"full_attention", "dense"}


def test_query_and_key_norms_are_found_inside_the_attention(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3")
    blocks = stack_blocks(export.target.graph, export.locate())
    attention = block(blocks.layers[0], "full_attention")
    assert len(blocks.norms_within(attention)) == 2  # q_norm and k_norm of Qwen3


def test_an_mtp_head_is_one_layer_between_fusion_and_norm(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl")
    assert export.mtp is not None
    part = DrawnPart(export.mtp)
    assert part.head is not None
    assert part.head.fusion is not None
    blocks = head_blocks(part.view, [part.head.fusion.ops["projection"]], part.head.end)
    assert [kinds_of(layer) for layer in blocks.layers] == [["norm", "full_attention", "sum", "norm", "dense", "sum"]]
    assert kinds_of(blocks.closing) == ["norm"]


def fake_kinds(sequence: str) -> list[Any]:
    layers: dict[str, list[LayerBlocks]] = {}
    for index, letter in enumerate(sequence):
        layers.setdefault(letter, []).append(LayerBlocks(index, 0, (), (), (), (letter,)))
    return list(layer_kinds([layer for group in layers.values() for layer in group]))


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("AAAA", [(1, "4A")]),
        ("AAABAAAB", [(2, "3A 1B")]),
        ("ABBBB", [(1, "1A 4B")]),
        ("CABABAB", [(1, "1C"), (3, "1A 1B")]),
        ("AABAABA", [(2, "2A 1B"), (1, "1A")]),
        ("A", [(1, "1A")]),
    ],
)
def test_repetition_is_written_shortest(sequence: str, expected: list[tuple[int, str]]) -> None:
    kinds = fake_kinds(sequence)
    letters = [str(kind.layers[0].signature[0]) for kind in kinds]
    runs = segments(kinds)
    assert [(s.repeat, " ".join(f"{run.length}{letters[run.kind]}" for run in s.runs)) for s in runs] == expected
    drawn = sorted(index for segment in runs for run in segment.runs for index in run.indices)
    assert drawn == list(range(len(sequence)))
    assert all(sequence[i] == letters[run.kind] for segment in runs for run in segment.runs for i in run.indices)


class WithSharedExpert(Builder):
    """Experts written out one by one, and one for all tokens."""

    def expert_block(self, value: ov.Node) -> ov.Node:
        gate = op.swish(self.linear(value, INNER, "mlp.shared.gate_proj"))
        up = self.linear(value, INNER, "mlp.shared.up_proj")
        shared = self.linear(op.multiply(gate, up), HIDDEN, "mlp.shared.down_proj", half=False)
        return op.add(super().expert_block(value), shared)


@pytest.mark.parametrize(("builder", "shared"), [(Builder, 0), (WithSharedExpert, 1)])
def test_experts_written_out_one_by_one_are_experts(builder: type[Builder], shared: int, tmp_path: Path) -> None:
    ov.save_model(builder(1, 3).build(), tmp_path / "openvino_model.xml", compress_to_fp16=False)
    export = open_export(tmp_path)
    (layer,) = stack_blocks(export.target.graph, export.locate()).layers
    kinds = Counter(block.kind for block in layer.blocks)
    assert (kinds["router"], kinds["experts"], kinds["shared_expert"], kinds["dense"]) == (1, 1, shared, 0)
    names = {block.kind: [export.target.graph.op_name(op) for op in block.ops] for block in layer.blocks}
    for expert in range(3):
        own = [name for name in names["experts"] if f"mlp.experts.{expert}." in name and "proj" in name]
        assert len(own) == 3, expert
    assert sum("mlp.shared" in name for name in names.get("shared_expert", ())) == 3 * shared
