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


def test_states_have_one_shape_if_they_begin_and_go_on_alike(tmp_path: Path) -> None:
    """The states are returned as they are; OpenVINO computes their shapes for inputs of different lengths."""
    first, second = (op.parameter([-1, -1, SIZE], ov.Type.f32, name=name) for name in ("first", "second"))
    values = {"one": first, "two": first, "other": second}
    kept = {name: op.read_value(value, name, ov.Type.f32, [-1, -1, SIZE]) for name, value in values.items()}
    sinks = [op.assign(op.add(kept[name], value), name) for name, value in values.items()]
    for name, read in kept.items():
        read.set_friendly_name(name)
    path = tmp_path / "openvino_model.xml"
    model = ov.Model([op.result(read) for read in kept.values()], sinks, [first, second], "small")
    ov.save_model(model, path, compress_to_fp16=False)

    view = GraphView(scan_ir(path.read_bytes()))
    (one,) = view.named["one"]
    found = SameShape(view).like(Source(one, view.outputs(one)[0].id), view.by_type["ReadValue"])

    request = ov.Core().compile_model(path, "CPU").create_infer_request()
    request.infer([np.ones([2, 4, SIZE], "f4"), np.ones([1, 5, SIZE], "f4")])
    shapes = {name: request.get_output_tensor(place).shape for place, name in enumerate(kept)}
    alike = {name for name, shape in shapes.items() if shape == shapes["one"]}
    assert {view.op_name(source.op) for source in found} == alike - {"one"}
