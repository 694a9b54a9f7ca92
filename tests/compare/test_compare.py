"""Comparison of real pairs, and of copies with one known edit."""

from __future__ import annotations

import gc
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import openvino
import pytest
from lxml import etree

from irtools.compare.differences import CATEGORIES, Comparison, Difference, PartDiff
from irtools.compare.engine import compare
from irtools.errors import ExportError, UsageError
from irtools.model.document import Document
from irtools.report.compare_headline import headline
from tests.compare.scramble import scramble
from tests.marks import mostly_slow

Copy = Callable[..., Path]
COMMUTATIVE = (
    *("Add", "Multiply", "Maximum", "Minimum", "Equal", "NotEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    *("LogicalAnd", "LogicalOr", "LogicalXor"),
)
TARGETS = ("openvino_model.xml", "openvino_language_model.xml")


def edit(path: Path, pattern: str, new: str, *, count: int = 1) -> None:
    text, done = re.subn(pattern, new, path.read_text(), count=count, flags=re.DOTALL)
    assert done == count
    path.write_text(text)


def only(comparison: Comparison) -> PartDiff:
    """The one part that differs."""
    (part,) = [part for part in comparison.parts if not part.equal]
    return part


def types(part: PartDiff, which: str) -> Counter[str]:
    return Counter(op.type for diff in part.regions for op in getattr(diff, which))


# -- the same ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["falcon", "qwen3_5_moe_vl", "gemma4_vl", "bert", "qwen3_dflash", "zoo/t5"])
def test_a_copy_is_equal(name: str, fixtures: Path, export_copy: Copy) -> None:
    comparison = compare(fixtures / name, export_copy(name, "copy"))
    assert comparison.equal
    assert comparison.counts == {}
    assert comparison.exit_code == 0


@pytest.mark.parametrize(
    "name",
    mostly_slow(["llama", "gemma4_vl", "opt", "qwen3_5_moe_vl", "bert", "zoo/qwen3_moe", "zoo/gpt_oss", "zoo/cohere"]),
)
def test_other_names_ids_and_order_are_one_kind_of_difference(name: str, fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy(name, "copy")
    for path in copy.glob("openvino_*model.xml"):
        scramble(path)
    target = next(
        path for path in copy.glob("*.xml") if path.name in ("openvino_model.xml", "openvino_language_model.xml")
    )
    openvino.Core().read_model(target)  # still an IR
    comparison = compare(fixtures / name, copy)
    assert set(comparison.counts) == {"names"}
    assert compare(fixtures / name, copy, ignore=["names"]).equal


def test_ids_alone_are_no_difference(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("falcon")
    scramble(copy / "openvino_model.xml", names=False)
    assert compare(fixtures / "falcon", copy).equal


def test_swapped_operands_of_a_sum_are_no_difference(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("falcon")
    tree = etree.parse(copy / "openvino_model.xml")
    add = next(layer for layer in tree.iter("layer") if layer.get("name") == "__module.transformer.h.0/aten::add/Add")
    for edge in tree.iterfind("edges/edge"):
        if edge.get("to-layer") == add.get("id"):
            edge.set("to-port", "1" if edge.get("to-port") == "0" else "0")
    tree.write(copy / "openvino_model.xml")
    assert compare(fixtures / "falcon", copy).equal


# -- one known edit ------------------------------------------------------------------------


def test_stripped_names_the_annotation_and_nothing_else(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("qwen3")
    edit(copy / "openvino_model.xml", r"\s*<hidden_states_decoder_layers [^>]*/>", "")
    comparison = compare(fixtures / "qwen3", copy)
    assert set(comparison.counts) == {"annotation"}
    changes = only(comparison).annotation
    assert [change.layer for change in changes] == ["0", "1", "2", "3"]
    assert all(change.a and change.b is None for change in changes)
    assert compare(fixtures / "qwen3", copy, ignore=["annotation"]).equal


def test_an_annotation_that_names_another_value_differs_for_that_layer(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("qwen3")
    edit(copy / "openvino_model.xml", r"(layers\.1/aten::add/Add)_1(&quot;,&quot;output_index)", r"\1\2")
    comparison = compare(fixtures / "qwen3", copy)
    assert set(comparison.counts) == {"annotation"}
    (change,) = only(comparison).annotation
    assert (change.layer, change.a, change.b) == (
        "1",
        "__module.model.layers.1/aten::add/Add_1, output 0",
        "__module.model.layers.1/aten::add/Add, output 0",
    )


def test_other_weights_are_found_where_they_are(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("llama")
    tree = etree.parse(copy / "openvino_model.xml")
    layer = next(op for op in tree.iter("layer") if op.get("name") == "self.model.layers.2.mlp.down_proj.weight")
    offset = int(layer.find("data").get("offset"))
    weights = copy / "openvino_model.bin"
    content = bytearray(weights.read_bytes())
    content[offset + 1] ^= 0x55
    weights.write_bytes(content)
    comparison = compare(fixtures / "llama", copy)
    assert comparison.counts == {"values": 1}
    ((region, weight),) = [(diff.region, weight) for diff in only(comparison).regions for weight in diff.weights]
    assert (region.a, region.b, weight.values, weight.a.type) == (2, 2, True, "MatMul")
    assert compare(fixtures / "llama", copy, ignore=["values"]).equal
    assert compare(fixtures / "llama", copy, ignore=["weights"]).equal


def test_a_changed_attribute_is_told_with_its_op(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("llama")
    edit(copy / "openvino_model.xml", r'causal="false"', 'causal="true"')
    comparison = compare(fixtures / "llama", copy)
    assert comparison.counts == {"structure": 1}
    ((region, change),) = [(diff.region, op) for diff in only(comparison).regions for op in diff.changed]
    assert (region.a, change.a.type) == (0, "ScaledDotProductAttention")
    assert [(aspect.what, aspect.a, aspect.b) for aspect in change.changes] == [("causal", "false", "true")]


def test_exchanged_inputs_are_one_change_and_name_the_op(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("qwen3_5_vl_trained")
    tree = etree.parse(copy / "openvino_mtp_model.xml")
    (concat,) = [layer.get("id") for layer in tree.iter("layer") if layer.get("name") == "aten::cat/Concat"]
    for edge in tree.iterfind("edges/edge"):
        if edge.get("to-layer") == concat:
            edge.set("to-port", "1" if edge.get("to-port") == "0" else "0")
    tree.write(copy / "openvino_mtp_model.xml")
    comparison = compare(fixtures / "qwen3_5_vl_trained", copy)
    assert comparison.counts == {"structure": 1}
    assert headline(comparison) == "aten::cat/Concat: inputs 0 and 1 exchanged; everything else is equal"
    near = only(comparison).surroundings
    assert [op.name for op in near.ops if op.changes] == ["aten::cat/Concat"]
    assert sorted((edge.input, edge.side) for edge in near.edges if edge.side != "both") == [
        (0, "a"),
        (0, "b"),
        (1, "a"),
        (1, "b"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["falcon", "qwen3_5_moe_vl", "gemma4_vl"])
def test_no_exchange_of_two_inputs_is_called_equal(name: str, fixtures: Path, export_copy: Copy) -> None:
    """One op of each type, also where one input is a constant and the other is computed."""
    target = next(path for path in map((fixtures / name).__truediv__, TARGETS) if path.exists())
    copy = export_copy(name, "copy") / target.name
    tree = etree.parse(target)
    ops = {op.get("id"): op for op in tree.iterfind("layers/layer")}
    folded = Document(target).graph.constants  # how weights are computed is not compared, only their values
    inputs: dict[str, list[etree._Element]] = {}
    for edge in tree.iterfind("edges/edge"):
        inputs.setdefault(edge.get("to-layer"), []).append(edge)
    tried = set[tuple[str, ...]]()
    for op, edges in inputs.items():
        first, second, *_ = [*sorted(edges, key=lambda edge: int(edge.get("to-port"))), None]
        producers = [ops[edge.get("from-layer")].get("type") for edge in (first, second) if edge is not None]
        kind = (ops[op].get("type"), *(producer == "Const" for producer in producers))
        if len(producers) < 2 or int(op) in folded or all(kind[1:]) or kind in tried or kind[0] in COMMUTATIVE:
            continue
        tried.add(kind)
        first.set("to-port", "1")
        second.set("to-port", "0")
        tree.write(copy)
        first.set("to-port", "0")
        second.set("to-port", "1")
        comparison = compare(target, copy)
        assert headline(comparison).startswith(f"{ops[op].get('name')}: inputs 0 and 1 exchanged"), kind
    assert len(tried) >= 5


def test_a_value_exchanged_with_a_constant_is_a_difference(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("falcon")
    tree = etree.parse(copy / "openvino_model.xml")
    ids = {layer.get("name"): layer.get("id") for layer in tree.iter("layer")}
    op = "__module.transformer.h.1.input_layernorm/aten::layer_norm/MVN"
    first, second = [edge for edge in tree.iterfind("edges/edge") if edge.get("to-layer") == ids[op]]
    first.set("to-port", "1")
    second.set("to-port", "0")
    tree.write(copy / "openvino_model.xml")
    assert headline(compare(fixtures / "falcon", copy)).startswith(f"{op}: inputs 0 and 1 exchanged")


@pytest.mark.parametrize("constant", [False, True])
def test_a_sum_of_a_value_with_itself_is_a_difference(constant: bool, fixtures: Path, export_copy: Copy) -> None:
    """Addition commutes, but all inputs count: also where a constant was added before."""
    copy = export_copy("llama") / "openvino_model.xml"
    tree = etree.parse(copy)
    types = {layer.get("id"): layer.get("type") for layer in tree.iter("layer")}
    folded = Document(copy).graph.constants
    inputs: dict[str, list[etree._Element]] = {}
    for edge in tree.iterfind("edges/edge"):
        if types[edge.get("to-layer")] == "Add":
            inputs.setdefault(edge.get("to-layer"), []).append(edge)
    sums = [edges for op, edges in inputs.items() if int(op) not in folded]
    first, second = next(
        edges for edges in sums if [int(edge.get("from-layer")) in folded for edge in edges] == [False, constant]
    )
    for key in ("from-layer", "from-port"):
        second.set(key, first.get(key))
    tree.write(copy)
    comparison = compare(fixtures / "llama" / copy.name, copy)
    assert comparison.counts["structure"] == 1
    assert "reads another value" in headline(comparison)


def test_a_rewired_input_is_one_change(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("llama")
    tree = etree.parse(copy / "openvino_model.xml")
    ids = {layer.get("name"): layer.get("id") for layer in tree.iter("layer")}
    gate = next(name for name in ids if "layers.1.mlp.gate_proj" in name and "MatMul" in name)
    (edge,) = [
        edge for edge in tree.iterfind("edges/edge") if edge.get("to-layer") == ids[gate] and edge.get("to-port") == "0"
    ]
    other = next(name for name in ids if "layers.1.post_attention_layernorm" in name and "aten::pow" in name)
    edge.set("from-layer", ids[other])
    tree.write(copy / "openvino_model.xml")
    comparison = compare(fixtures / "llama", copy)
    assert comparison.counts == {"structure": 1}
    assert headline(comparison) == f"{gate}: input 0 reads another value"  # the line is full


def test_an_exchanged_activation_is_one_changed_op(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("llama")
    edit(copy / "openvino_model.xml", r'type="Swish" version="opset4"', 'type="SoftSign" version="opset9"')
    comparison = compare(fixtures / "llama", copy, ignore=["versions"])
    assert comparison.counts == {"structure": 1}
    (change,) = [op for diff in only(comparison).regions for op in diff.changed]
    assert [(aspect.what, aspect.a, aspect.b) for aspect in change.changes] == [("type", "Swish", "SoftSign")]


def test_a_small_constant_is_part_of_the_structure(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("llama")
    tree = etree.parse(copy / "openvino_model.xml")
    data = {op.get("id"): op.find("data") for op in tree.iter("layer") if op.get("type") == "Const"}
    transpose = next(op for op in tree.iter("layer") if op.get("type") == "Transpose" and "layers.1" in op.get("name"))
    source = next(
        edge.get("from-layer")
        for edge in tree.iterfind("edges/edge")
        if edge.get("to-layer") == transpose.get("id") and edge.get("to-port") == "1"
    )
    place = int(data[source].get("offset"))
    users = [op for op in data.values() if int(op.get("offset")) == place]
    weights = copy / "openvino_model.bin"
    content = bytearray(weights.read_bytes())
    width = int(data[source].get("size")) // 4
    content[place : place + 2 * width] = content[place + width : place + 2 * width] + content[place : place + width]
    weights.write_bytes(content)
    comparison = compare(fixtures / "llama", copy)
    assert set(comparison.counts) == {"structure"}
    changes = [op for diff in only(comparison).regions for op in diff.changed]
    assert len(changes) >= len(users)  # constants of equal value lie at one place
    told = {(aspect.what, aspect.a, aspect.b) for op in changes for aspect in op.changes if op.a.type == "Transpose"}
    assert told == {("constant 0", "[0, 2, 1, 3]", "[2, 0, 1, 3]")}


def test_bytes_that_no_constant_needs_are_told(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("llama")
    with (copy / "openvino_model.bin").open("ab") as weights:
        weights.write(bytes(100))
    comparison = compare(fixtures / "llama", copy)
    assert comparison.counts == {"files": 1}
    assert comparison.files == (
        Difference("openvino_model.bin", "what the IR needs", "100 bytes more than the IR needs"),
    )
    assert compare(fixtures / "llama/openvino_model.xml", copy / "openvino_model.xml").counts == {"files": 1}


def test_words_of_tokenizers_are_text(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("llama")
    data = (copy / "openvino_tokenizer.bin").read_bytes()
    assert data.count(b"right") == 1
    (copy / "openvino_tokenizer.bin").write_bytes(data.replace(b"right", b"lefts"))
    part = compare(fixtures / "llama", copy, part="tokenizer").parts[0]
    changes = [change for diff in part.regions for op in diff.changed for change in op.changes]
    assert [(change.a, change.b) for change in changes] == [('"right"', '"lefts"')]


def test_no_graph_is_called_equal_that_was_not_compared(fixtures: Path, tmp_path: Path) -> None:
    for name in ("tokenizer", "detokenizer"):
        for suffix in ("xml", "bin"):
            shutil.copy(fixtures / f"gpt2/openvino_{name}.{suffix}", tmp_path)
    (tmp_path / "more.json").write_text("{}")
    said = headline(compare(tmp_path, fixtures / "gpt2"))
    assert "only b has model" in said
    assert "; no model is in both" in said


def test_ports_are_compared_by_name_type_and_order(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("falcon")
    path = copy / "openvino_model.xml"
    edit(path, r'names="position_ids"', 'names="positions"')
    comparison = compare(fixtures / "falcon", copy)
    assert [(change.what, change.a, change.b) for change in only(comparison).ports] == [
        ("input position_ids", "i64 [?,?]", None),
        ("input positions", None, "i64 [?,?]"),
    ]
    assert set(comparison.counts) == {"ports"}
    assert compare(fixtures / "falcon", copy, ignore=["ports"]).equal


def test_metadata_versions_and_compression_are_told_apart(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("qwen3")
    path = copy / "openvino_model.xml"
    edit(path, r'<transformers_version value="[^"]*"', '<transformers_version value="9.9.9"')
    edit(path, r'<framework value="pytorch"', '<framework value="onnx"')
    comparison = compare(fixtures / "qwen3", copy)
    assert comparison.counts == {"rt_info": 1, "versions": 1}
    assert only(comparison).rt_info[0].what == "conversion_parameters/framework"
    assert only(comparison).versions[0].b == "9.9.9"
    assert compare(fixtures / "qwen3", copy, ignore=["rt_info", "versions"]).equal


# -- real pairs ----------------------------------------------------------------------------


def test_precisions_of_one_checkpoint_are_the_only_difference(fixtures: Path) -> None:
    comparison = compare(fixtures / "zoo/llama_int8", fixtures / "zoo/llama_int4", part="target")
    assert set(comparison.counts) <= {"weights", "values", "versions", "rt_info"}
    weights = [
        (weight, diff.region) for diff in only(comparison).regions for weight in diff.weights if not weight.values
    ]
    assert {weight.precision_b for weight, _ in weights} == {"u4 asymmetric, groups of 64"}
    assert {weight.precision_a for weight, _ in weights} == {"u8 asymmetric, per channel"}
    assert Counter(region.a for _, region in weights) == {0: 7, 1: 7, 2: 7, 3: 7}
    ignored = ["weights", "versions", "rt_info"]
    assert compare(fixtures / "zoo/llama_int8", fixtures / "zoo/llama_int4", part="target", ignore=ignored).equal


def test_weights_halved_by_openvino_are_the_only_difference(fixtures: Path, tmp_path: Path) -> None:
    plain, halved = fixtures / "llama" / "openvino_model.xml", tmp_path / "openvino_model.xml"
    openvino.save_model(openvino.Core().read_model(plain), halved, compress_to_fp16=True)
    comparison = compare(plain, halved)
    assert set(comparison.counts) == {"weights"}
    weights = [weight for diff in only(comparison).regions for weight in diff.weights]
    assert {(weight.precision_a, weight.precision_b) for weight in weights} == {("f32", "f16")}
    roles = Counter(weight.role for weight in weights)
    assert (roles["embedding"], roles["head"]) == (1, 1)
    assert roles["MatMul"] >= 28


def test_stateless_has_ports_in_place_of_states(fixtures: Path) -> None:
    comparison = compare(fixtures / "qwen3", fixtures / "zoo/qwen3_stateless", part="target")
    part = only(comparison)
    assert (part.states_a, part.states_b) == (8, 0)
    assert all(change.b is None for change in part.states)
    added = [change.what for change in part.ports if change.a is None]
    assert len(added) == 16
    assert [change.what for change in part.ports if change.b is None] == ["input beam_idx"]
    removed = types(part, "removed")
    assert (removed["ReadValue"], removed["Assign"]) == (8, 8)
    for kind in ("MatMul", "ScaledDotProductAttention", "Add", "Parameter", "Result"):
        assert not types(part, "removed")[kind] + types(part, "added")[kind]


def test_an_export_without_mtp_lacks_one_part(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("qwen3_5_vl")
    for path in copy.glob("openvino_mtp_model.*"):
        path.unlink()
    comparison = compare(fixtures / "qwen3_5_vl", copy)
    assert comparison.counts == {"parts": 1}
    assert [(change.what, change.a, change.b) for change in comparison.only] == [
        ("mtp", "openvino_mtp_model.xml", None)
    ]
    assert compare(fixtures / "qwen3_5_vl", copy, ignore=["parts"]).equal


@pytest.mark.parametrize("other", ["llama_export", "llama_trace", "llama_eager", "llama_onnx"])
def test_another_exporter_has_the_same_layers_with_the_same_products(other: str, fixtures: Path) -> None:
    comparison = compare(fixtures / "llama", fixtures / "zoo" / other, part="target")
    part = only(comparison)
    assert [(diff.region.a, diff.region.b) for diff in part.regions if diff.region.kind == "layer"] == [
        (layer, layer) for layer in range(4)
    ]
    weights = [weight for diff in part.regions for weight in diff.weights if weight.a.type == "MatMul"]
    assert all(sorted(weight.shape_a) == sorted(weight.shape_b) for weight in weights)  # ONNX transposes some
    # ONNX has attention decomposed: two products more in each layer.
    decomposed = 4 * (other == "llama_onnx")
    assert types(part, "added")["MatMul"] - types(part, "removed")["MatMul"] == 2 * decomposed
    assert types(part, "removed")["ScaledDotProductAttention"] == decomposed
    for kind in ("Swish", "ReduceMean"):
        assert not types(part, "removed")[kind]


def test_layers_that_one_side_lacks_are_told_as_layers(fixtures: Path) -> None:
    comparison = compare(fixtures / "llama", fixtures / "zoo/llama_onelayer", part="target")
    part = only(comparison)
    assert (part.layers_a, part.layers_b) == (4, 1)
    alone = [diff.region for diff in part.regions if diff.region.one_sided]
    assert [(region.a, region.b) for region in alone] == [(1, None), (2, None), (3, None)]
    assert not types(part, "removed")["MatMul"]
    assert not types(part, "removed")["ScaledDotProductAttention"]


def test_what_has_no_stack_is_compared_as_a_whole(fixtures: Path) -> None:
    comparison = compare(fixtures / "bert", fixtures / "zoo/bert_mlm", part="target")
    part = only(comparison)
    assert [diff.region.kind for diff in part.regions] == ["graph"]
    assert any("not layer by layer" in note for note in part.notes)
    added = types(part, "added")
    assert not types(part, "removed")["MatMul"]  # everything of the plain encoder is in the one with a head
    assert added["MatMul"] >= 1


# -- what cannot be compared -----------------------------------------------------------------


def test_a_broken_part_does_not_stop_the_others(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("qwen3_5_vl")
    (copy / "openvino_mtp_model.xml").write_text("<net name='x'><layers>")
    comparison = compare(fixtures / "qwen3_5_vl", copy)
    assert comparison.exit_code == 2
    broken = [part.part for part in comparison.parts if part.error is not None]
    assert broken == ["mtp"]
    assert all(part.equal for part in comparison.parts if part.error is None)


def test_weights_that_are_missing_are_told(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("falcon")
    (copy / "openvino_model.bin").unlink()
    comparison = compare(fixtures / "falcon", copy)
    assert set(comparison.counts) == {"parts"}
    assert comparison.exit_code == 2
    data = (fixtures / "falcon" / "openvino_model.bin").read_bytes()
    for weights, fault in (
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git-LFS pointer"),
        (data[:999], "has 999"),
    ):
        (copy / "openvino_model.bin").write_bytes(weights)
        comparison = compare(fixtures / "falcon", copy)
        (failure,) = comparison.failures
        assert f"{copy}/openvino_model.bin: {fault}" in failure
        assert (comparison.exit_code, comparison.counts) == (2, {})
        assert headline(comparison) == "weights of model not compared; everything else is equal"
        edit(copy / "openvino_model.xml", r'causal="false"', 'causal="true"')
        comparison = compare(fixtures / "falcon", copy)  # the structure is compared all the same
        assert (comparison.exit_code, comparison.counts) == (2, {"structure": 1})
        assert compare(fixtures / "falcon", copy, ignore=["weights"]).exit_code == 1
        edit(copy / "openvino_model.xml", r'causal="true"', 'causal="false"')


@pytest.mark.parametrize(
    ("before", "wrong", "fault"),
    [("</body>", 'offset="9999999"', "has 279842 bytes"), ("<body>", "", "has no offset")],
    ids=["in a body", "at the top"],
)
def test_a_constant_that_cannot_be_read_is_not_called_equal(
    before: str, wrong: str, fault: str, fixtures: Path, export_copy: Copy
) -> None:
    copy = export_copy("qwen3_5_moe_vl") / "openvino_language_model.xml"
    text = copy.read_text()
    start = text.rindex("offset=", 0, text.index(before))
    copy.write_text(text[:start] + re.sub(r'offset="\d+"', wrong, text[start:], count=1))
    comparison = compare(fixtures / "qwen3_5_moe_vl" / copy.name, copy)
    assert (comparison.exit_code, comparison.equal) == (2, False)
    assert fault in comparison.failures[0]


def test_missing_sides_and_unknown_words_are_errors(fixtures: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no such file or directory"):
        compare(fixtures / "falcon", tmp_path / "nothing")
    with pytest.raises(ExportError, match="no IR is in both"):
        compare(fixtures / "falcon", tmp_path)
    with pytest.raises(UsageError, match=r"to ignore\. Did you mean 'weights'"):
        compare(fixtures / "falcon", fixtures / "falcon", ignore=["weigths"])


@pytest.mark.slow
def test_every_category_can_be_ignored(fixtures: Path) -> None:
    pair = fixtures / "llama", fixtures / "zoo/llama_export"
    everything = compare(*pair).counts
    for category in CATEGORIES:
        left = compare(*pair, ignore=[category]).counts
        gone = {category, "values"} if category == "weights" else {category}
        assert set(left) == set(everything) - gone
    assert compare(*pair, ignore=list(CATEGORIES)).equal


# -- speed ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_ops_within_five_seconds(fixtures: Path, export_copy: Copy) -> None:
    copy = export_copy("scale")
    scramble(copy / "openvino_language_model.xml")
    gc.collect()
    start = time.process_time()
    comparison = compare(fixtures / "scale", copy)
    assert time.process_time() - start < 5
    assert comparison.counts == {"names": 5526}
