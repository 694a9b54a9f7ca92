"""Examples of docs/howto/ci.md: commands, configuration, rule and formats."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from irtools.lint.configuration import load_config
from irtools.report.formats import VERIFY

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "ci.md").read_text("utf-8")

Cli = Callable[..., Any]


def block(language: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.fixture
def workplace(fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the page's model, configuration and rule."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(fixtures / "falcon", "my-model")
    (tmp_path / "irtools.toml").write_text(block("toml"))
    (tmp_path / "lint").mkdir()
    (tmp_path / "lint" / "license.py").write_text(block("python"))
    return tmp_path


def codes(done: Any) -> dict[str, str]:
    return {finding["code"]: finding["severity"] for finding in json.loads(done.out)["models"][0]["findings"]}


def test_all_that_the_configuration_shows_has_its_effect(cli: Cli, workplace: Path) -> None:
    (workplace / "my-model" / "config.json").unlink()
    first = cli("verify", "my-model", "--config", "irtools.toml", "--write-baseline", "known.json")
    (workplace / "known.json").write_text('{"schema_version": 1, "findings": []}')
    done = cli("verify", "my-model", "--config", "irtools.toml", "--format", "json")
    severities, ran = codes(done), {code[:-3] for code in json.loads(done.out)["models"][0]["rules"]}

    assert first.code == 0
    assert severities["ACME001"] == "error"  # rules, and no select that excludes them
    assert severities["HID001"] == "error"  # severity
    assert "MTP005" in severities  # expect-mtp
    assert "EXP011" not in severities  # ignore
    assert ran == {"ACME", "DFL", "EXP", "HID", "IR", "MTP", "QNT", "RUN", "SRV", "VER"}
    assert load_config(workplace / "irtools.toml").per_file_ignores == {"openvino_*tokenizer.xml": ("VER",)}


def test_the_rule_of_the_page_is_listed_and_explained(cli: Cli, workplace: Path) -> None:
    assert "ACME001  error" in cli("rules", "list", "--rules", "lint").out
    assert "ACME001  error" in cli("rules", "list", "--config", "irtools.toml").out
    assert cli("rules", "explain", "ACME001", "--rules", "lint").code == 0


def test_a_configuration_that_is_found_loads_no_rules(cli: Cli, workplace: Path) -> None:
    for arguments in (("rules", "list"), ("verify", "my-model")):
        done = cli(*arguments)
        assert "ACME001" not in done.out
        assert "`rules` is ignored" in done.err
        assert f"--rules {workplace / 'lint'}" in done.err


def test_rules_beside_a_model_are_not_loaded(cli: Cli, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy("irtools.toml", "my-model")
    shutil.copytree("lint", "my-model/lint")
    (workplace / "irtools.toml").unlink()
    monkeypatch.chdir("my-model")

    assert "ACME001" not in cli("rules", "list").out


def test_every_format_and_suffix_is_named() -> None:
    section = PAGE.partition("## Several formats in one run")[2].partition("\n## ")[0]

    suffixes = [suffix for form in VERIFY.values() for suffix in form.suffixes]
    assert {*VERIFY, *suffixes} <= set(re.findall(r"`([.a-z]+)`", section))


def test_nothing_is_installed_by_its_name_alone() -> None:
    """It is not on the package index."""
    assert "pip install" in PAGE
    assert re.findall(r"pip install ov-irtools", PAGE) == []
