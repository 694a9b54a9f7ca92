"""Baselines still match after edits of the file and moves of the directory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.errors import SaveError, UsageError
from irtools.lint.baseline import apply_baseline, baseline_text, fingerprints, read_baseline, write_baseline
from irtools.lint.engine import ModelVerification


def broken(directory: Path) -> Path:
    xml = directory / "openvino_model.xml"
    xml.write_bytes(xml.read_bytes().replace(b"<dim>512<", b"<dim>x<", 2))
    return directory


def test_fingerprints_survive_line_shifts_and_another_place(export_copy: Callable[..., Path]) -> None:
    one, other = broken(export_copy("falcon")), broken(export_copy("falcon", to="elsewhere"))
    xml = other / "openvino_model.xml"
    xml.write_bytes(xml.read_bytes().replace(b"<layers>", b"<!-- a\nb\nc -->\n<layers>", 1))

    before, after = irtools.open_export(one).verify(), irtools.open_export(other).verify()

    assert [f.line for f in before.findings] != [f.line for f in after.findings]
    assert fingerprints(before) == fingerprints(after)
    assert len(set(fingerprints(before))) == len(before.findings) == 2


def test_known_findings_are_silent_and_new_ones_are_not(export_copy: Callable[..., Path], tmp_path: Path) -> None:
    directory = export_copy("mixtral")
    known = irtools.open_export(directory).verify()
    (tmp_path / "known.json").write_text(baseline_text([known]))
    (directory / "openvino_model.bin").unlink()

    filtered = apply_baseline(irtools.open_export(directory).verify(), read_baseline(tmp_path / "known.json"))

    assert [finding.code for finding in filtered.findings] == ["IR006"]
    assert filtered.in_baseline == len(known.findings)


def test_a_finding_is_known_as_often_as_it_was_seen(fixtures: Path) -> None:
    verification = irtools.open_export(fixtures / "mixtral").verify()
    first = fingerprints(verification)[0]

    assert apply_baseline(verification, Counter({first: 5})).in_baseline == 1


def test_written_baseline_silences_everything(fixtures: Path, tmp_path: Path) -> None:
    verification = irtools.open_export(fixtures / "mixtral").verify()

    (model,) = write_baseline(tmp_path / "b.json", [ModelVerification(fixtures, verification)])

    assert model.verification is not None
    assert model.verification.findings == ()
    entries = json.loads((tmp_path / "b.json").read_text())["findings"]
    assert [entry["code"] for entry in entries] == [finding.code for finding in verification.findings]


@pytest.mark.parametrize("content", ["", "[]", '{"findings": []}', '{"schema_version": 2, "findings": []}', "\xff"])
def test_other_files_are_no_baseline(tmp_path: Path, content: str) -> None:
    (tmp_path / "b.json").write_text(content, "latin-1")

    with pytest.raises(UsageError, match=r"b\.json: is not an irtools baseline"):
        read_baseline(tmp_path / "b.json")


def test_missing_baseline_and_unwritable_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the baseline cannot be read"):
        read_baseline(tmp_path / "b.json")
    with pytest.raises(SaveError, match="cannot be written"):
        write_baseline(tmp_path / "no" / "b.json", [])
