"""Small decoders built with OpenVINO, to test one oddity at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as op

from irtools.model.document import Document

WIDTH, ROWS = 8, 32
Step = Callable[[ov.Node, int], ov.Node]


class Decoder:
    """Pre-norm layers of attention and MLP, with a step of the test after each layer.

    Attributes
    ----------
    sums : list of str
        Friendly name of each layer's last residual sum.
    """

    def __init__(self, layers: int = 3, after: Step = lambda stream, layer: stream, mask: str = "causal") -> None:
        self.layers, self.after, self.mask = layers, after, mask
        self.sums: list[str] = []
        self.embeddings: ov.Node | None = None
        self.quantised = ""

    def weights(self, *shape: int) -> ov.Node:
        return op.constant(np.full(shape, 0.1, np.float32))

    def linear(self, value: ov.Node, width: int = WIDTH) -> ov.Node:
        return op.matmul(value, self.weights(width, value.get_output_partial_shape(0)[-1].get_length()), False, True)

    def add(self, stream: ov.Node, branch: ov.Node) -> ov.Node:
        return op.add(*(self.quantise(value) if self.quantised == "both" else value for value in (stream, branch)))

    def quantise(self, value: ov.Node) -> ov.Node:
        low, high = op.constant(np.float32(-4)), op.constant(np.float32(4))
        return op.fake_quantize(value, low, high, low, high, 256)

    def norm(self, value: ov.Node) -> ov.Node:
        return op.mvn(value, op.constant(np.array([-1])), True, 1e-6, "inside_sqrt")

    def attention(self, value: ov.Node) -> ov.Node:
        heads = [op.unsqueeze(self.linear(value), op.constant(np.array([1]))) for _ in "qkv"]
        bias = self.bias(value)
        mixed = op.scaled_dot_product_attention(*heads, bias) if bias is not None else None
        mixed = mixed if mixed is not None else op.scaled_dot_product_attention(*heads, causal=self.mask == "causal")
        return self.linear(op.squeeze(mixed, op.constant(np.array([1]))))

    def bias(self, value: ov.Node) -> ov.Node | None:
        if self.mask != "relative":
            return None
        length = op.gather(op.shape_of(value), op.constant(np.int64(1)), op.constant(np.int64(0)))
        position = op.range(op.constant(np.int64(0)), length, op.constant(np.int64(1)), "i64")
        row, column = (op.unsqueeze(position, op.constant(np.array([axis]))) for axis in (0, 1))
        bucket = op.minimum(op.abs(op.subtract(row, column)), op.constant(np.int64(31)))
        table = op.gather(self.weights(ROWS, ROWS), bucket, op.constant(np.int64(0)))
        return op.reduce_mean(table, op.constant(np.array([-1])), False)

    def build(self) -> ov.Model:
        ids = op.parameter(ov.PartialShape([-1, -1]), np.int64, name="input_ids")
        ids.output(0).get_tensor().set_names({"input_ids"})
        stream = self.embeddings = op.gather(self.weights(ROWS, WIDTH), ids, op.constant(np.int64(0)))
        for layer in range(self.layers):
            stream = self.add(stream, self.attention(self.norm(stream)))
            stream = self.add(stream, self.linear(op.relu(self.linear(self.norm(stream), 2 * WIDTH))))
            stream.set_friendly_name(f"sum_{layer}")
            self.sums.append(f"sum_{layer}")
            stream = self.after(self.quantise(stream) if self.quantised == "stream" else stream, layer)
        normed = self.norm(stream)
        normed.set_friendly_name("final")
        logits = self.linear(normed, ROWS)
        logits.output(0).get_tensor().set_names({"logits"})
        return ov.Model([op.result(logits)], [ids], "decoder")

    def document(self, directory: Path) -> Document:
        path = directory / "openvino_model.xml"
        ov.save_model(self.build(), path, compress_to_fp16=False)
        return Document(path)
