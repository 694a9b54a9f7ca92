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
from tests.decoder.build import WIDTH, Decoder

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


def test_a_layer_whose_value_is_transformed_before_the_next_sum_is_reached_by_the_walk() -> None:
    """Each layer begins with a mix of its input and of the embeddings."""
    path = FIXTURES / "zoo" / "hand_x0"
    stack = open_export(path).locate()
    said = [reason(layer, "walk") for layer in stack.layers]
    transformed = "the last residual sum of the layer; the next layer transforms it before its first sum"
    assert {agrees for agrees, _ in said} == {True}
    assert [text == transformed for _, text in said] == [True] * (len(said) - 1) + [False]


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


def said(document: Document, config: dict[str, object], witness: str) -> tuple[bool | None, str]:
    (verdict,) = (verdict for verdict in locate(document, config).verdicts if verdict.witness == witness)
    return verdict.agrees, verdict.reason


def test_the_states_count_the_layers_only_in_their_order(tmp_path: Path) -> None:
    export = open_export(FIXTURES / "falcon")
    data, layers = export.target.data, len(export.locate().layers)

    def first_and_second(match: re.Match[bytes]) -> bytes:
        return b"%s%d" % (match[1], {0: 1, 1: 0}.get(int(match[2]), int(match[2])))

    exchanged = re.sub(rb"((?:past_key_values|present)\.)(\d+)", first_and_second, data)
    owned = f"{layers} of {layers} layers own states"
    assert said(Document(tmp_path / "m.xml", data), {}, "state") == (True, owned)
    assert said(Document(tmp_path / "m.xml", exchanged), {}, "state") == (
        False,
        f"{owned}, whose numbers do not increase with the layers",
    )
    assert said(Decoder().document(tmp_path), {}, "state") == (None, "the model has no state")


@pytest.mark.parametrize(
    ("config", "agrees", "reason"),
    [
        ({}, None, "config.json gives no number of layers"),
        ({"num_hidden_layers": 3}, True, "config.json says 3 layers"),
        ({"num_hidden_layers": 3, "hidden_size": WIDTH}, True, f"config.json says 3 layers of hidden size {WIDTH}"),
        ({"num_hidden_layers": 3, "hidden_size": 9}, False, "config.json says 3 layers of hidden size 9"),
        ({"num_hidden_layers": 4}, False, "config.json says 4 layers"),
    ],
)
def test_the_config_agrees_with_the_number_and_the_size(
    config: dict[str, object], agrees: bool | None, reason: str, tmp_path: Path
) -> None:
    assert said(Decoder().document(tmp_path), config, "config") == (agrees, reason)


def test_names_without_a_number_count_nothing(tmp_path: Path) -> None:
    assert said(Decoder().document(tmp_path), {}, "names") == (None, "no scope numbers the layers")


@pytest.mark.parametrize("layers", [1, 2])
def test_a_short_stack_has_its_hidden_size(layers: int, tmp_path: Path) -> None:
    stack = locate(Decoder(layers).document(tmp_path))
    assert (len(stack.layers), stack.hidden_size) == (layers, WIDTH)
