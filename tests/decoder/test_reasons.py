"""Reasons that the witnesses and the rejections give, compared with what OpenVINO and the config say."""

from __future__ import annotations

import re
from pathlib import Path

import openvino as ov
import pytest

from irtools.decoder import locate
from irtools.decoder.stack import DecoderLayer
from irtools.export import open_export
from irtools.model.document import Document

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SCOPES = {"llama": "__module.model.layers.", "falcon": "__module.transformer.h."}


def reason(layer: DecoderLayer, witness: str) -> tuple[bool | None, str]:
    (verdict,) = (verdict for verdict in layer.verdicts if verdict.witness == witness)
    return verdict.agrees, verdict.reason


@pytest.mark.parametrize("name", SCOPES)
def test_each_layer_names_its_scope_its_states_and_its_number(name: str) -> None:
    stack = open_export(FIXTURES / name).locate()
    model = ov.Core().read_model(FIXTURES / name / "openvino_model.xml")
    variables = {variable.info.variable_id for variable in model.get_variables()}
    for index, layer in enumerate(stack.layers):
        last = index == len(stack.layers) - 1
        assert reason(layer, "names") == (True, f"computed in {SCOPES[name]}{index}")
        assert reason(layer, "config") == (True, f"layer {index} of {len(stack.layers)}")
        agrees, said = reason(layer, "state")
        assert agrees
        assert re.fullmatch(r"owns 2: (\S+), (\S+)", said)
        owned = set(said.removeprefix("owns 2: ").split(", "))
        assert owned <= variables
        assert {number for text in owned for number in re.findall(r"\d+", text)} == {str(index)}
        start = "the head reads it after the last residual sum" if last else "the residual sums of the next layer"
        assert reason(layer, "walk")[1].startswith(start)
        assert reason(layer, "dominators")[1].startswith("every path to the logits" if last else "every path from the")


def test_two_blocks_with_states_in_one_layer_are_told() -> None:
    """Names and config say two layers of two attentions each; the states belong to one attention."""
    export = open_export(FIXTURES / "llama")

    def halve(match: re.Match[bytes]) -> bytes:
        layer, second = divmod(int(match[1]), 2)
        return b"__module.model.layers.%d%s" % (layer, b".second" if second else b"")

    data = re.sub(rb"__module\.model\.layers\.(\d+)", halve, export.target.data)

    stack = locate(Document(export.target.path, data), {**export.config, "num_hidden_layers": 2})

    assert [len(layer.states) for layer in stack.layers] == [4, 4]
    assert [reason(layer, "state") for layer in stack.layers] == [(False, "2 blocks of this layer own states")] * 2
    (said,) = (verdict for verdict in stack.verdicts if verdict.witness == "state")
    assert (said.agrees, said.reason) == (False, "two blocks of one layer own states")


def test_sums_within_a_branch_are_those_of_the_hidden_size() -> None:
    """Each layer adds its shared expert to its experts; other sums of the branches have other sizes."""
    path = FIXTURES / "zoo" / "granitemoehybrid"
    stack = open_export(path).locate()
    model = ov.Core().read_model(path / "openvino_model.xml")
    shapes = {
        op.get_friendly_name(): op.output(0).get_partial_shape() for op in model.get_ops() if op.get_output_size()
    }

    inside = [rejection for rejection in stack.rejections if "inside a branch" in rejection.reason]

    assert [rejection.layer for rejection in inside] == [layer.index for layer in stack.layers]
    for rejection in inside:
        shape = shapes[rejection.producer]
        assert (shape.rank.get_length(), shape[2].get_length()) == (3, stack.hidden_size)
        assert rejection.reason == f"inside a branch of layer {rejection.layer}: the residual stream bypasses it"
