"""A piece computes the same tensors as the whole model; OpenVINO runs both."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openvino as ov
import pytest

import irtools
from irtools.errors import CheckError, EditError, ExportError, InvalidIRError, LocateRefusedError, SaveError, UsageError
from irtools.graph.view import GraphView
from irtools.model.document import Document
from irtools.surgery.extraction.piece import Piece
from irtools.surgery.reach import below
from tests.marks import mostly_slow
from tests.surgery.pieces import compare_bytes, layers_of, points, run_piece, run_whole
from tests.surgery.staged import fill_weights, stage_difference

EXPORTS = sorted(path.stem for path in (Path(__file__).parents[2] / "fixtures" / "truth").glob("*.json"))
ROUNDING = 3e-6  # single precision: OpenVINO fuses ops of a piece differently
WIDER = int(os.environ.get("IRTOOLS_PAIRS", "1"))

Extract = Callable[..., Piece]


@pytest.fixture
def extract(fixtures: Path, tmp_path: Path) -> Extract:
    """Extract from a fixture into a new directory, unchecked because the tests run the piece."""

    def run(name: str | Path, **options: Any) -> Piece:
        output = tmp_path / f"piece{len(list(tmp_path.iterdir()))}"
        return irtools.open_export(fixtures / name).extract(output, **{"check": False, **options})

    return run


def pairs(graph: GraphView, seed: str, count: int) -> list[tuple[str, str]]:
    """Random pairs of an op and one of its descendants."""
    generator, chosen = random.Random(seed), []
    names = Counter(graph.scan.names)
    ops = [op for op in graph.topological if names[graph.op_name(op)] == 1]
    ends = {op for op in ops if graph.op_type(op) not in ("Result", "Assign", "Const") and graph.consumers(op)}
    while len(chosen) < count:
        start = generator.choice(sorted(ends))
        reached = sorted(below(graph, [start]) & ends, key=graph.rank.__getitem__)
        end = generator.choice(reached[: generator.choice((1, 20, 200))])
        chosen.append((graph.op_name(start), graph.op_name(end)))
    return chosen


@pytest.mark.parametrize("name", mostly_slow(EXPORTS, fast=2))
def test_pieces_give_what_the_whole_model_gives(name: str, extract: Extract, target_of: Callable[[str], Path]) -> None:
    path = target_of(name)
    pieces = [
        extract(name, layers="1-2"),
        extract(name, layers="last", stateless=True),
        *(
            extract(name, from_=start, to=end, stateless=bool(number % 2))
            for number, (start, end) in enumerate(pairs(Document(path).graph, name, WIDER))
        ),
    ]
    calls = run_whole(path, {point for piece in pieces for point in points(piece)}, (5, 1))
    for piece in pieces:
        assert run_piece(piece, calls) < ROUNDING, piece
        assert compare_bytes(path, piece.path) > 0 or not piece.weights_bytes


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("qwen3", ["input_ids", "attention_mask", "position_ids", "beam_idx"]),
        ("qwen3_5_moe_vl", ["beam_idx"]),
        ("llava", ["attention_mask", "position_ids", "beam_idx"]),
    ],
)
def test_layers_take_what_the_whole_model_takes(name: str, inputs: list[str], extract: Extract) -> None:
    """No length becomes an input, although the first layer computes it for all layers."""
    piece = extract(name, layers="1-2")
    assert [port.name for port in piece.inputs] == ["hidden_states.0", *inputs]
    assert [port.name for port in piece.outputs] == ["hidden_states.2"]
    assert len(piece.states) == 4
    assert not piece.notes


def test_stateless_layers_have_the_names_of_a_stateless_export(extract: Extract) -> None:
    piece = extract("llama", layers=1, stateless=True)
    past = ["past_key_values.1.key", "past_key_values.1.value"]
    assert [port.name for port in piece.inputs if port.kind == "state"] == past
    assert [port.name for port in piece.outputs] == ["hidden_states.1", "present.1.key", "present.1.value"]
    assert not piece.states
    assert not ov.Core().read_model(piece.path).get_sinks()


def test_values_that_bypass_layers_become_inputs(extract: Extract) -> None:
    """The last layers of Gemma 4 attend to keys and values of earlier layers, and have per-layer inputs."""
    piece = extract("gemma4_vl", layers="last")
    producers = [port.producer for port in piece.inputs if port.kind == "value"]
    assert sum(".layers.2.self_attn/" in producer for producer in producers) == 2
    assert not piece.states


def test_one_op_alone_takes_all_that_is_not_constant(extract: Extract, target_of: Callable[[str], Path]) -> None:
    graph = Document(target_of("falcon")).graph
    attention = graph.by_type["ScaledDotProductAttention"][1]
    name = graph.op_name(attention)
    piece = extract("falcon", from_=name, to=name)
    sources = [graph.op_name(op) for op in graph.producers(attention)]
    assert sorted(port.producer for port in piece.inputs) == sorted(sources)
    kinds = Counter(re.findall(rb' type="(\w+)"', piece.path.read_bytes()))
    assert kinds == {b"Parameter": len(sources), b"ScaledDotProductAttention": 1, b"Result": 1}
    assert piece.weights_bytes == 0
    assert run_piece(piece, run_whole(target_of("falcon"), points(piece), (5,))) < ROUNDING


def test_an_op_that_only_constants_feed(extract: Extract, fixtures: Path) -> None:
    """A decompressed embedding, cut after its packed constant."""
    path = fixtures / "qwen3_5_vl_int4" / "openvino_text_embeddings_model.xml"
    graph = Document(path).graph
    last = next(op for op in graph.by_type["Multiply"] if graph.constant(op))
    first = next(op for op in graph.producers(last) if graph.producers(op))
    piece = extract(path, from_=graph.op_name(first), to=graph.op_name(last))
    assert not piece.inputs
    assert [port.name for port in piece.outputs] == [graph.op_name(last)]
    assert run_piece(piece, run_whole(path, points(piece), (5,))) == 0


def test_several_ends_and_one_output_of_several(extract: Extract, target_of: Callable[[str], Path]) -> None:
    graph = Document(target_of("falcon")).graph
    split = next(op for kind in ("Split", "VariadicSplit") for op in graph.by_type.get(kind, ()))
    name = graph.op_name(split)
    add = "__module.transformer.h.1/aten::add/Add"
    whole = extract("falcon", from_=name, to=[name, add])
    count = len(graph.op(split).outputs)
    assert [port.name for port in whole.outputs] == [*(f"{name}:{index}" for index in range(count)), add]
    one = extract("falcon", from_=name, to=f"{name}:1")
    assert [(port.name, port.output_index) for port in one.outputs] == [(f"{name}:1", 1)]
    calls = run_whole(target_of("falcon"), {*points(whole), *points(one)}, (5, 1))
    assert max(run_piece(whole, calls), run_piece(one, calls)) < ROUNDING


def test_a_state_of_which_half_is_cut_off_becomes_an_input_or_an_output(extract: Extract) -> None:
    layer = "__module.transformer.h.1.self_attention"
    cache = f"{layer}/aten::cat/Concat_2"
    graph = irtools.open_export(extract("falcon", layers="all").path).target.graph
    read = next(
        op for op in graph.by_type["Gather"] if any(graph.op_name(user.op) == cache for user in graph.consumers(op))
    )
    reading = extract("falcon", from_=graph.op_name(read), to=graph.op_name(read))
    assert [port.name for port in reading.inputs if port.kind == "state"] == ["past_key_values.1.key"]
    writing = extract("falcon", from_=cache, to=f"{layer}/aten::scaled_dot_product_attention/ScaledDotProductAttention")
    assert [port.name for port in writing.outputs if port.kind == "state"] == ["present.1.key"]
    assert any(
        "past_key_values.1.keypresent.1.key" in note and "written in the piece" in note for note in writing.notes
    )


def test_the_model_s_own_result_and_rt_info_stay(extract: Extract, target_of: Callable[[str], Path]) -> None:
    before = target_of("qwen3").read_bytes()
    graph = Document(target_of("qwen3")).graph
    result = graph.op_name(graph.results[0])
    piece = extract("qwen3", from_="__module.model.norm/aten::mul/Multiply", to=result)
    data = piece.path.read_bytes()
    assert [port.name for port in piece.outputs] == ["logits"]
    assert layers_of(target_of("qwen3"))[str(graph.results[0])] == layers_of(piece.path)[str(graph.results[0])]
    assert b"hidden_states_decoder_layers" in before
    lines = [line for line in before[before.rindex(b"</edges>") :].splitlines() if b"hidden_states_" not in line]
    assert data[data.rindex(b"</edges>") :].splitlines() == lines


def test_an_output_of_the_model_and_the_op_behind_it(extract: Extract) -> None:
    """One value is requested under two names; the first is the tensor name that users know."""
    head = "__module.lm_head/aten::linear/MatMul"
    piece = extract("falcon", from_=head, to=["logits", head, f"{head}:0"])
    assert [port.name for port in piece.outputs] == ["logits", head]
    model = ov.Core().read_model(piece.path)
    assert [port.name in read.get_names() for port, read in zip(piece.outputs, model.outputs, strict=True)] == [
        True
    ] * 2


def test_ops_of_a_tokenizer_are_checked_with_its_extension(fixtures: Path, tmp_path: Path) -> None:
    path = fixtures / "falcon" / "openvino_tokenizer.xml"
    graph = Document(path).graph
    name = graph.op_name(graph.by_type["BPETokenizer"][0])
    piece = irtools.open_export(path).extract(tmp_path / "out", from_=name, to=name)
    assert [port.element_type for port in piece.outputs] == ["i32", "i32", "i32"]
    assert compare_bytes(path, piece.path) > 0


def test_a_value_of_unknown_rank_is_no_scalar(extract: Extract, tmp_path: Path) -> None:
    """The file has no dimensions for either."""
    from openvino import opset13 as ops

    anything = ops.parameter(ov.PartialShape.dynamic(), name="anything")
    scalar = ops.parameter(ov.PartialShape([]), name="scalar")
    last = ops.add(ops.abs(anything, name="any"), ops.abs(scalar, name="one"), name="sum")
    path = tmp_path / "model" / "openvino_model.xml"
    ov.save_model(ov.Model([last], [anything, scalar]), path)
    piece = extract(path, from_="sum", to="sum")
    read = {port.get_any_name(): port.get_partial_shape() for port in ov.Core().read_model(piece.path).inputs}
    assert read == {"any": ov.PartialShape.dynamic(), "one": ov.PartialShape([])}
    assert [note.partition(" depends")[0] for note in piece.notes] == ["the rank of the input 'any'"]


def test_the_style_of_the_file_is_kept(export_copy: Callable[..., Path], extract: Extract) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    plain = extract(path, layers=2).path.read_bytes()
    odd = path.read_bytes().replace(b"\n", b"\r\n").replace(b"<layers>", b"<layers><!-- x -->")
    path.write_bytes(re.sub(rb'offset="(\d+)"', rb"offset = '\1'", odd))
    piece = extract(path, layers=2)
    data = piece.path.read_bytes()
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert re.sub(rb"offset = '(\d+)'", rb'offset="\1"', data.replace(b"\r\n", b"\n")) == plain
    assert ov.Core().read_model(piece.path).outputs


def test_outputs_of_a_version_10_file_have_their_names(export_copy: Callable[..., Path], extract: Extract) -> None:
    """In these files OpenVINO reads the names at the values, not at the Results."""
    path = export_copy("falcon") / "openvino_model.xml"
    path.write_bytes(path.read_bytes().replace(b'version="11"', b'version="10"', 1))
    layer = extract(path, layers=1, stateless=True)
    model = ov.Core().read_model(layer.path)
    assert all(port.name in read.get_names() for port, read in zip(layer.outputs, model.outputs, strict=True))
    assert [port.name for port in layer.outputs] == ["hidden_states.1", "present.1.key", "present.1.value"]


def test_constants_that_share_bytes_share_them_in_the_piece(export_copy: Callable[..., Path], extract: Extract) -> None:
    """Every layer has the same matrix, each 16 bytes after the one before."""
    path = export_copy("falcon") / "openvino_model.xml"
    plain = extract(path, layers="0-3")
    data = path.read_bytes()
    places = sorted({int(offset) for offset in re.findall(rb'offset="(\d+)" size="4096"', data)})
    assert len(places) >= 4
    for number, offset in enumerate(places):
        data = data.replace(b'offset="%d" size="4096"' % offset, b'offset="%d" size="4096"' % (places[0] + 16 * number))
    path.write_bytes(data)
    shared = extract(path, layers="0-3")
    assert shared.weights_bytes < plain.weights_bytes - 4096 * 2
    assert compare_bytes(path, shared.path) > 0
    offsets = sorted({int(offset) for offset in re.findall(rb'offset="(\d+)" size="4096"', shared.path.read_bytes())})
    assert [offset - offsets[0] for offset in offsets] == [16 * number for number in range(len(offsets))]


LIMITED = """
import resource, sys, irtools
from irtools.runtime.memory import peak_memory
piece = irtools.open_export(sys.argv[1]).extract(sys.argv[2], layers="last")
# Not RUSAGE_SELF, which includes the process that this one was forked from.
used = max(peak_memory(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
print(used >> 20, piece.weights_bytes)
"""


def test_five_gigabytes_within_half_a_gigabyte(export_copy: Callable[..., Path], tmp_path: Path) -> None:
    """The limit includes the process of the check; the last layer's weights are at the end of the file."""
    path = export_copy("qwen3") / "openvino_model.xml"
    weights, size = path.with_suffix(".bin"), 5 << 30
    old = weights.read_bytes()
    behind = size - len(old)
    with weights.open("r+b") as file:
        file.seek(behind)
        file.write(old)
    data = re.sub(
        rb'offset="(\d+)"',
        lambda match: b'offset="%d"' % (int(match[1]) + (behind if int(match[1]) > len(old) // 2 else 0)),
        path.read_bytes(),
    )
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, path, tmp_path / "out"], capture_output=True, text=True, check=True
    )
    used, written = map(int, done.stdout.split())
    assert used < 500
    assert written == (tmp_path / "out" / "openvino_model.bin").stat().st_size < 1 << 20
    assert weights.stat().st_size == size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "9"}, "there is no layer 9; the decoder stack has layers 0 to 3"),
        ({"layers": "2-1"}, "the layer range 2-1 runs backwards"),
        ({"layers": "two"}, "'two' is not a list of layers; write 3, 3-5 or 3-"),
        ({"layers": "0,2"}, "the layers 0,2 are not consecutive"),
        ({}, "nothing is selected"),
        ({"layers": "1", "from_": "x"}, "cannot be used together"),
        ({"layers": "1-2", "to": "logits"}, "is computed from layer 3 too; end the layers with the last one"),
        ({"layers": "2-", "to": "position_ids"}, "is not computed from these layers"),
        ({"stages": "0-1,2-", "layers": "1"}, "--stages selects all layers"),
        ({"stages": "0-1,3-"}, "layer 2 is expected after layer 1, not layer 3"),
        ({"stages": "0-1,2"}, "layer 3 is in no stage; end with 3-"),
        ({"from_": "x"}, "--from needs --to"),
        ({"from_": "nowhere", "to": "nowhere"}, "no op is called 'nowhere'"),
        ({"from_": "aten::add/Add", "to": "aten::add/Add"}, "could be 14 ops"),
        (
            {"from_": "__module.transformer.h.1/aten::add/Add", "to": "__module.transformer.h.0/aten::add/Add"},
            "is not computed from .*; swap them",
        ),
        (
            {"from_": "Result_431423", "to": "Result_431423"},
            "computes nothing: it only reads a value; give its producer '__module.lm_head/",
        ),
        (
            {"from_": "input_ids", "to": "__module.transformer.h.1/aten::add/Add:1"},
            "has no output 1; its last one is 0",
        ),
    ],
)
def test_what_makes_no_sense_is_told(options: dict[str, str], message: str, extract: Extract) -> None:
    with pytest.raises((UsageError, EditError), match=message):
        extract("falcon", **options)


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("llama", "0-1,2-"),
        pytest.param("qwen3_5_vl_trained", "0,1-2,3-", marks=pytest.mark.slow),
        pytest.param("qwen3_5_moe_vl", "0,1,2,3-", marks=pytest.mark.slow),
        pytest.param("gemma4_vl", "0-1,2,3,4-", marks=pytest.mark.slow),
        pytest.param("falcon", "0,1-2,3-", marks=pytest.mark.slow),
        pytest.param("zoo/lfm2_moe", "0-1,2-", marks=pytest.mark.slow),
        pytest.param("zoo/granitemoehybrid", "0,1-2,3-", marks=pytest.mark.slow),
        pytest.param("zoo/mamba", "0-1,2-", marks=pytest.mark.slow),
    ],
)
def test_stages_one_after_the_other_equal_the_whole_model(
    name: str, stages: str, fixtures: Path, export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    export = irtools.open_export(export_copy(name, "whole") if name.startswith("zoo/") else fixtures / name)
    if name.startswith("zoo/"):
        fill_weights(export.target.path)
    pieces = export.extract(tmp_path / "stages", stages=stages, check=False)
    assert len(pieces) == stages.count(",") + 1
    assert [port.name for port in pieces[-1].outputs] == ["logits"]
    tokens = (4,) if name == "zoo/mamba" else (4, 1, 1)  # its attention_mask is only for the new tokens
    assert stage_difference(export.target.path, tmp_path / "stages", tokens) < 1e-6


@pytest.mark.slow
def test_a_stage_that_compiles_for_one_sequence_only_says_so(fixtures: Path, tmp_path: Path) -> None:
    export = irtools.open_export(fixtures / "zoo" / "granitemoehybrid")
    _, last = export.extract(tmp_path / "stages", stages="0-1,2-")
    (note,) = last.notes
    assert "cannot compile it for the CPU" in note
    assert "for a batch of 1 it can" in note
    model = ov.Core().read_model(last.path)
    first = {port: port.partial_shape for port in model.inputs if port.partial_shape[0].is_dynamic}
    with pytest.raises(RuntimeError, match="Loop"):
        ov.Core().compile_model(model, "CPU")
    model.reshape({port: [1, *list(shape)[1:]] for port, shape in first.items()})
    ov.Core().compile_model(model, "CPU")


def test_a_last_stage_has_the_head_and_no_shapes_from_outside(fixtures: Path, tmp_path: Path) -> None:
    export = irtools.open_export(fixtures / "qwen3_5_vl_trained")
    last = export.extract(tmp_path / "last", layers="2-", to="logits")
    assert [port.name for port in last.inputs] == ["hidden_states.1", "attention_mask", "position_ids", "beam_idx"]
    assert [port.name for port in last.outputs] == ["logits"]
    start = next(
        name for name in export.target.graph.scan.names if "layers.2.input_layernorm" in name and "pow" in name
    )
    named = export.extract(tmp_path / "named", from_=start, to="logits", check=False)
    assert not [port.name for port in named.inputs if port.kind == "shape"]


def test_a_shape_from_outside_is_explained(extract: Extract) -> None:
    piece = extract("qwen3_5_vl_trained", layers="3")
    (port,) = [port for port in piece.inputs if port.kind == "shape"]
    assert any(repr(port.name) in note and "neither takes nor computes" in note for note in piece.notes)


def test_an_op_in_a_body_and_a_part_without_stack(extract: Extract, target_of: Callable[[str], Path]) -> None:
    graph = Document(target_of("qwen3_5_moe_vl")).graph
    loop = graph.by_type["Loop"][0]
    inner = next(name for name in graph.bodies(loop)["body"].scan.names if name not in graph.scan.names)
    with pytest.raises(UsageError, match=re.escape(f"{inner!r} is in the body of ")):
        extract("qwen3_5_moe_vl", from_=inner, to=inner)
    with pytest.raises(LocateRefusedError, match="--from OP and --to OP work without a decoder stack"):
        extract("bert", layers="1")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (None, "the weights are missing"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git-LFS pointer"),
        (b"x" * 100, "has 100 bytes, and the piece needs the first"),
    ],
)
def test_weights_are_looked_at_before_anything_is_written(
    weights: bytes | None, message: str, export_copy: Callable[..., Path], extract: Extract, tmp_path: Path
) -> None:
    path = export_copy("falcon") / "openvino_model.bin"
    if weights is None:
        path.unlink()
    else:
        path.write_bytes(weights)
    with pytest.raises(ExportError, match=message):
        extract(path.parent, layers="1")
    assert [entry.name for entry in tmp_path.iterdir()] == ["falcon"]


def test_a_piece_that_openvino_cannot_read_is_not_there(export_copy: Callable[..., Path], tmp_path: Path) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    data = path.read_bytes()
    add = data.index(b'name="__module.transformer.h.1/aten::add/Add"')
    path.write_bytes(data[:add] + data[add:].replace(b'version="opset1"', b'version="opset99"', 1))
    export = irtools.open_export(path)
    with pytest.raises(CheckError, match=r"OpenVINO cannot read it.*nothing was written"):
        export.extract(tmp_path / "out", layers="1")
    assert not (tmp_path / "out").exists()
    assert export.extract(tmp_path / "out", layers="1", check=False).path.is_file()
    with pytest.raises(SaveError, match="the directory is not empty"):
        export.extract(tmp_path / "out", layers="1", check=False)


def test_a_piece_that_openvino_cannot_compile_says_so(extract: Extract) -> None:
    """OpenVINO 2026.4 reads the piece, but its optimization of the batch size creates a cycle."""
    layer = "__module.model.layers.0"
    options = {
        "from_": ["__module.model/aten::index/Reshape", f"{layer}.input_layernorm/aten::rsqrt/Sqrt"],
        "to": [f"{layer}.input_layernorm/aten::mul/Multiply", f"{layer}.post_attention_layernorm/aten::rsqrt/Divide"],
    }
    piece = extract("llama", **options, check=True)
    assert [note.partition(":")[0] for note in piece.notes] == [
        "OpenVINO reads the piece but cannot compile it for the CPU"
    ]
    with pytest.raises(RuntimeError, match="Loop detected"):
        ov.Core().compile_model(piece.path, "CPU")
    assert not extract("llama", **options, stateless=True, check=True).notes


def test_a_constant_without_a_place(export_copy: Callable[..., Path], extract: Extract) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    path.write_bytes(re.sub(rb' offset="\d+" size="4096"', b"", path.read_bytes()))
    with pytest.raises(InvalidIRError, match="has no offset; export the model again"):
        extract(path, layers="1")


def test_many_ops_take_little_time_and_memory(extract: Extract, target_of: Callable[[str], Path]) -> None:
    """One layer with Loops, cut out of a 40-layer mixture of experts."""
    piece = extract("scale", layers="20")
    assert compare_bytes(target_of("scale"), piece.path) > 100
    assert piece.weights_bytes < target_of("scale").with_suffix(".bin").stat().st_size / 30
    assert len(ov.Core().read_model(piece.path).get_sinks()) == 2
