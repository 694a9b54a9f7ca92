"""The compression that weights show, against exports that nncf compressed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.authoring import Context
from irtools.errors import OptionError
from irtools.export import open_export
from irtools.model.compression import Compression, CompressionSpec, parse_spec
from irtools.model.directory import ModelDirectory


def compression(directory: Path) -> Compression:
    context = Context(ModelDirectory.open(directory))
    assert context.target is not None
    found = context.compression(context.target)
    assert found is not None
    return found


def odd(directory: Path, spec: str) -> set[str]:
    """Properties that differ from a compression."""
    return set(compression(directory).stored.differences(parse_spec(spec)))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("int4_asym:64:int8_sym", CompressionSpec("int4_asym", 64, "int8_sym")),
        ("INT4_SYM:-1", CompressionSpec("int4_sym", -1)),
        ("int8_sym", CompressionSpec("int8_sym")),
        ("int4_asym::int8_asym:0.8", CompressionSpec("int4_asym", None, "int8_asym", 0.8)),
        ("none", CompressionSpec("none")),
    ],
)
def test_a_compression_is_read(text: str, spec: CompressionSpec) -> None:
    assert parse_spec(text) == spec


def test_integers_of_all_widths_of_openvino_can_be_asked_for() -> None:
    widths = {kind.bitwidth for kind in (ov.Type.u2, ov.Type.u3, ov.Type.u4, ov.Type.u8)}
    accepted = set()
    for bits in range(1, 17):
        for scheme in ("sym", "asym"):
            with suppress(OptionError):
                accepted.add((int(parse_spec(f"int{bits}_{scheme}").mode[3:].partition("_")[0]), scheme))
    assert accepted == {(bits, scheme) for bits in widths for scheme in ("sym", "asym")}


@pytest.mark.parametrize(
    "text",
    ["", "int5", "int4", "int4_asym:0", "int4_asym:x", "int4_asym:64:int4_sym", "int4_asym:64:none:1.5", "nf4:::1:2"],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match="cannot be read") as caught:
        parse_spec(text)
    assert "int4_asym:64:int8_sym" in (caught.value.hint or "")


def test_what_nncf_was_asked_for_is_what_the_weights_show(fixtures: Path) -> None:
    names = ["qwen3_5_vl_int4", "zoo/llama_int4", "zoo/llama_int8", "zoo/mixtral_int4"]
    for name in names:
        found = compression(fixtures / name)
        assert found.request is not None
        assert found.stored.differences(found.request.spec) == {}


@pytest.mark.parametrize(
    ("name", "spec", "differing"),
    [
        ("qwen3_5_vl_int4", "int4_asym:64:int8_sym", set()),
        ("qwen3_5_vl_int4", "int4_sym:128:int8_asym", {"mode", "group", "backup"}),
        ("qwen3_5_vl_int4", "int4_asym:-1", {"group"}),
        ("qwen3_5_vl_int4", "int4_asym:64:int8_sym:0.6", {"ratio"}),
        ("qwen3_5_vl_int4", "int8_sym", {"mode"}),
        ("zoo/llama_int4", "int4_asym:64:int8_asym", set()),
        ("zoo/llama_int4", "int4_asym:64:none", {"backup"}),
        ("zoo/llama_int8", "int8_asym", set()),
        ("zoo/llama_int8", "int8_sym", {"mode"}),
        ("zoo/llama_int8", "int4_asym:64:int8_asym", {"mode", "group"}),
        ("llama", "none", set()),
        ("llama", "int8_asym", {"mode"}),
    ],
)
def test_a_difference_is_named(fixtures: Path, name: str, spec: str, differing: set[str]) -> None:
    assert odd(fixtures / name, spec) == differing


@pytest.mark.parametrize(("rows", "counts"), [(1, False), (2, True), (3, True)])
def test_a_table_of_few_rows_is_a_matrix_and_a_vector_is_none(tmp_path: Path, rows: int, counts: bool) -> None:
    """Such as the two token types of BERT; the share is of the values of matrices."""
    table = op.constant(np.ones([rows, 512], np.float32))
    packed = op.multiply(op.convert(op.constant(np.ones([512, 512], np.uint8)), "f32"), op.constant(np.float32(0.1)))
    ids = op.parameter([-1], ov.Type.i64, name="input_ids")
    value = op.matmul(op.gather(table, ids, op.constant(0)), packed, False, True)
    ov.save_model(ov.Model([value], [ids], "small"), tmp_path / "openvino_model.xml", compress_to_fp16=False)
    assert compression(tmp_path).share == pytest.approx(512 / (512 + rows * counts))


def test_a_request_for_the_whole_model_is_compared_too(export_copy: Callable[..., Path]) -> None:
    """For a model of one part, the exporter writes the request without a list of parts."""
    directory = export_copy("zoo/llama_int4", to="copy")
    request = {"bits": 4, "sym": False, "group_size": 64, "ratio": 1.0, "backup_precision": None, "dtype": "int4"}
    found = []
    for change in ({}, {"group_size": 128}, {"sym": True}, {"bits": 8, "dtype": "int8"}):
        (directory / "openvino_config.json").write_text(json.dumps({"quantization_config": {**request, **change}}))
        findings = open_export(directory).verify(select=["QNT004", "QNT014"]).findings
        found.append([finding.code for finding in findings])

    assert found == [[], ["QNT014"], ["QNT014"], ["QNT004"]]
