"""Sound EAGLE-3 pairs, and what a draft makes of faults that it does not read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import eagle3
import pytest
from defects_eagle3 import locator_gone, own_head
from ir_edit import edit

import irtools
from irtools.authoring import Severity
from irtools.errors import UsageError
from irtools.lint.engine import Verification
from irtools.model.document import Document
from irtools.model.draft import draft, hidden_layers
from irtools.model.part import PartFacts

Copier = Callable[..., Path]
X = "openvino_model.xml"


def serious(verified: Verification) -> list[str]:
    return [finding.code for finding in verified.findings if finding.severity != Severity.NOTE]


def strategy(verified: Verification, name: str) -> tuple[bool, str]:
    return next((one.available, one.reason) for one in verified.strategies if one.name == name)


@pytest.mark.parametrize("target", ["llama", "qwen3", "granite"])
@pytest.mark.parametrize("layers", ["0 1 2", "0, 1, 2"])
def test_a_pair_that_runs_is_clean(target: str, layers: str, export_copy: Copier, fixtures: Path) -> None:
    """GenAI 2026.4.1 loads and runs all of these."""
    beside = export_copy("llama", to="draft")
    eagle3.write(beside, lambda ir: ir.set_rt(layers, "hidden_layers_list"))

    verified = irtools.open_export(fixtures / target).verify(draft=beside)

    assert serious(verified) == []
    assert strategy(verified, "eagle3") == (True, "")


def test_a_draft_alone_is_valid(export_copy: Copier) -> None:
    directory = export_copy("llama")
    eagle3.write(directory)

    verified = irtools.open_export(directory).verify()

    assert [finding.message for finding in verified.findings if finding.group in ("DFL", "HID", "RUN")] == []
    assert strategy(verified, "eagle3") == (True, "as the draft of a target")


def test_a_draft_without_flag_is_recognised_by_its_table(export_copy: Copier) -> None:
    directory = export_copy("llama")
    eagle3.write(directory, lambda ir: (ir.set_rt(None, "eagle3_mode"), ir.rename_tensor("hidden_states", "x")))

    assert draft(PartFacts(Document(directory / X))).kind == "eagle3"


def test_a_draft_with_logits_of_its_own_that_lost_its_rt_info_is_one_for_dflash(export_copy: Copier) -> None:
    directory = export_copy("qwen3_dflash")
    edit(directory / X, lambda ir: (own_head(512)(ir), ir.set_rt(None, "dflash_mode"), ir.set_rt(None, "dflash")))

    assert draft(PartFacts(Document(directory / X))).kind == "dflash"


@pytest.mark.parametrize(
    ("text", "layers"),
    [  # each was tried with GenAI 2026.4.1
        ("0 1 2", [0, 1, 2]),
        ("0, 1, 2", [0, 1, 2]),
        (" 0  1\t2", [0, 1, 2]),
        ("0; 1; 2", [0, 1, 2]),
        ("0,1 1 2x", [0, 1, 2]),
        ("0.7 +1 02", [0, 1, 2]),
        ("0x1 1 2,", [0, 1, 2]),
        ("1e0 1 2", [1, 1, 2]),
        ("-0 1 -2", [0, 1, -2]),
        ("0,1,2", [0]),
        ("", []),
        ("0 1 2 ", None),
        ("0 , 1 , 2", None),
        ("[0, 1, 2]", None),
        ("99999999999 1 2", None),
        ("a 1 2", None),
    ],
)
def test_hidden_layers_are_read_as_the_runtime_reads_them(text: str, layers: list[int] | None) -> None:
    assert hidden_layers(text) == layers


def test_the_default_layers_follow_config_json_as_in_the_runtime(export_copy: Copier) -> None:
    """GenAI 2026.4.1 takes the number from the file: "num_decoder_layers must be at least 10 ... got: 4"."""
    target, beside = export_copy("llama"), export_copy("llama", to="draft")
    eagle3.write(beside, lambda ir: ir.set_rt(None, "hidden_layers_list"))

    def messages() -> list[str]:
        findings = irtools.open_export(target).verify(draft=beside, select=["DFL021"]).findings
        return [finding.message for finding in findings]

    assert messages() == ["the draft names no layers, and the runtime's default needs 10 layers: config.json has 4"]
    path = target / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "num_hidden_layers": 12}))
    assert messages() == ["the runtime's guess finds nothing for layers 6, 9"]
    path.unlink()
    assert messages()[0].endswith("config.json gives no num_hidden_layers")


def test_a_fault_of_an_unread_layer_leaves_the_pair_available(export_copy: Copier, fixtures: Path) -> None:
    """The draft reads layers 0, 1 and 2; GenAI 2026.4.1 decodes with each of these targets."""
    target = export_copy("qwen3")
    edit(target / X, locator_gone(3))
    export = irtools.open_export(target)

    paired = export.verify(draft=fixtures / "qwen3_dflash")

    assert [(f.code, f.severity) for f in paired.findings] == [("HID009", Severity.WARNING)]
    assert paired.findings[0].message.endswith("; the draft does not read this")
    assert strategy(paired, "dflash")[0]
    alone = export.verify()
    assert [(f.code, f.severity) for f in alone.findings] == [("HID009", Severity.ERROR)]
    assert not strategy(alone, "dflash")[0]


def test_an_eagle3_draft_does_not_read_the_annotation(export_copy: Copier) -> None:
    target, beside = export_copy("qwen3"), export_copy("llama", to="draft")
    edit(target / X, locator_gone(1))
    eagle3.write(beside)

    verified = irtools.open_export(target).verify(draft=beside)

    assert [(f.code, f.severity) for f in verified.findings] == [("HID009", Severity.WARNING)]
    assert strategy(verified, "eagle3")[0]
    assert not strategy(verified, "dflash")[0]  # with a DFlash draft, which this one is not


def test_layers_that_do_not_exist_are_not_mended_by_annotate(export_copy: Copier, fixtures: Path) -> None:
    beside = export_copy("qwen3_dflash", to="draft")
    edit(beside / X, lambda ir: ir.set_rt("0,1,9", "dflash", "target_layer_ids"))

    findings = irtools.open_export(fixtures / "llama").verify(draft=beside).findings

    assert [f.code for f in findings if f.severity == Severity.ERROR] == ["DFL005"]
    assert "annotate" not in next(f.text for f in findings if f.code == "DFL005")


@pytest.mark.parametrize("kind", ["dflash", "eagle3"])
def test_a_draft_is_not_annotated(kind: str, export_copy: Copier) -> None:
    directory = export_copy("qwen3_dflash" if kind == "dflash" else "llama")
    if kind == "eagle3":
        eagle3.write(directory)
    export = irtools.open_export(directory)
    before = (directory / X).read_bytes()

    with pytest.raises(UsageError, match="this is a draft"):
        export.annotate(force=True)
    with pytest.raises(UsageError, match="this is a draft"), export.edit() as editor:
        editor.annotate()
    assert not export.pending
    assert (directory / X).read_bytes() == before
    assert [f for f in export.verify().findings if "annotate" in f.text] == []


@pytest.mark.parametrize(
    ("expect_mtp", "reason", "severity"),
    [(None, "only DFlash reads it", Severity.NOTE), (True, "--expect-mtp asks for a complete export", Severity.ERROR)],
)
def test_a_missing_annotation_says_why_it_is_a_note_or_an_error(
    expect_mtp: bool | None, reason: str, severity: Severity, fixtures: Path
) -> None:
    (finding,) = irtools.open_export(fixtures / "llama").verify(expect_mtp=expect_mtp, select=["HID001"]).findings

    assert reason in finding.message
    assert finding.severity == severity
