"""The weights table against the XML itself and against OpenVINO reading it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import openvino
import pytest

from irtools.export import open_export
from irtools.ir.constants import iter_graphs, read_constants
from irtools.model.document import Document
from irtools.model.weights import covered_bytes, weights
from irtools.render.part import DrawnPart

EXPORTS = ("falcon", "llava", "gemma4_vl", "mixtral", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "qwen3_dflash")


def data_of_constants(path: Path) -> list[dict[str, str]]:
    """``<data>`` of every Const of a file, those in bodies too, read without irtools."""
    return [
        dict(layer.find("data").attrib)
        for layer in ElementTree.parse(path).iter("layer")
        if layer.get("type") == "Const"
    ]


@pytest.mark.parametrize("name", EXPORTS)
def test_every_constant_of_the_xml_is_in_one_weight(fixtures: Path, name: str) -> None:
    for document in open_export(fixtures / name).parts.values():
        expected = Counter(
            (data["element_type"], data["shape"].replace(" ", ""), data["offset"], data["size"])
            for data in data_of_constants(document.path)
        )
        found = Counter(
            (part.element_type, ",".join(map(str, part.shape)), str(part.offset), str(part.size))
            for weight in weights(document.graph)
            for part in weight.parts
        )
        assert found.keys() == expected.keys()
        assert all(found[key] >= expected[key] for key in expected)


@pytest.mark.parametrize("name", EXPORTS)
def test_constants_cover_the_whole_bin(fixtures: Path, name: str) -> None:
    for document in open_export(fixtures / name).parts.values():
        spans = sorted((int(d["offset"]), int(d["offset"]) + int(d["size"])) for d in data_of_constants(document.path))
        expected, end = 0, 0
        for start, stop in spans:
            expected += max(0, stop - max(start, end))
            end = max(end, stop)
        assert covered_bytes(read_constants(iter_graphs(document.scan))) == expected
        assert expected == document.weights_path.stat().st_size


@pytest.mark.parametrize("name", ["falcon", "qwen3_5_vl_int4", "mixtral"])
def test_types_and_sizes_are_those_that_openvino_reads(fixtures: Path, name: str) -> None:
    document = open_export(fixtures / name).target
    expected: Counter[tuple[str, str, int]] = Counter()
    for op in openvino.Core().read_model(document.path).get_ops():
        if op.get_type_name() == "Constant":
            kind = op.get_element_type().to_string()
            expected[
                op.get_friendly_name(), "boolean" if kind in ("char", "boolean") else kind, op.get_byte_size()
            ] += 1
    found = {(c.name, c.element_type, c.size) for c in read_constants((document.scan,))}
    # OpenVINO drops what nothing depends on, and reads nothing that the file does not have.
    assert set(expected) <= found
    assert len(expected) > 0.9 * len(found)


def test_int4_weights_have_groups_scales_and_zero_points(fixtures: Path) -> None:
    document = open_export(fixtures / "qwen3_5_vl_int4").target
    model = openvino.Core().read_model(document.path)
    stored = {op.get_friendly_name(): op for op in model.get_ops() if op.get_type_name() == "Constant"}
    found = [weight for weight in weights(document.graph) if weight.constant.element_type == "u4"]
    grouped = [weight for weight in found if weight.group_size]
    assert {weight.precision for weight in grouped} == {"u4 asymmetric, groups of 64"}  # as its rt_info asks
    assert len(grouped) == sum(
        len(op.shape) == 3 and op.get_element_type().to_string() == "u4" and op.shape[-1] == 64
        for op in stored.values()
    )
    for weight in grouped:
        rows, groups, size = stored[weight.constant.name].shape
        assert weight.shape == (rows, groups * size)
        assert weight.scale is not None
        assert weight.scale.shape == (rows, groups, 1)
        assert weight.zero_point is not None
        assert weight.zero_point.element_type == "u4"
        assert weight.size == sum(stored[part.name].get_byte_size() for part in weight.parts)


def expected_kind(name: str) -> str:
    """What a weight is for, told by the exporter's names: evidence that the table does not use."""
    for word, kind in (
        ("lm_head", "head"),
        ("layernorm", "norm"),
        ("linear_attn", "linear attention"),
        ("self_attn", "attention"),
        ("block_sparse_moe", "experts"),
        ("mlp.experts", "experts"),
        ("mlp.shared_expert", "experts"),
        ("mlp.gate/", "experts"),
        ("mlp.", "MLP"),
    ):
        if word in name:
            return kind
    return ""


@pytest.mark.parametrize("name", ["llama", "qwen3", "qwen3_5_vl", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "granite"])
def test_kinds_agree_with_the_exporters_names(fixtures: Path, name: str) -> None:
    export = open_export(fixtures / name)
    found = DrawnPart(export.target, export.locate()).weights
    checked = 0
    for weight in found:
        if not weight.learned or len(weight.shape) < 2 or weight.body:
            continue
        users = [export.target.graph.op_name(user) for user in weight.consumers]
        if len(users) == 1 and expected_kind(users[0]) and export.target.graph.op_type(weight.consumers[0]) == "MatMul":
            assert weight.kind == expected_kind(users[0]), users
            checked += 1
    assert checked >= 10


def test_tied_embeddings_are_one_weight_of_two_kinds(fixtures: Path) -> None:
    export = open_export(fixtures / "falcon")
    assert json.loads((fixtures / "falcon" / "config.json").read_text())["tie_word_embeddings"]
    tied = [weight for weight in DrawnPart(export.target, export.locate()).weights if weight.kind == "embedding+head"]
    assert [weight.shape for weight in tied] == [(512, 32)]


def test_weights_in_loop_bodies_belong_to_the_loop(fixtures: Path) -> None:
    document: Document = open_export(fixtures / "qwen3_5_vl").target
    loops = document.graph.by_type["Loop"]
    inside = [weight for weight in weights(document.graph, dict.fromkeys(loops, "loop")) if weight.body]
    assert inside
    assert {weight.owner for weight in inside} == set(loops)
    assert {weight.kind for weight in inside} == {"loop"}
