"""DFlash pairs that fit, and the runtime's guess."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from defects_eagle3 import own_head
from ir_edit import IR, edit
from irtools.rules import dfl_pair

import irtools
from irtools.authoring import Context
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.draft import draft, layer_ids, truthy
from irtools.model.guess import default_layers, guess
from irtools.model.part import PartFacts

Copier = Callable[..., Path]


@pytest.mark.parametrize("name", ["qwen3", "llama", "granite", "qwen3_5_vl", "qwen3_5_moe_vl", "gemma4_vl"])
def test_a_pair_that_runs_has_no_error(name: str, fixtures: Path) -> None:
    """GenAI 2026.4.1 loads and runs all of these with the draft."""
    findings = irtools.open_export(fixtures / name).verify(select=["DFL"], draft=fixtures / "qwen3_dflash").findings

    assert [finding for finding in findings if str(finding.severity) == "error"] == []


def test_a_draft_alone_is_valid(fixtures: Path) -> None:
    verified = irtools.open_export(fixtures / "qwen3_dflash").verify()

    assert verified.findings == ()
    assert [(strategy.name, strategy.available) for strategy in verified.strategies] == [
        ("plain", False),
        ("mtp", False),
        ("dflash", True),
        ("eagle3", False),
        ("draft", False),
    ]


def test_a_draft_is_recognised_by_its_rt_info(fixtures: Path) -> None:
    parsed = draft(PartFacts(Document(fixtures / "qwen3_dflash" / "openvino_model.xml")))

    assert (parsed.kind, parsed.mask_token_id, parsed.layers) == ("dflash", "258", [0, 1, 2])
    assert draft(PartFacts(Document(fixtures / "qwen3" / "openvino_model.xml"))).kind == "plain"


@pytest.mark.parametrize(
    ("text", "layers"),
    [  # each was tried with GenAI 2026.4.1
        ("0,1,2", [0, 1, 2]),
        ("0, 1, 2", [0, 1, 2]),
        ("0,1,2,", [0, 1, 2]),
        (",0,1,2", [0, 1, 2]),
        ("0,1,2 ", [0, 1, 2]),
        ("+0,1,2", [0, 1, 2]),
        ("00,01,02", [0, 1, 2]),
        ("2,1,0", [2, 1, 0]),
        ("", []),
        ("0 1 2", None),
        ("[0,1,2]", None),
        ("0,1,2, ", None),
        ("0,one", None),
        ("0,1.5", None),
    ],
)
def test_layer_ids_are_read_as_the_runtime_reads_them(text: str, layers: list[int] | None) -> None:
    assert layer_ids(text) == layers


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("True", True),
        ("yes", True),
        ("ON", True),
        ("1", True),
        ("", False),
        ("off", False),
        ("0", False),
        ("maybe", None),
    ],
)
def test_booleans_are_read_as_openvino_reads_them(value: str, meaning: bool | None) -> None:
    assert truthy(value) is meaning


@pytest.mark.parametrize(("name", "count"), [("qwen3", 4), ("llama", 4), ("falcon", 0), ("gpt2", 0), ("mixtral", 0)])
def test_the_guess_finds_what_the_runtime_finds(name: str, count: int, fixtures: Path) -> None:
    """GenAI 2026.4.1 reports "Eagle3 fallback found N outputs" for targets without annotation."""
    part = PartFacts(Document(fixtures / name / "openvino_model.xml"))

    assert len(guess(part, range(4))) == count


def test_the_guess_is_the_hidden_state_where_the_family_suits_it(
    fixtures: Path, truth: Callable[[str], dict[str, dict[str, list[list[object]]]]]
) -> None:
    part = PartFacts(Document(fixtures / "qwen3" / "openvino_model.xml"))
    layers = truth("qwen3")["layers"]

    taken = {layer: part.graph.op_name(op) for layer, op in guess(part, range(4)).items()}

    assert [taken[layer] for layer in range(3)] == [layers[str(layer)][0][0] for layer in range(3)]
    assert taken[3] == "__module.model.layers.3/aten::add/Add_1"  # before the final norm
    assert taken[3] not in [producer for producer, _ in layers["3"]]


@pytest.mark.parametrize(("count", "layers"), [(9, ()), (10, (2, 5, 7)), (32, (2, 16, 29))])
def test_eagle3_chooses_layers_of_targets_with_ten_or_more(count: int, layers: tuple[int, ...]) -> None:
    assert default_layers(count) == layers


def test_logits_without_a_recorded_shape_are_not_compared(export_copy: Copier) -> None:
    target, draft = export_copy("qwen3"), export_copy("qwen3_dflash", to="draft")
    edit(draft / "openvino_model.xml", own_head(64))

    def without_shape(ir: IR) -> None:
        port = ir.port_of(ir.source(ir.result("logits"), 0))
        for dim in port.findall("dim"):
            port.remove(dim)

    edit(target / "openvino_model.xml", without_shape)
    context = Context(ModelDirectory.open(target), draft=ModelDirectory.open(draft))

    assert not list(dfl_pair.draft_width.check(context))
