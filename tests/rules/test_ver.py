"""The VER rules: one finding for each cause, and the releases of the decoding strategies."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.authoring import Severity
from irtools.lint.engine import VerifyOptions, verify
from irtools.model.directory import ModelDirectory

Copier = Callable[..., Path]


def test_one_finding_names_all_parts_that_are_newer(fixtures: Path) -> None:
    directory = fixtures / "qwen3_5_vl"
    made = {path.name for path in directory.glob("openvino_*.xml") if b"2026.4.1" in path.read_bytes()}

    (finding,) = irtools.open_export(directory).verify(target_runtime="2026.2", select=["VER005"]).findings

    assert finding.file == directory / "openvino_language_model.xml"
    assert set(re.findall(r"openvino_\w+\.xml", finding.message)) == made - {"openvino_language_model.xml"}
    assert len(made) > 5


def test_a_single_file_has_the_finding_that_names_it(fixtures: Path) -> None:
    head = ModelDirectory.open(fixtures / "qwen3_5_vl" / "openvino_mtp_model.xml")

    findings = verify(head, VerifyOptions(target_runtime="2026.2", select=("VER005",))).findings

    assert [finding.code for finding in findings] == ["VER005"]


def test_several_parts_of_another_exporter_are_one_finding(export_copy: Copier) -> None:
    directory = export_copy("qwen3_5_vl")
    changed = ["openvino_mtp_model.xml", "openvino_text_embeddings_model.xml"]
    for name in changed:
        data = (directory / name).read_bytes()
        (directory / name).write_bytes(
            data.replace(b'<transformers_version value="5.2.0"', b'<transformers_version value="4.0"')
        )

    findings = irtools.open_export(directory).verify(select=["VER"]).findings

    assert [(finding.code, finding.file) for finding in findings] == [("VER002", directory / changed[0])]
    assert changed[1] in findings[0].message


@pytest.mark.parametrize(
    ("runtime", "missing"),
    [
        ("2025.4.1", {"mtp", "dflash", "eagle3"}),
        ("2026.0", {"mtp", "dflash"}),
        ("2026.3.1", {"mtp", "dflash"}),
        ("2026.4", set()),
        ("2027.0", set()),
    ],
)
def test_strategies_exist_from_a_release_on(runtime: str, missing: set[str], fixtures: Path) -> None:
    strategies = irtools.open_export(fixtures / "qwen3_5_vl_trained").verify(target_runtime=runtime).strategies

    late = {one.name for one in strategies if "OpenVINO GenAI has it from" in one.reason}
    assert late == missing
    assert not any(one.available for one in strategies if one.name in missing)
    assert strategies[0].available


def test_a_draft_for_an_older_runtime_is_an_error(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "qwen3")

    verification = export.verify(draft=fixtures / "qwen3_dflash", target_runtime="2026.3", select=["VER008"])

    (finding,) = verification.findings
    assert finding.severity == Severity.ERROR
    assert finding.message == (
        "dflash does not exist in the target runtime 2026.3: OpenVINO GenAI has it from 2026.4 on"
    )
    assert {one.name: one.available for one in verification.strategies}["dflash"] is False
    own = irtools.open_export(fixtures / "qwen3_dflash").verify(target_runtime="2026.3").strategies
    assert {one.name: one.reason for one in own}["dflash"] == "OpenVINO GenAI has it from 2026.4 on"
