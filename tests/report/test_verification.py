"""Outcome of verify in every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

import irtools
from irtools.authoring import Finding, Severity
from irtools.lint.engine import ModelVerification, Verification
from irtools.lint.rule import load_rules
from irtools.report.findings import counts_text
from irtools.report.github import github
from irtools.report.junit import junit
from irtools.report.sarif import sarif
from irtools.report.terminal import Style
from irtools.report.verification import verification_json, verification_text

SCHEMA = json.loads((Path(__file__).parents[1] / "lint" / "sarif-schema-2.1.0.json").read_text())
NASTY = 'a "quoted" <tag> & 100%, one:two\r\nline\x07\x1b[31m \udcff é'


@pytest.fixture
def models(fixtures: Path) -> list[ModelVerification]:
    """Two verified exports and one that could not be verified."""
    names = ("bert", "qwen3")
    done = [ModelVerification(fixtures / name, irtools.open_export(fixtures / name).verify()) for name in names]
    return [*done, ModelVerification(Path("gone"), error="gone: no such file or directory")]


def with_findings(directory: Path, *findings: Finding) -> ModelVerification:
    return ModelVerification(directory, Verification(irtools.Export(directory), findings, load_rules()))


# -- SARIF -------------------------------------------------------------------------------


def test_sarif_is_valid_against_the_official_schema(models: list[ModelVerification]) -> None:
    jsonschema.Draft4Validator(SCHEMA).validate(json.loads(sarif(models)))


def test_sarif_of_nothing_and_of_nasty_texts_is_valid(tmp_path: Path) -> None:
    nasty = Finding(NASTY, NASTY, tmp_path / "a b#ü.xml", 3, NASTY, Severity.NOTE, "IR001")
    log = json.loads(sarif([with_findings(tmp_path, nasty, Finding("x", code="ACME001", severity=Severity.ERROR))]))

    jsonschema.Draft4Validator(SCHEMA).validate(log)
    jsonschema.Draft4Validator(SCHEMA).validate(json.loads(sarif([])))
    location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"].endswith("/a%20b%23%C3%BC.xml")


def test_sarif_has_rules_with_help_and_results_that_refer_to_them(models: list[ModelVerification]) -> None:
    run = json.loads(sarif(models))["runs"][0]
    rules = run["tool"]["driver"]["rules"]

    assert [rule["id"] for rule in rules] == [rule.code for rule in load_rules()]
    assert all(rule["help"]["text"] and "### How to fix it" in rule["help"]["markdown"] for rule in rules)
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert {result["level"] for result in run["results"]} == {"error"}
    assert run["invocations"][0]["executionSuccessful"] is False


def test_sarif_paths_are_relative_to_the_working_directory(
    export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = export_copy("mixtral")
    monkeypatch.chdir(tmp_path)
    found = json.loads(sarif([ModelVerification(directory, irtools.open_export(directory).verify(select=["EXP"]))]))

    places = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in found["runs"][0]["results"]]
    assert places == ["mixtral/openvino_detokenizer.xml", "mixtral/openvino_tokenizer.xml"]


def test_sarif_fingerprints_are_stable(export_copy: Callable[..., Path]) -> None:
    def prints(directory: Path) -> list[str]:
        log = json.loads(sarif([ModelVerification(directory, irtools.open_export(directory).verify())]))
        return [result["partialFingerprints"]["irtools/v1"] for result in log["runs"][0]["results"]]

    one, other = export_copy("bert"), export_copy("bert", to="moved")
    xml = other / "openvino_model.xml"
    xml.write_bytes(xml.read_bytes().replace(b"<layers>", b"\n\n<layers>", 1))
    assert prints(one) == prints(other)
    assert len(set(prints(one))) == 3


# -- JUnit -------------------------------------------------------------------------------


def test_junit_has_a_case_per_rule(models: list[ModelVerification]) -> None:
    root = ElementTree.fromstring(junit(models))
    bert, qwen3, gone = root.findall("testsuite")

    assert (bert.get("tests"), bert.get("failures")) == (str(len(load_rules())), "2")
    assert {case.get("name", "").split()[0] for case in bert if case.find("failure") is not None} == {
        "EXP003",
        "RUN001",
    }
    assert (qwen3.get("failures"), qwen3.get("errors")) == ("0", "0")
    assert (gone.get("errors"), gone.find("testcase/error").get("message")) == ("1", "gone: no such file or directory")
    assert int(root.get("tests", "")) == len(root.findall(".//testcase"))


def test_junit_counts_by_the_threshold(fixtures: Path) -> None:
    verification = irtools.open_export(fixtures / "llama").verify()

    for threshold, failures in ((Severity.ERROR, "0"), (Severity.NOTE, "1")):
        suite = ElementTree.fromstring(junit([ModelVerification(fixtures, verification, threshold=threshold)]))[0]
        assert suite.get("failures") == failures
        assert len(suite.findall("testcase/system-out")) == 1 - int(failures)


def test_junit_takes_any_text(tmp_path: Path) -> None:
    model = with_findings(tmp_path, Finding(NASTY, NASTY, tmp_path / "x", 1, None, Severity.ERROR, "IR001"))

    message = ElementTree.fromstring(junit([model])).find(".//failure").get("message")
    assert 'a "quoted" <tag> & 100%' in message
    assert "\x1b" not in message


# -- GitHub ------------------------------------------------------------------------------


def test_github_escapes_by_the_rules_of_workflow_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    finding = Finding("100% of a:b,c\r\nend", "", tmp_path / "a:b,c%.xml", 7, None, Severity.WARNING, "IR008")

    assert github([with_findings(tmp_path, finding)]) == (
        "::warning file=a%3Ab%2Cc%25.xml,line=7,title=IR008 long-weights::100%25 of a:b,c%0D%0Aend\n"
    )


def test_github_names_severities_and_what_failed(models: list[ModelVerification]) -> None:
    lines = github(models).splitlines()

    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::error", "::error"]
    assert lines[-1] == "::error title=irtools::gone: gone: no such file or directory"
    note = Finding("x", severity=Severity.NOTE, code="IR019")
    assert github([with_findings(Path("m"), note)]) == "::notice file=m,title=IR019 unknown-opset::x\n"


# -- text and JSON -----------------------------------------------------------------------


def test_text_is_grouped_by_file_with_one_line_a_finding(models: list[ModelVerification]) -> None:
    lines = verification_text(models, style=Style()).splitlines()

    assert "  openvino_tokenizer.xml" in lines
    assert sum(line.startswith("    error  ") for line in lines) == 3
    assert "  3 errors" in lines
    assert lines[-1] == "2 exports verified: 3 errors"


def test_text_shows_no_control_characters(tmp_path: Path) -> None:
    model = with_findings(tmp_path, Finding(NASTY, file=tmp_path / "x", code="IR001", severity=Severity.ERROR))

    shown = verification_text([model], style=Style())
    assert "\x1b" not in shown
    assert "\r" not in shown


def test_counts_name_what_there_is() -> None:
    note, error = Finding("n", severity=Severity.NOTE), Finding("e", severity=Severity.ERROR)
    verification = Verification(irtools.Export("x"), (error, note, note), ())

    assert counts_text([verification]) == "1 error, 2 notes"
    silenced = Verification(irtools.Export("x"), (), (), in_baseline=4)
    assert counts_text([silenced]) == "no findings (4 known from the baseline)"


def test_json_has_findings_and_strategies(models: list[ModelVerification], fixtures: Path) -> None:
    bert, qwen3, gone = json.loads(verification_json(models, exit_code=2))["models"]

    assert set(bert["findings"][0]) >= {"code", "severity", "message", "hint", "file", "line", "op"}
    assert [f["code"] for f in bert["findings"]] == ["EXP003", "RUN001", "EXP003"]
    assert bert["findings"][1]["file"] == str(fixtures / "bert" / "openvino_model.xml")
    assert {strategy["name"]: strategy["available"] for strategy in qwen3["strategies"]}["plain"] is True
    assert (gone["status"], gone["error"]) == ("failed", "gone: no such file or directory")
