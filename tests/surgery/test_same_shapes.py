"""Which values have the shape of the hidden states, against the shapes that OpenVINO computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.graph.view import GraphView, Source
from irtools.ir.scan import scan_ir
from irtools.surgery.extraction.shapes import SameShape

SIZE = 3  # as the sequence and the batch below, so that a missing axis is broadcast and not refused


def squares(hidden: Any) -> Any:
    return op.multiply(hidden, hidden)


VALUES: dict[str, Callable[[Any], Any]] = {
    "a norm": lambda hidden: op.multiply(hidden, op.sqrt(op.reduce_mean(squares(hidden), [-1], keep_dims=True))),
    "the sum of the tokens": lambda hidden: op.add(hidden, op.reduce_sum(hidden, [1], keep_dims=True)),
    "the mean alone": lambda hidden: op.reduce_mean(hidden, [-1], keep_dims=True),
    "a mean without its axis": lambda hidden: op.multiply(hidden, op.reduce_mean(hidden, [-1], keep_dims=False)),
    "a number": lambda hidden: op.multiply(hidden, np.float32(2)),
    "one bias for each channel": lambda hidden: op.add(hidden, np.ones([1, 1, SIZE], np.float32)),
    "a value of more axes": lambda hidden: op.add(hidden, np.ones([1, 1, 1, SIZE], np.float32)),
}


@pytest.fixture(params=VALUES)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    hidden = op.parameter([-1, -1, SIZE], ov.Type.f32, name="hidden")
    value = VALUES[request.param](hidden)
    value.set_friendly_name("value")
    path = tmp_path / "openvino_model.xml"
    ov.save_model(ov.Model([value], [hidden], "small"), path, compress_to_fp16=False)
    return path


def shapes_agree(path: Path) -> bool:
    """Compare the shapes of the value and of the input for some concrete ones."""
    for shape in ([2, 5, SIZE], [SIZE, SIZE, SIZE], [1, 4, SIZE]):
        model = ov.Core().read_model(path)
        try:
            model.reshape(shape)
        except RuntimeError:  # a value that cannot be broadcast
            return False
        if list(model.output(0).shape) != shape:
            return False
    return True


def test_a_value_is_in_the_stream_only_if_openvino_gives_it_that_shape(written: Path) -> None:
    view = GraphView(scan_ir(written.read_bytes()))
    (hidden,), (value,) = view.parameters, view.named["value"]
    stream = Source(hidden, view.outputs(hidden)[0].id)
    same = SameShape(view, stream=[stream]).in_stream(Source(value, view.outputs(value)[0].id))
    assert same == shapes_agree(written)
