"""A graph that just misses a pattern gets the reason that fits, and the op that did not fit is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.graph.match import Matcher, Mismatch
from irtools.graph.view import GraphView
from irtools.model.document import Document

WIDTH = 8
Build = Callable[[ov.Node, ov.Node], ov.Node]


def number(value: float) -> ov.Node:
    return op.constant(np.float32(value))


def weights(*shape: int) -> ov.Node:
    return op.constant(np.ones(shape, np.float32))


def axes(*values: int) -> ov.Node:
    return op.constant(np.array(values, np.int64))


def linear(value: ov.Node, width: int = WIDTH) -> ov.Node:
    return op.matmul(value, weights(width, WIDTH), False, True)


def mean_of(value: ov.Node) -> ov.Node:
    return op.reduce_mean(value, axes(-1), True)


def rows(ids: ov.Node, *shape: int) -> ov.Node:
    return op.gather(weights(*shape), ids, op.constant(0))


def attention(scores: ov.Node, value: ov.Node) -> ov.Node:
    return op.matmul(op.softmax(scores, -1), value, False, False)


def convolved(value: ov.Node, width: int) -> ov.Node:
    turned = op.transpose(value, axes(0, 2, 1))
    kernel = weights(WIDTH, 1, 1, width)
    return op.group_convolution(turned, kernel, [1], [0], [width - 1], [1], "explicit")


def fused(first: ov.Node, second: ov.Node, *more: ov.Node) -> ov.Node:
    joined = op.concat([first, second, *more], -1)
    width = joined.get_output_partial_shape(0)[-1].get_length()
    return op.matmul(joined, weights(WIDTH, width), False, True)


def mvn(value: ov.Node) -> ov.Node:
    return op.mvn(value, axes(-1), True, 1e-6, "inside_sqrt")


CASES: list[tuple[str, str, Build, str, str]] = [
    # role, type of the op that is tried, graph of a stream and of token ids, reason, type of the op that is named
    (
        "norm",
        "Multiply",
        lambda x, ids: op.multiply(x, op.power(mean_of(x), number(-0.5))),
        "mean above it is not of a square",
        "Parameter",
    ),
    (
        "norm",
        "Multiply",
        lambda x, ids: op.multiply(x, op.power(mean_of(op.relu(x)), number(-0.5))),
        "mean above it is not of a square",
        "ReLU",
    ),
    ("norm", "Multiply", lambda x, ids: op.multiply(x, op.sigmoid(x)), "no mean of a square above it", "Multiply"),
    (
        "embedding",
        "Gather",
        lambda x, ids: op.gather(x, op.constant(0), op.constant(1)),
        "data is not a constant table",
        "Gather",
    ),
    ("embedding", "Gather", lambda x, ids: op.add(x, rows(axes(1), 4, WIDTH)), "its indices are constant", "Gather"),
    ("embedding", "Gather", lambda x, ids: rows(ids, 4, 2, WIDTH), "has rank 3, not 2", "Gather"),
    (
        "embedding",
        "Gather",
        lambda x, ids: rows(op.cum_sum(ids, op.constant(1)), 4, WIDTH),
        "computed by CumSum",
        "CumSum",
    ),
    (
        "embedding",
        "Gather",
        lambda x, ids: rows(op.convert(x, "i64"), 4, WIDTH),
        "index input is f32, not an integer",
        "Parameter",
    ),
    ("embedding", "Parameter", lambda x, ids: op.relu(ids), "the input is i64, not a floating", "Parameter"),
    (
        "logits_tail",
        "Result",
        lambda x, ids: op.matmul(x, op.relu(x), False, True),
        "multiplies two activations",
        "MatMul",
    ),
    ("logits_tail", "Result", lambda x, ids: op.add(linear(x), linear(op.relu(x))), "this Add joins 2 values", "Add"),
    ("logits_tail", "Result", lambda x, ids: op.sin(linear(x)), "Sin lies between the logits", "Sin"),
    ("mtp_fusion", "Concat", lambda x, ids: fused(mvn(x), mvn(op.relu(x)), x), "joins 3 values", "Concat"),
    ("mtp_fusion", "Concat", lambda x, ids: fused(mvn(x), linear(x, 4)), "not two values of the same width", "Concat"),
    (
        "mtp_fusion",
        "Concat",
        lambda x, ids: op.relu(op.concat([mvn(x), mvn(x)], -1)),
        "no MatMul with constant weights",
        "Concat",
    ),
    (
        "mtp_fusion",
        "Concat",
        lambda x, ids: fused(mvn(x), op.sin(op.sin(x))),
        "not a normalised input",
        "Concat",
    ),
    ("token_mixer", "SoftMax", lambda x, ids: attention(op.sin(x), x), "Sin above the SoftMax is not a product", "Sin"),
    ("token_mixer", "SoftMax", lambda x, ids: attention(linear(x), op.relu(x)), "so it is a router", "MatMul"),
    (
        "token_mixer",
        "SoftMax",
        lambda x, ids: op.softmax(op.matmul(x, op.relu(x), False, True), -1),
        "is not multiplied by values",
        "SoftMax",
    ),
    ("token_mixer", "MatMul", lambda x, ids: linear(x), "does not multiply two activations", "MatMul"),
    (
        "token_mixer",
        "MatMul",
        lambda x, ids: op.matmul(x, op.relu(x), False, True),
        "no other product of activations",
        "MatMul",
    ),
    ("token_mixer", "GroupConvolution", lambda x, ids: convolved(x, 1), "kernel has width 1", "GroupConvolution"),
    ("token_mixer", "CumSum", lambda x, ids: op.cum_sum(ids, op.constant(1)), "sums integers (positions)", "CumSum"),
    (
        "feed_forward",
        "MatMul",
        lambda x, ids: op.matmul(x, op.relu(x), False, True),
        "it multiplies two activations",
        "MatMul",
    ),
    (
        "feed_forward",
        "TopK",
        lambda x, ids: op.topk(x, op.constant(2), -1, "max", "value").output(0),
        "no router",
        "TopK",
    ),
    (
        "feed_forward",
        "TopK",
        lambda x, ids: op.topk(op.matmul(x, op.relu(x), False, True), op.constant(2), -1, "max", "value").output(0),
        "has no constant weights, so it is not a router",
        "MatMul",
    ),
]


def built(build: Build, directory: Path) -> GraphView:
    x = op.parameter(ov.PartialShape([-1, -1, WIDTH]), np.float32, name="x")
    ids = op.parameter(ov.PartialShape([-1, -1]), np.int64, name="ids")
    model = ov.Model([op.result(build(x, ids))], [x, ids])
    ov.save_model(model, directory / "m.xml", compress_to_fp16=False)
    return Document(directory / "m.xml").graph


def misses(graph: GraphView, role: str, kind: str) -> Iterator[tuple[str, str]]:
    for key in graph.by_type[kind]:
        match, missed = Matcher(graph).at(role, key)
        for miss in missed if match is None else ():
            assert isinstance(miss, Mismatch)
            yield miss.reason, graph.op_type(miss.op) if miss.op is not None else ""


@pytest.mark.parametrize(("role", "kind", "build", "reason", "named"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES])
def test_the_reason_fits(role: str, kind: str, build: Build, reason: str, named: str, tmp_path: Path) -> None:
    said = list(misses(built(build, tmp_path), role, kind))

    assert [one for one, _ in said if reason in one], said
    assert {op_type for one, op_type in said if reason in one} == {named}


@pytest.mark.parametrize("width", [2, 4])
def test_a_wider_kernel_mixes_positions(width: int, tmp_path: Path) -> None:
    graph = built(lambda x, ids: convolved(x, width), tmp_path)
    match, _ = Matcher(graph).at("token_mixer", graph.by_type["GroupConvolution"][0])
    assert match is not None
    assert match.kind == "convolution"
