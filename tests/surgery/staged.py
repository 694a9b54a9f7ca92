"""Run stages one after the other, as their manifest says, and the whole model on the same inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

from irtools.ir.constants import iter_graphs, read_constants
from irtools.model.document import Document
from tests.surgery.pieces import EXACT, Call, run_whole

_CORE = ov.Core()


def run_stages(directory: Path, calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Outputs that each call of the stages gives, those of all stages by name."""
    manifest = json.loads((directory / "stages.json").read_text())
    stages = manifest["stages"]
    requests = [
        _CORE.compile_model(directory / stage["model"], "CPU", EXACT).create_infer_request() for stage in stages
    ]
    results: list[dict[str, Any]] = []
    kept: dict[tuple[int, str], Any] = {}
    for call in calls:
        done: dict[str, Any] = {}
        fresh: dict[tuple[int, str], Any] = {}
        for stage, request in zip(stages, requests, strict=True):
            fed = {}
            for port in stage["inputs"]:
                origin = port["from"]
                if "input" in origin:
                    fed[port["name"]] = call.fed[origin["input"]]
                elif origin["call"] == "same":
                    fed[port["name"]] = fresh[origin["stage"], origin["output"]]
                else:
                    empty = [2 if at == 0 else max(size, 0) for at, size in enumerate(port["shape"])]
                    kind = {"f32": np.float32, "i64": np.int64}[port["element_type"]]
                    fed[port["name"]] = kept.get((origin["stage"], origin["output"]), np.zeros(empty, kind))
            request.infer(fed)
            for port in stage["outputs"]:
                value = request.get_tensor(port["name"]).data.copy()
                fresh[stage["stage"], port["name"]] = done[port["name"]] = value
        kept = fresh
        results.append(done)
    return results


def fill_weights(path: Path) -> None:
    """Replace the weights of an export in f32, which are zeros in ``fixtures/zoo``, by random numbers."""
    data = bytearray(path.with_suffix(".bin").read_bytes())
    random = np.random.default_rng(3)
    for constant in read_constants(iter_graphs(Document(path).scan)):
        if constant.element_type == "f32" and constant.size >= 128:
            values = (random.standard_normal(constant.size // 4) * 0.3).astype(np.float32)
            data[constant.offset : constant.offset + constant.size] = values.tobytes()
    path.with_suffix(".bin").write_bytes(data)


def stage_difference(whole: Path, directory: Path, tokens: Sequence[int] = (4, 1, 1)) -> float:
    """Largest difference of the logits of the stages from those of the whole model, relative to the largest logit."""
    model = _CORE.read_model(whole)
    logits = next(port for port in model.outputs if "logits" in port.get_names())
    producer = logits.node.input_value(0)
    point = (producer.get_node().get_friendly_name(), producer.get_index())
    calls = run_whole(whole, [point], tokens)
    worst = 0.0
    for call, result in zip(calls, run_stages(directory, calls), strict=True):
        expected = call.values[point]
        assert result["logits"].shape == expected.shape
        assert np.abs(expected).max() > 0, "zeros are equal to anything"
        worst = max(worst, float(np.abs(result["logits"] - expected).max() / np.abs(expected).max()))
    return worst
