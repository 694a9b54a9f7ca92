"""Run a whole model and pieces of it with OpenVINO on the same inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from lxml import etree

from irtools.surgery.extraction.piece import Piece

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
BATCH = 2
Point = tuple[str, int]

_CORE = ov.Core()
_TYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32}


@dataclass
class Call:
    """One inference of the whole model: inputs by friendly name, and values at the cut points."""

    fed: dict[str, Any]
    values: dict[Point, Any]


def _array(port: Any, past: int, tokens: int, layers: int, random: np.random.Generator) -> Any:
    name, kind = port.get_any_name(), _TYPES[port.get_element_type().get_type_name()]
    sizes = [dim.get_length() if dim.is_static else None for dim in port.get_partial_shape()]
    if "attention_mask" in name:
        return np.ones([BATCH, past + tokens], kind)
    if "beam_idx" in name:
        return np.arange(BATCH, dtype=kind)
    missing = {0: BATCH, len(sizes) - 1: tokens} if kind != np.float32 else {0: BATCH, 1: tokens, 2: layers}
    if "position_ids" in name:
        missing = {len(sizes) - 2: BATCH, len(sizes) - 1: tokens}
    shape = [missing[at] if size is None else size for at, size in enumerate(sizes)]
    if "position_ids" in name:
        return np.broadcast_to(np.arange(past, past + tokens), shape).astype(kind)
    return random.standard_normal(shape).astype(kind) if kind == np.float32 else random.integers(3, 15, shape)


def points(piece: Piece) -> list[Point]:
    """Values of the whole model that are inputs or outputs of a piece."""
    ports = [*(port for port in piece.inputs if port.kind != "model"), *piece.outputs]
    return [(port.producer, port.output_index) for port in ports]


def run_whole(path: Path, wanted: Iterable[Point], calls: Sequence[int]) -> list[Call]:
    """Run the unchanged model with extra outputs; ``calls`` has the tokens of each call, and states are kept."""
    model = _CORE.read_model(path)
    ops = {op.get_friendly_name(): op for op in model.get_ops()}
    ends = {point: ops[point[0]].output(point[1]) for point in wanted if ops[point[0]].get_type_name() != "Parameter"}
    file = path.with_name("config.json")
    config = json.loads(file.read_text()) if file.is_file() else {}
    layers = config.get("text_config", config).get("num_hidden_layers", 1)
    outputs = dict(zip(ends, model.add_outputs(list(ends.values())), strict=True))
    order = {point: model.outputs.index(output) for point, output in outputs.items()}
    request = _CORE.compile_model(model, "CPU", EXACT).create_infer_request()
    random, past, results = np.random.default_rng(1), 0, []
    for tokens in calls:
        fed = {port.node.get_friendly_name(): _array(port, past, tokens, layers, random) for port in model.inputs}
        request.infer(list(fed.values()))
        values = {point: request.get_output_tensor(at).data.copy() for point, at in order.items()}
        results.append(Call(fed, values))
        past += tokens
    return results


def run_piece(piece: Piece, calls: Sequence[Call]) -> float:
    """Run a piece on values of the whole model; return the largest relative difference of its outputs."""
    model = _CORE.read_model(piece.path)
    for ports, described in ((model.inputs, piece.inputs), (model.outputs, piece.outputs)):
        assert len(ports) == len(described)
        assert all(port.name in read.get_names() for read, port in zip(ports, described, strict=True))
        assert [port.get_element_type().get_type_name() for port in ports] == [port.element_type for port in described]
    kept = {variable.get_info().variable_id for variable in model.get_variables()}
    assert kept == set(piece.states)
    request = _CORE.compile_model(model, "CPU", EXACT).create_infer_request()
    worst = 0.0
    for call in calls:
        values = {**call.values, **{(name, 0): array for name, array in call.fed.items()}}
        request.infer([values[port.producer, port.output_index] for port in piece.inputs])
        for at, port in enumerate(piece.outputs):
            value = request.get_output_tensor(at).data
            worst = max(worst, _difference(value, values[port.producer, port.output_index]))
    return worst


def _difference(actual: Any, expected: Any) -> float:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    assert np.isfinite(expected).all()
    scale = float(np.abs(expected).max(initial=0)) or 1.0
    return float(np.abs(actual.astype(np.float64) - expected).max(initial=0)) / scale


_PLACE = re.compile(rb'offset="(\d+)" size="(\d+)"')


def layers_of(path: Path) -> dict[str, bytes]:
    """The top-level ``<layer>`` elements of a file by id, without the white space after them."""
    root = etree.parse(path, etree.XMLParser(huge_tree=True)).getroot()
    return {str(layer.get("id")): etree.tostring(layer, with_tail=False) for layer in root.iterfind("layers/layer")}


def compare_bytes(whole: Path, piece: Path) -> int:
    """Check that kept ops differ in offsets only, and constants have their values; return the number of constants."""
    before, after = layers_of(whole), layers_of(piece)
    old, new = whole.with_suffix(".bin").read_bytes(), piece.with_suffix(".bin").read_bytes()
    last = max(map(int, before))
    count = 0
    for key, layer in after.items():
        if int(key) > last:  # an input or output at a cut
            assert b'type="Parameter"' in layer or b'type="Result"' in layer
            continue
        assert _PLACE.sub(b"", layer) == _PLACE.sub(b"", before[key])
        for there, here in zip(_PLACE.findall(before[key]), _PLACE.findall(layer), strict=True):
            (start, size), (at, same) = map(int, there), map(int, here)
            assert size == same
            assert new[at : at + size] == old[start : start + size]
            assert at % 64 == start % 64
            count += 1
    return count
