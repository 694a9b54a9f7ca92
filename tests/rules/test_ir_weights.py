"""Constants that OpenVINO writes have no findings."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.export import open_export


@pytest.mark.parametrize("shape", [(0,), (1, 2, 0, 4), (), (3,)])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.uint8, np.bool_])
def test_a_constant_of_any_size_is_as_openvino_writes_it(tmp_path, shape, kind):
    parameter = op.parameter(ov.PartialShape([-1]), kind, name="x")
    values = op.reshape(op.constant(np.zeros(shape, kind)), op.constant(np.array([-1])), False)
    ov.save_model(
        ov.Model([op.result(op.concat([parameter, values], 0))], [parameter]), tmp_path / "openvino_model.xml"
    )
    findings = open_export(tmp_path).verify().findings
    assert not [finding for finding in findings if finding.code == "IR009"]
