"""Files about a record: Markdown, HTML, JUnit XML, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from lxml import etree

from irtools.bench.record import schema as bench_schema
from irtools.errors import OptionError, UsageError
from irtools.export import open_export
from irtools.prove.record import schema as proof_schema
from irtools.report import plots
from irtools.report.formats import RECORD, format_of, render
from irtools.report.json import ModelResult
from tests.report.records import proof_record, results

JUNIT = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit-10.xsd")))
"""Schema of the Jenkins plugin xUnit."""


@pytest.fixture(scope="module")
def made(fixtures: Path) -> dict[str, ModelResult]:
    return results(fixtures / "qwen3_5_vl_trained")


def written(entry: ModelResult, command: str, file: str) -> str:
    return render(RECORD[format_of(RECORD, Path(file))], entry, command=command)


def test_the_records_are_valid(made: dict[str, ModelResult]) -> None:
    jsonschema.Draft202012Validator(proof_schema()).validate(json.loads(json.dumps(made["prove"].details["proof"])))
    jsonschema.Draft202012Validator(bench_schema()).validate(json.loads(json.dumps(made["bench"].details["bench"])))


@pytest.mark.parametrize("command", ["prove", "bench"])
def test_junit_is_valid_against_its_schema(made: dict[str, ModelResult], command: str) -> None:
    text = written(made[command], command, "x.xml")
    JUNIT.assertValid(etree.fromstring(text.encode()))
    for suite in ElementTree.fromstring(text):
        cases = suite.findall("testcase")
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute, "-1")) == sum(case.find(tag) is not None for case in cases)
        assert int(suite.get("tests", "-1")) == len(cases)


def test_junit_of_a_proof_has_a_suite_for_each_step(made: dict[str, ModelResult]) -> None:
    root = ElementTree.fromstring(written(made["prove"], "prove", "x.xml"))
    outcomes = {
        (suite.get("name", "").rsplit(" ", 1)[1], case.get("name")): [child.tag for child in case]
        for suite in root
        for case in suite.findall("testcase")
    }
    assert outcomes == {
        ("taps", "applicable"): ["skipped"],
        ("state", "reset"): ["failure"],
        ("head", "completed"): ["error"],
        ("runtime", "plain"): [],
        ("runtime", "acceptance"): [],
        ("runtime", "image"): ["skipped"],
    }
    assert "warning: acceptance" in (root[3].findtext("system-out") or "")
    assert root[1].find("testcase/failure").get("message") == "reset the state: it differs: a | b \ufffd"  # type: ignore[union-attr]


def test_junit_of_a_benchmark_has_a_case_for_each_row_and_for_the_minima(made: dict[str, ModelResult]) -> None:
    (suite,) = ElementTree.fromstring(written(made["bench"], "bench", "x.xml"))
    outcomes = {case.get("name"): [child.tag for child in case] for case in suite.findall("testcase")}
    assert outcomes == {
        "plain": [],
        "mtp 1": [],
        "mtp 2": [],
        "mtp 3": [],
        "mtp 8": ["error"],
        "min_speedup": ["failure"],
    }
    assert "below the required 100" in (suite.findtext("testcase/failure") or "")


def test_markdown_begins_with_the_verdict(made: dict[str, ModelResult]) -> None:
    bench = written(made["bench"], "bench", "x.md").splitlines()
    assert bench[2].startswith("**on: draft 3 at a time")
    proof = written(made["prove"], "prove", "x.md").splitlines()
    assert proof[2] == "**not proved: state and head failed**"
    assert "| runtime | image | not applicable | decoded an image | there is no \\<vision\\> part |" in proof
    assert any("'a\\|b" in line for line in proof)  # the prompt
    for line in (*bench, *proof):
        assert not line.startswith("|") or line.endswith("|")


def test_json_is_the_envelope(made: dict[str, ModelResult]) -> None:
    content = json.loads(written(made["bench"], "bench", "x.json"))
    assert content["command"] == "bench"
    assert content["models"][0]["bench"] == made["bench"].details["bench"]


def test_a_page_has_every_point_of_the_figures(made: dict[str, ModelResult]) -> None:
    record: dict[str, object] = made["bench"].details["bench"]  # type: ignore[assignment]
    text = written(made["bench"], "bench", "x.html")
    for row in record["rows"]:  # type: ignore[attr-defined]
        for figure in ("speed_up", "tokens_per_second", "peak_memory"):
            if row["figures"][figure]:
                assert f'<data value="{row["figures"][figure]["median"]}">' in text
    assert text.count('class="point"') == 3 + 3 + 3 + 4
    assert "<script>" in text
    assert "style=" not in text.split("</style>", 1)[1]  # the policy of the page forbids it


def test_without_matplotlib_a_sentence_says_what_to_install(
    fixtures: Path, made: dict[str, ModelResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="install the extra `plots`"):
        written(made["bench"], "bench", "x.html")
    assert "not proved" in written(made["prove"], "prove", "x.html")
    assert "on: draft 3" in written(made["bench"], "bench", "x.md")


def test_a_report_refuses_the_record_of_other_files(fixtures: Path) -> None:
    record = proof_record(fixtures / "qwen3_5_vl_trained")
    export = open_export(fixtures / "qwen3_5_vl_trained")
    assert "not proved: state and head failed" in export.report(proof=record)

    record["model"]["files"]["openvino_mtp_model.bin"]["sha256"] = "0" * 64

    with pytest.raises(OptionError, match=r"describes other files: openvino_mtp_model\.bin has changed since"):
        export.report(proof=record)
    with pytest.raises(OptionError, match="of the benchmark describes other files"):
        export.report(bench={"record_version": 1})
    damaged = {key: item for key, item in proof_record(fixtures / "falcon").items() if key != "steps"}
    with pytest.raises(OptionError, match="is damaged"):
        open_export(fixtures / "falcon").report(proof=damaged)
