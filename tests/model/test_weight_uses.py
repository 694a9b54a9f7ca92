"""What reads a weight, in graphs that OpenVINO writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.ir.constants import iter_graphs, read_constants
from irtools.model.document import Document
from irtools.model.samples import weight_uses

WIDTH = 16


def uses(value: ov.Node, tokens: ov.Node, tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "openvino_model.xml"
    ov.save_model(ov.Model([op.result(value)], [tokens], "m"), path, compress_to_fp16=False)
    graph = Document(path).graph
    constants = read_constants(iter_graphs(graph.scan))
    return {graph.op_name(use.constant.id): use.use for use in weight_uses(graph, constants)}


def constant(name: str, kind: type, *shape: int) -> ov.Node:
    node = op.constant(np.ones(shape, kind))
    node.set_friendly_name(name)
    return node


@pytest.fixture
def tokens() -> ov.Node:
    return op.parameter(ov.PartialShape([-1, WIDTH]), np.float32, name="x")


def test_a_vector_that_multiplies_a_computed_value_is_of_a_norm(tokens: ov.Node, tmp_path: Path) -> None:
    assert uses(op.multiply(tokens, constant("gamma", np.float32, WIDTH)), tokens, tmp_path) == {"gamma": "norm"}
    table = op.multiply(tokens, constant("table", np.float32, 4, WIDTH))
    assert uses(table, tokens, tmp_path) == {}


def test_a_constant_that_multiplies_a_compressed_weight_is_its_scale(tokens: ov.Node, tmp_path: Path) -> None:
    weight = op.convert(constant("weight", np.int8, WIDTH, WIDTH), "f32")
    scaled = op.multiply(weight, constant("scale", np.float32, WIDTH, 1))
    value = op.matmul(tokens, scaled, False, True)
    assert uses(value, tokens, tmp_path) == {"weight": "matrix", "scale": "scale"}


def test_a_constant_that_multiplies_a_float_is_no_scale(tokens: ov.Node, tmp_path: Path) -> None:
    weight = op.convert(constant("weight", np.float16, WIDTH, WIDTH), "f32")
    scaled = op.multiply(weight, constant("other", np.float32, WIDTH, 1))
    value = op.matmul(tokens, scaled, False, True)
    assert "scale" not in uses(value, tokens, tmp_path).values()


def test_only_a_table_is_an_embedding(tokens: ov.Node, tmp_path: Path) -> None:
    rows = op.convert(op.gather(tokens, op.constant(0), op.constant(1)), "i64")
    for shape, found in [((8, WIDTH), {"table": "embedding"}), ((32,), {})]:
        value = op.gather(constant("table", np.float32, *shape), rows, op.constant(0))
        assert uses(value, tokens, tmp_path) == found
