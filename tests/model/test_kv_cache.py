"""Sizes of the paged cache against the caches that OpenVINO declares for a CPU."""

from __future__ import annotations

from pathlib import Path

import openvino
import pytest
from openvino._offline_transformations import paged_attention_transformation

from irtools.export import open_export
from irtools.model.footprint import footprint
from irtools.model.kv_cache import asked_precision

BITS = {"u8": 8, "u4": 4, "f16": 16, "bf16": 16, "f32": 32}


@pytest.mark.parametrize(("key", "value"), [("u8", "u8"), ("u4", "u4"), ("u8", "u4"), ("f16", "f16")])
def test_a_block_has_the_bytes_that_openvino_declares(fixtures: Path, key: str, value: str) -> None:
    core = openvino.Core()
    model = core.read_model(fixtures / "llama" / "openvino_model.xml")
    paged_attention_transformation(model)
    for port in model.inputs:
        if "_cache." in port.get_any_name():
            port.get_node().set_element_type(openvino.Type.dynamic)
    model.validate_nodes_and_infer_types()
    compiled = core.compile_model(model, "CPU", {"KEY_CACHE_PRECISION": key, "VALUE_CACHE_PRECISION": value})
    bits = 0
    for port in compiled.inputs:
        if "_cache." in port.get_any_name():
            _, heads, rows, width = (dim.get_length() if dim.is_static else 1 for dim in port.get_partial_shape())
            bits += heads * rows * width * BITS[port.get_element_type().get_type_name()]
    for context, blocks in ((1, 1), (32, 1), (33, 2), (320, 10)):
        memory = footprint(open_export(fixtures / "llama"), context=context)
        sizes = [term.size(key, value) for term in memory.terms if term.kind == "keys and values"]
        assert sum(sizes) * 8 == blocks * bits


@pytest.mark.parametrize(
    ("entries", "asked"),
    [
        ({"KV_CACHE_PRECISION": "u8"}, ("u8", "u8")),
        ({"KV_CACHE_PRECISION": "f16", "VALUE_CACHE_PRECISION": "u4"}, ("f16", "u4")),
        ({"KEY_CACHE_PRECISION": "u8", "VALUE_CACHE_PRECISION": "u4"}, ("u8", "u4")),
        ({"KV_CACHE_PRECISION": "dynamic"}, None),
        ({}, None),
    ],
)
def test_the_precision_that_the_ir_asks_for(
    fixtures: Path, tmp_path: Path, entries: dict[str, str], asked: tuple[str, str] | None
) -> None:
    text = (fixtures / "llama" / "openvino_model.xml").read_text()
    lines = "".join(f'<{name} value="{value}" />' for name, value in entries.items())
    assert '<KV_CACHE_PRECISION value="f16" />' in text
    (tmp_path / "openvino_model.xml").write_text(text.replace('<KV_CACHE_PRECISION value="f16" />', lines))
    assert asked_precision(open_export(tmp_path).target) == asked
    assert footprint(open_export(tmp_path)).asked == asked
