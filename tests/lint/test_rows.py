"""An outcome that crosses a process: each field of a finding arrives, and a fix is not applied blindly."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from irtools.errors import UsageError
from irtools.export import open_export
from irtools.lint.engine import ModelVerification, VerifyOptions, verify
from irtools.lint.finding import Finding
from irtools.lint.rows import from_row, to_row
from irtools.model.document import Document


def crossed(directory: Path) -> tuple[ModelVerification, ModelVerification]:
    verification = verify(open_export(directory), VerifyOptions(expect_mtp=True))
    whole = ModelVerification(directory, verification)
    return whole, from_row(json.loads(json.dumps(to_row(whole))))


@pytest.mark.parametrize("name", ["falcon", "llava"])
def test_each_field_of_each_finding_arrives(name: str, export_copy: Callable[..., Path]) -> None:
    directory = export_copy(name)
    xml = next(directory.glob("openvino_*model.xml"))
    xml.write_bytes(xml.read_bytes().replace(b"</rt_info>", b'<Runtime_version value="2027.1.0" /></rt_info>', 1))
    before, after = crossed(directory)

    assert before.verification is not None
    assert after.verification is not None
    sent, got = before.verification.findings, after.verification.findings
    assert len(sent) == len(got) > 1
    for one, other in zip(sent, got, strict=True):
        for field in fields(Finding):
            if field.name != "fix":
                assert getattr(other, field.name) == getattr(one, field.name), field.name
        assert (one.fix is None) == (other.fix is None)
        if one.fix is not None and other.fix is not None:
            assert (other.fix.title, other.fix.safe) == (one.fix.title, one.fix.safe)
            assert other.file is not None
            with pytest.raises(UsageError, match="comes from another process"):
                other.fix.patch(Document(other.file))
    assert {finding.fix.safe for finding in got if finding.fix is not None}
    assert after.verification.strategies == before.verification.strategies
    assert after.verification.pipelines == before.verification.pipelines
    assert [rule.code for rule in after.verification.rules] == [rule.code for rule in before.verification.rules]


@pytest.mark.parametrize("safe", [True, False])
def test_a_fix_stays_as_safe_as_it_was(safe: bool, fixtures: Path) -> None:
    whole, _ = crossed(fixtures / "falcon")
    assert whole.verification is not None
    finding = next(finding for finding in whole.verification.findings if finding.fix is not None)
    assert finding.fix is not None
    one = replace(finding, fix=replace(finding.fix, safe=safe))

    row = to_row(replace(whole, verification=replace(whole.verification, findings=(one,))))
    again = from_row(json.loads(json.dumps(row))).verification

    assert again is not None
    assert again.findings[0].fix is not None
    assert again.findings[0].fix.safe is safe
