"""A decoder of about 265,000 ops, built with the OpenVINO Python API.

64 layers, each with attention over a key/value cache and 256 experts written out one by one, as
exporters without a loop or batched experts produce them. Widths are tiny: the point is the number
of ops.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as op
from openvino.op.util import Variable, VariableInfo

HIDDEN, HEADS, HEAD_SIZE, INNER, VOCABULARY = 8, 2, 4, 4, 32


class Builder:
    """Builds one decoder; op names are those of an exporter."""

    def __init__(self, layers: int, experts: int) -> None:
        self.layers, self.experts = layers, experts
        self.seed = np.random.default_rng(0)
        self.scope = ""
        self.sinks: list[ov.Node] = []

    def named(self, node: ov.Node, name: str) -> ov.Node:
        node.set_friendly_name(f"__module.model.{self.scope}{name}")
        return node

    def weight(self, *shape: int, half: bool = True) -> ov.Node:
        values = self.seed.standard_normal(shape)
        return op.convert(op.constant(values.astype(np.float16)), "f32") if half else op.constant(values.astype("f4"))

    def linear(self, value: ov.Node, width: int, name: str, half: bool = True) -> ov.Node:
        weights = self.weight(width, value.get_output_partial_shape(0)[-1].get_length(), half=half)
        return self.named(op.matmul(value, weights, False, True), f"{name}/aten::linear/MatMul")

    def norm(self, value: ov.Node, name: str) -> ov.Node:
        squared = op.power(value, op.constant(np.float32(2)))
        mean = op.reduce_mean(squared, op.constant(np.array([-1])), True)
        root = op.sqrt(op.add(mean, op.constant(np.float32(1e-6))))
        scaled = op.multiply(value, op.divide(op.constant(np.float32(1)), root))
        return self.named(op.multiply(self.weight(1, 1, HIDDEN), scaled), f"{name}/aten::mul/Multiply")

    def heads(self, value: ov.Node) -> ov.Node:
        shaped = op.reshape(value, op.constant(np.array([0, 0, HEADS, HEAD_SIZE])), True)
        return op.transpose(shaped, op.constant(np.array([0, 2, 1, 3])))

    def cached(self, value: ov.Node, beam: ov.Node, layer: int, kind: str) -> ov.Node:
        info = VariableInfo()
        info.data_shape, info.data_type = ov.PartialShape([-1, HEADS, -1, HEAD_SIZE]), ov.Type.f32
        info.variable_id = f"past_key_values.{layer}.{kind}present.{layer}.{kind}"
        variable = Variable(info)
        empty = op.constant(np.zeros((1, HEADS, 0, HEAD_SIZE), np.float32))
        past = op.gather(op.read_value(empty, variable), beam, op.constant(np.int32(0)))
        present = op.concat([past, value], 2)
        self.sinks.append(op.assign(present, variable))
        return present

    def attention(self, value: ov.Node, beam: ov.Node, mask: ov.Node, layer: int) -> ov.Node:
        query, key, new = (self.heads(self.linear(value, HEADS * HEAD_SIZE, f"self_attn.{n}_proj")) for n in "qkv")
        keys, values = self.cached(key, beam, layer, "key"), self.cached(new, beam, layer, "value")
        mixed = op.scaled_dot_product_attention(query, keys, values, mask)
        joined = op.reshape(
            op.transpose(mixed, op.constant(np.array([0, 2, 1, 3]))),
            op.constant(np.array([0, 0, HEADS * HEAD_SIZE])),
            True,
        )
        return self.linear(joined, HIDDEN, "self_attn.o_proj")

    def expert_block(self, value: ov.Node) -> ov.Node:
        scores = op.softmax(self.linear(value, self.experts, "mlp.gate"), -1)
        best = op.topk(scores, op.constant(np.int64(2)), -1, "max", "value")
        zeros = op.multiply(scores, op.constant(np.float32(0)))
        routed = op.scatter_elements_update(zeros, best.output(1), best.output(0), op.constant(np.int64(-1)))
        total = None
        for expert in range(self.experts):
            name = f"mlp.experts.{expert}"
            gate = op.swish(self.linear(value, INNER, f"{name}.gate_proj"))
            up = self.linear(value, INNER, f"{name}.up_proj")
            down = self.linear(op.multiply(gate, up), HIDDEN, f"{name}.down_proj", half=False)
            weight = op.gather(routed, op.constant(np.array([expert])), op.constant(np.int64(-1)))
            part = op.multiply(down, weight)
            total = part if total is None else self.named(op.add(total, part), f"{name}/aten::add/Add")
        return total

    def build(self) -> ov.Model:
        dynamic = ov.PartialShape([-1, -1])
        ids = op.parameter(dynamic, np.int64, name="input_ids")
        attention_mask = op.parameter(dynamic, np.int64, name="attention_mask")
        beam = op.parameter(ov.PartialShape([-1]), np.int32, name="beam_idx")
        for parameter in (ids, attention_mask, beam):
            parameter.output(0).get_tensor().set_names({parameter.get_friendly_name()})
        stream = self.named(
            op.gather(self.weight(VOCABULARY, HIDDEN, half=False), ids, op.constant(np.int64(0))), "embed_tokens"
        )
        mask = self.causal_mask(attention_mask)
        for layer in range(self.layers):
            self.scope = f"layers.{layer}."
            mixed = self.attention(self.norm(stream, "input_layernorm"), beam, mask, layer)
            self.scope = f"layers.{layer}"
            stream = self.named(op.add(stream, mixed), "/aten::add/Add")
            self.scope = f"layers.{layer}."
            fed = self.expert_block(self.norm(stream, "post_attention_layernorm"))
            self.scope = f"layers.{layer}"
            stream = self.named(op.add(stream, fed), "/aten::add/Add_1")
        self.scope = ""
        logits = self.linear(self.norm(stream, "norm"), VOCABULARY, "lm_head")
        logits.output(0).get_tensor().set_names({"logits"})
        return ov.Model([op.result(logits)], self.sinks, [ids, attention_mask, beam], "large")

    def causal_mask(self, attention_mask: ov.Node) -> ov.Node:
        length = op.gather(op.shape_of(attention_mask), op.constant(np.int64(1)), op.constant(np.int64(0)))
        positions = op.range(op.constant(np.int64(0)), length, op.constant(np.int64(1)), "i64")
        columns = op.unsqueeze(positions, op.constant(np.array([0, 1, 2])))
        rows = op.unsqueeze(positions, op.constant(np.array([0, 1, 3])))
        return op.select(op.less_equal(columns, rows), op.constant(np.float32(0)), op.constant(np.float32(-65504)))


def write_large(directory: Path, layers: int = 64, experts: int = 256) -> Path:
    """Write the decoder as ``openvino_model.xml`` into a directory; returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    ov.save_model(Builder(layers, experts).build(), directory / "openvino_model.xml", compress_to_fp16=False)
    return directory


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--layers", type=int, default=64)
    parser.add_argument("--experts", type=int, default=256)
    options = parser.parse_args()
    write_large(options.directory, options.layers, options.experts)
