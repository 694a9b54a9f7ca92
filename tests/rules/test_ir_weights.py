"""Constants that OpenVINO writes have no findings."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as op

from irtools.export import open_export

MTP = "openvino_mtp_model.xml"


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


def test_a_draft_head_of_its_own_does_not_make_the_weights_too_long(export_copy):
    """Before the graph uses the rows, they are bytes too many, as after an interrupted run."""
    directory = export_copy("qwen3_5_vl_trained")
    graph = (directory / MTP).read_bytes()
    export = open_export(directory)
    export.graft(128, own_head=True)
    export.save(check=False)

    assert [f.code for f in open_export(directory).verify(select=["IR"]).findings] == []
    (directory / MTP).write_bytes(graph)
    assert [f.code for f in open_export(directory).verify(select=["IR"]).findings] == ["IR008"]
