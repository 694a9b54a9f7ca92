"""A small EAGLE-3 draft in the form that Optimum Intel exports, made of the fixture ``llama``.

There is none among the fixtures: the exporter supports only checkpoints of 1.7 billion parameters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ir_edit import IR, edit

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
MODEL = "openvino_model.xml"
WIDTH, TOKENS = 32, 512
EMBEDDED, LAYER = "__module.model.embed_tokens/aten::embedding/Gather", "__module.model.layers.{}/aten::add/Add_1"


@cache
def built(
    tokens: int = TOKENS, offset: int = 0, kind: str = "int64", projection: str = "plain", lacking: str = ""
) -> tuple[bytes, bytes]:
    """The XML and the .bin of a draft that GenAI 2026.4.1 runs with the target ``llama``.

    The draft is the first layer of ``llama``, called ``midlayer``, over the sum of the embeddings and the projected
    hidden states.

    Parameters
    ----------
    tokens : int
        Tokens that the draft proposes; `TOKENS` for those of the target.
    offset : int
        All entries of ``d2t``.
    kind : str
        NumPy type of ``d2t``.
    projection : str
        ``plain``; ``narrow`` for two hidden states; ``not transposed``; ``converted`` for Convert ops before it.
    lacking : str
        ``state``, or ``attention`` for separate ops in place of the fused one.
    """
    import numpy as np
    import openvino as ov
    from openvino import opset13 as op

    chance = np.random.default_rng(0)
    model = ov.Core().read_model(FIXTURES / "llama" / MODEL)
    named = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    states = op.parameter([-1, -1, -1], ov.Type.f32)
    states.set_friendly_name("hidden_states")
    states.output(0).set_names({"hidden_states"})
    source = op.convert(op.convert(states, ov.Type.f16), ov.Type.f32) if projection == "converted" else states
    taps = 2 if projection == "narrow" else 3
    weights = chance.standard_normal((WIDTH, taps * WIDTH)).astype(np.float32)
    transposed = projection != "not transposed"
    projected = op.matmul(source, op.constant(weights if transposed else weights.T.copy()), False, transposed)
    projected.set_friendly_name("__module.model.fc/aten::linear/MatMul")
    joined = op.add(projected, named[EMBEDDED])
    for reader in named[EMBEDDED].output(0).get_target_inputs():
        if reader.get_node().get_type_name() != "ShapeOf" and reader.get_node() != joined:
            reader.replace_source_output(joined.output(0))
    for reader in named[LAYER.format(3)].output(0).get_target_inputs():
        reader.replace_source_output(named[LAYER.format(0)].output(0))
    results = list(model.get_results())
    if tokens != TOKENS:
        normed = results[0].input_value(0).get_node().input_value(0)
        head = op.constant(chance.standard_normal((tokens, WIDTH)).astype(np.float32))
        results = [op.result(op.matmul(normed, head, False, True))]
        results[0].output(0).set_names({"logits"})
    table = op.constant(np.full(tokens, offset, kind))
    table.set_friendly_name("self.model.d2t")
    results.append(op.result(table))
    results[-1].output(0).set_names({"d2t"})
    sinks = [sink for sink in model.get_sinks() if ".0." in sink.get_variable_id()]
    for node in model.get_ordered_ops():
        if lacking == "state" and node.get_type_name() == "ReadValue":
            _replace(node, node.input_value(0))
        if lacking == "attention" and node.get_type_name() == "ScaledDotProductAttention":
            query, keys, values = (node.input_value(index) for index in range(3))
            _replace(
                node, op.matmul(op.softmax(op.matmul(query, keys, False, True), -1), values, False, False).output(0)
            )
    if lacking == "state":
        sinks = []
    draft = ov.Model(results, sinks, [*model.get_parameters(), states], "eagle3")
    for node in draft.get_ordered_ops():
        node.set_friendly_name(node.get_friendly_name().replace("layers.0", "midlayer"))
    draft.set_rt_info("True", ["eagle3_mode"])
    draft.set_rt_info("0 1 2", ["hidden_layers_list"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MODEL
        ov.save_model(draft, path, compress_to_fp16=False)
        return path.read_bytes(), path.with_suffix(".bin").read_bytes()


def _replace(node: Any, source: Any) -> None:
    for reader in node.output(0).get_target_inputs():
        reader.replace_source_output(source)


def write(directory: Path, change: Callable[[IR], object] | None = None, **variant: object) -> None:
    """Put a draft in place of the model of a directory, a copy of ``llama``, and change it."""
    path = directory / MODEL
    xml, weights = built(**variant)  # type: ignore[arg-type]
    path.write_bytes(xml)
    path.with_suffix(".bin").write_bytes(weights)
    if change is not None:
        edit(path, change)
