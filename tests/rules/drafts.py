"""Drafts that no exporter writes at this size."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13


def write_eagle3(target: Path, draft: Path) -> None:
    """Write an EAGLE-3 draft for the target ``llama``: its first layer over embeddings and projected hidden states."""
    model = ov.Core().read_model(target / "openvino_model.xml")
    named = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    states = opset13.parameter([-1, -1, -1], ov.Type.f32)
    states.set_friendly_name("hidden_states")
    states.output(0).set_names({"hidden_states"})
    weights = np.random.default_rng(0).standard_normal((32, 96)).astype("f4")
    projected = opset13.matmul(states, opset13.constant(weights), False, True)
    projected.set_friendly_name("__module.model.fc/aten::linear/MatMul")
    embedded = named["__module.model.embed_tokens/aten::embedding/Gather"]
    joined = opset13.add(projected, embedded)
    for reader in embedded.output(0).get_target_inputs():
        if reader.get_node().get_type_name() != "ShapeOf" and reader.get_node() != joined:
            reader.replace_source_output(joined.output(0))
    for reader in named["__module.model.layers.3/aten::add/Add_1"].output(0).get_target_inputs():
        reader.replace_source_output(named["__module.model.layers.0/aten::add/Add_1"].output(0))
    table = opset13.result(opset13.constant(np.zeros(512, "i8").astype("int64")))
    table.output(0).set_names({"d2t"})
    sinks = [sink for sink in model.get_sinks() if ".0." in sink.get_variable_id()]
    made = ov.Model([*model.get_results(), table], sinks, [*model.get_parameters(), states], "eagle3")
    for node in made.get_ordered_ops():
        node.set_friendly_name(node.get_friendly_name().replace("layers.0", "midlayer"))
    made.set_rt_info("True", ["eagle3_mode"])
    made.set_rt_info("0 1 2", ["hidden_layers_list"])
    shutil.copytree(target, draft, ignore=shutil.ignore_patterns("openvino_model.*"))
    ov.save_model(made, draft / "openvino_model.xml", compress_to_fp16=False)
