"""What rules leave alone, and what just misses that."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from ir_edit import IR, edit

import irtools
from irtools.model.document import Document
from irtools.model.part import PartFacts
from rules.mtp_target import _attention_sizes

Copier = Callable[..., Path]
LANGUAGE, MTP = "openvino_language_model.xml", "openvino_mtp_model.xml"


def codes(directory: Path, *select: str) -> list[str]:
    return [finding.code for finding in irtools.open_export(directory).verify(select=list(select)).findings]


@pytest.mark.parametrize(("scope", "found"), [("", ["QNT001"]), ("<patterns value=\"['.*']\" />", [])])
def test_nothing_is_missing_if_the_request_left_it_out(scope: str, found: list[str], export_copy: Copier) -> None:
    """An uncompressed part whose rt_info asks for four bits: with all weights ignored, it is as asked."""
    request = re.search(
        rb"<nncf>.*?</nncf>", (Path(__file__).parents[2] / "fixtures/qwen3_5_vl_int4" / MTP).read_bytes(), re.DOTALL
    )
    assert request is not None
    directory = export_copy("qwen3_5_vl")
    path = directory / MTP
    asked = re.sub(
        rb'<ignored_scope value="\[\]" />', b"<ignored_scope>%s</ignored_scope>" % scope.encode(), request[0]
    )
    assert (asked != request[0]) or not scope
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"</rt_info>")] + asked + data[data.rindex(b"</rt_info>") :])

    assert codes(directory, "QNT001") == found


@pytest.mark.parametrize("reads", [1, 2])
def test_states_are_counted_unless_one_of_them_is_read_twice(reads: int, export_copy: Copier) -> None:
    """Then another rule says what is wrong, and the number follows from it."""
    directory = export_copy("qwen3_5_vl")

    def more(ir: IR) -> None:
        first = ir.typed("ReadValue")[0]
        again = [first.find("data").get("variable_id")] * (reads - 1)
        for number, variable in enumerate(["another", *again]):
            layer = deepcopy(first)
            layer.set("id", str(900000 + number))
            layer.set("name", f"read_{number}")
            layer.find("data").set("variable_id", variable)
            ir.layers.append(layer)
            for edge in [edge for edge in ir.edges if edge.get("to-layer") == first.get("id")]:
                twin = deepcopy(edge)
                twin.set("to-layer", layer.get("id"))
                ir.edges.append(twin)

    edit(directory / MTP, more)

    assert ("MTP021" in codes(directory, "MTP021")) == (reads == 1)


@pytest.mark.parametrize(
    ("name", "code"), [("attention_mask", "RUN008"), ("beam_idx", "RUN008"), ("position_ids", "RUN007")]
)
def test_an_input_that_lost_its_name_is_reported_once(name: str, code: str, export_copy: Copier) -> None:
    """As the input that is missing or as the one that is not fed, but not as both."""
    directory = export_copy("llama")
    path = directory / "openvino_model.xml"
    data = path.read_text().replace(f'names="{name}"', 'names="odd"').replace(f'name="{name}"', 'name="odd"')
    path.write_text(data)

    assert codes(directory, "RUN007", "RUN008") == [code]


@pytest.mark.parametrize("part", [LANGUAGE, MTP])
def test_sizes_of_attention_are_those_of_the_config(part: str, fixtures: Path) -> None:
    config = json.loads((fixtures / "qwen3_5_vl" / "config.json").read_text())["text_config"]

    sizes = _attention_sizes(PartFacts(Document(fixtures / "qwen3_5_vl" / part)))

    assert sizes == {(config["num_attention_heads"], config["head_dim"])}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_name_of_several_ops_is_reported_once_with_their_number(count: int, export_copy: Copier) -> None:
    directory = export_copy("falcon")

    def same(ir: IR) -> None:
        for layer in ir.typed("MatMul")[:count]:
            layer.set("name", "same")

    edit(directory / "openvino_model.xml", same)

    findings = irtools.open_export(directory).verify(select=["IR016"]).findings

    assert [finding.message for finding in findings] == [f"{count} ops have the name 'same'"]


@pytest.mark.parametrize(("text", "hides"), [("", True), ("{{ messages }}", False)])
def test_only_an_empty_template_hides_another(text: str, hides: bool, export_copy: Copier) -> None:
    directory = export_copy("llama")
    tokenizer = directory / "openvino_tokenizer.xml"
    data, edits = re.subn(
        rb'<chat_template value="[^"]*"', b'<chat_template value="%s"' % text.encode(), tokenizer.read_bytes()
    )
    assert edits == 1
    tokenizer.write_bytes(data)

    (finding,) = irtools.open_export(directory).verify(select=["EXP026"]).findings

    assert ("is empty and hides that in chat_template.jinja;" in finding.message) == hides
    assert ("differs from that in chat_template.jinja;" in finding.message) != hides
