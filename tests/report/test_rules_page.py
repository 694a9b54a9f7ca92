"""The rule reference agrees with the rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from irtools.lint.rule import load_rules
from irtools.report import rules_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "rules.md"


def test_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert rules_page.main(["--check"]) == 0, capsys.readouterr().err


def test_page_has_every_rule_once() -> None:
    headings = re.findall(r"^### ([A-Z]+\d+) ", PAGE.read_text(), re.MULTILINE)

    assert sorted(headings) == [rule.code for rule in load_rules()]


def test_stale_page_is_noticed_and_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    page = tmp_path / "docs" / "reference" / "rules.md"
    page.write_text(PAGE.read_text().replace("IR001", "IR999"))
    (tmp_path / "rules").symlink_to(PAGE.parents[2] / "rules")
    monkeypatch.setattr(rules_page, "_PAGE", page)

    assert rules_page.main(["--check"]) == 1
    assert rules_page.main([]) == 0
    assert page.read_text() == PAGE.read_text()
