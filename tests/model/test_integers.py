"""Integers of a graph are those that OpenVINO has, whatever was asked before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest

import irtools
from irtools.graph.view import Source
from irtools.ir.constants import read_constants
from irtools.ir.pread import Allowance, WeightsReader
from irtools.model.integers import file_integers


@pytest.mark.parametrize("first", [3, 12])
def test_a_value_does_not_depend_on_the_order_of_questions(tmp_path: Path, first: int) -> None:
    steps = [ops.constant(np.array([7, 8, 9]))]
    for number in range(12):
        steps.append(ops.convert(steps[-1], "i32" if number % 2 else "i64"))
        steps[-1].set_friendly_name(f"step {number + 1}")
    openvino.save_model(openvino.Model([ops.result(steps[-1])], []), tmp_path / "m.xml")
    document = irtools.Document(tmp_path / "m.xml")
    graph = document.graph
    reader = WeightsReader(document.weights_path, Allowance(1000))
    (integers,) = file_integers(graph, read_constants((graph.scan,)), reader)

    def value(step: int) -> tuple[int | None, ...] | None:
        (result,) = [key for key in graph.topological if graph.op_name(key) == f"step {step}"]
        return integers.of(Source(result, 0))

    value(first)
    assert value(4) == (7, 8, 9)
