"""The drawn targets are what their layout says: OpenVINO reads and runs them, numpy computes the same logits."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import openvino as ov
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import mostly_slow
from tests.surgery.heads import HeadLayout, build_target, decoded_weights, inputs_for, layouts, run, save_target

TURNED = (True, False)
ZERO_POINTS = ("none", "each", "one")
LAYOUTS = [
    *(HeadLayout(kind, 7, 5, transposed=turned) for kind in ("f32", "f16", "bf16", "i8", "nf4") for turned in TURNED),
    *(HeadLayout("u8", 9, 6, 0, zero, turned, half=True) for zero in ZERO_POINTS for turned in TURNED),
    *(HeadLayout("u4", 9, 6, groups, zero, turned) for groups in (0, 2) for zero in ZERO_POINTS for turned in TURNED),
    HeadLayout("i4", 7, 18, 3, transposed=False),
    HeadLayout("nf4", 7, 20, 5, half=True),
    HeadLayout("u4", 7, 12, 3, "each", tied="ops", half=True, tail="softcap"),
    HeadLayout("u8", 7, 9, 0, "each", tied="bytes", tail="bias", save_as_f16=True),
    HeadLayout("f32", 7, 9, tied="bytes", tail="divide", named=False),
]


def check(layout: HeadLayout, directory: Path) -> None:
    path = save_target(layout, directory)
    model = ov.Core().read_model(path)
    stored = [
        op
        for op in model.get_ops()
        if op.get_type_name() == "Constant"
        and op.get_friendly_name().startswith("lm_head.weight")
        and tuple(op.get_output_shape(0)) == layout.stored_shape
    ]
    kind = "f16" if layout.save_as_f16 and layout.element_type == "f32" else layout.element_type
    assert kind in {op.get_element_type().get_type_name() for op in stored}
    (result,) = model.get_results()
    assert result.input_value(0).get_names() == {"logits"}
    assert (result.get_friendly_name() == "logits") == layout.named
    inputs = inputs_for(layout)
    weights = decoded_weights(layout)
    hidden = inputs["inputs_embeds"] if layout.tied == "none" else weights[inputs["input_ids"]]
    random = np.random.default_rng(layout.seed + 1)
    factor, shift = (random.normal(1, 0.1, (1, 1, layout.hidden)).astype(np.float32) for _ in range(2))
    logits = (hidden * factor + shift) @ weights.T
    if layout.tail == "bias":
        logits = logits + random.normal(0, 1, layout.vocabulary)
    elif layout.tail == "softcap":
        logits = 30 * np.tanh(logits / 30)
    logits = logits * {"multiply": 2, "divide": 0.5}.get(layout.tail, 1)
    rounding = 4e-3 if layout.half or layout.save_as_f16 else 1e-5
    spread = np.abs(weights).sum(axis=1).max() * np.abs(hidden * factor + shift).max() * 2 + 1
    assert np.abs(run(path, inputs)["logits"] - logits).max() <= rounding * spread


@pytest.mark.parametrize("layout", mostly_slow(LAYOUTS, each=lambda layout: layout.element_type), ids=str)
def test_a_layout_is_saved_as_described(layout: HeadLayout, tmp_path: Path) -> None:
    check(layout, tmp_path)


def test_tied_weights_share_ops_or_bytes(tmp_path: Path) -> None:
    for tied, constants in (("ops", 1), ("bytes", 2)):
        layout = HeadLayout("f32", 64, 32, tied=tied)
        text = save_target(layout, tmp_path, tied).read_text()
        assert text.count('shape="64, 32" offset="') == constants
        assert len({line.split('offset="')[1] for line in text.splitlines() if 'shape="64, 32" offset' in line}) == 1
    assert len(build_target(HeadLayout()).inputs) == 1


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(layout=layouts())
def test_any_drawn_layout(layout: HeadLayout) -> None:
    with TemporaryDirectory() as directory:
        check(layout, Path(directory))


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_the_options_of_the_strategy(data: st.DataObject) -> None:
    layout = data.draw(layouts(largest=9, tails=False, tied=False))
    assert layout.vocabulary <= 9
    assert (layout.tail, layout.tied) == ("none", "none")
    assert layout.hidden % max(layout.groups, 1) == 0
