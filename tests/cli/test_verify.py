"""``irtools verify`` and ``irtools rules`` from the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from irtools.report.json import schema

Cli = Callable[..., Any]


@pytest.fixture
def broken(export_copy: Callable[..., Path]) -> Path:
    directory = export_copy("qwen3")
    (directory / "openvino_model.bin").unlink()
    return directory


def test_exit_codes(cli: Cli, fixtures: Path, broken: Path, tmp_path: Path) -> None:
    assert cli("verify", fixtures / "qwen3").code == 0
    assert cli("verify", broken).code == 1
    assert cli("verify", broken, "--exit-zero").code == 0
    assert cli("verify", tmp_path / "nowhere").code == 2
    assert cli("verify", fixtures / "qwen3", broken).code == 1
    assert cli("verify", tmp_path / "nowhere", broken).code == 2


def test_threshold(cli: Cli, fixtures: Path) -> None:
    assert cli("verify", fixtures / "llama").code == 0
    assert cli("verify", fixtures / "llama", "--fail-on", "warning").code == 0
    assert cli("verify", fixtures / "llama", "--fail-on", "note").code == 1


def test_broken_part_is_a_finding(cli: Cli, export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    for path in directory.glob("*.xml"):
        path.write_bytes(b"<net")

    done = cli("verify", directory)

    assert done.code == 1
    assert done.out.count("IR001") == 3


def test_usage_errors_are_sentences(cli: Cli, fixtures: Path) -> None:
    for arguments, message in (
        (("--select", "NOPE"), "there is no rule or group 'NOPE'"),
        (("--config", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("--baseline", "nowhere.json"), "nowhere.json: the baseline cannot be read"),
        (("--draft", "nowhere"), "nowhere: no such file or directory"),
        (("--rules", "nowhere"), "nowhere: no such folder of rules"),
        (("--target-runtime", "new"), "'new' is not a runtime version"),
        (("--target-runtime", "2026"), "'2026' is not a runtime version"),
        (("--format", "sarif", "--format", "junit"), "only one of sarif and junit can go to standard output"),
        (("--fail-on", "fatal"), "'fatal' is not one of"),
    ):
        done = cli("verify", fixtures / "falcon", *arguments)
        assert done.code == 2
        assert message in done.err
        assert done.err.count("\n") == 1
        assert "falcon" not in done.err


def test_usage_errors_are_said_once(cli: Cli, fixtures: Path) -> None:
    done = cli("verify", fixtures / "falcon", fixtures / "qwen3", "--select", "NOPE")

    assert done.err.startswith("irtools: error: there is no rule or group 'NOPE'. ")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_json_fits_the_schema(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    done = cli("verify", fixtures / "bert", fixtures / "qwen3", tmp_path / "nowhere", "--format", "json")

    content = json.loads(done.out)
    jsonschema.validate(content, schema())
    assert [model["status"] for model in content["models"]] == ["findings", "ok", "failed"]
    assert (content["summary"]["errors"], content["summary"]["exit_code"], done.code) == (3, 2, 2)


def test_several_formats_in_one_run(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    done = cli(
        *("verify", fixtures / "bert"),
        *("--format", "sarif", "--output", tmp_path / "a.sarif"),
        *("--format", "junit", "--output", tmp_path / "b.xml"),
        *("--output", tmp_path / "c.json", "--output", tmp_path / "d.txt"),
    )

    assert done.out == ""
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "b.xml").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "c.json").read_text())["command"] == "verify"
    assert "3 errors" in (tmp_path / "d.txt").read_text()


def test_format_without_output_goes_to_stdout(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    done = cli("verify", fixtures / "bert", "--format", "sarif", "--output", tmp_path / "x", "--format", "github")

    assert done.out.startswith("::error file=")
    assert json.loads((tmp_path / "x").read_text())["version"] == "2.1.0"


def test_unwritable_output(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    done = cli("verify", fixtures / "qwen3", "--output", tmp_path / "no" / "x.json")

    assert done.code == 2
    assert "there is no directory" in done.err
    assert "verified" not in done.out, "before the work"


def test_baseline_round_trip(cli: Cli, broken: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"

    assert cli("verify", broken, "--write-baseline", known).code == 0
    done = cli("verify", broken, "--baseline", known)
    assert (done.code, "known from the baseline" in done.out) == (0, True)
    (broken / "openvino_tokenizer.xml").unlink()
    done = cli("verify", broken, "--baseline", known, "--format", "json")
    entry = json.loads(done.out)["models"][0]
    assert ({finding["code"] for finding in entry["findings"]}, done.code) == ({"EXP003", "EXP007"}, 1)


def test_diff_shows_and_fix_applies(cli: Cli, export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    xml = directory / "openvino_model.xml"
    before = xml.read_bytes()

    shown = cli("verify", directory, "--fail-on", "note", "--diff")
    assert (shown.code, xml.read_bytes()) == (0, before)
    assert "+\t\t<hidden_states_decoder_layers value=" in shown.out

    assert cli("verify", directory, "--fail-on", "note").code == 1
    fixed = cli("verify", directory, "--fail-on", "note", "--fix")
    assert (fixed.code, f"wrote {xml}" in fixed.err) == (0, True)
    assert cli("verify", directory, "--fail-on", "note").code == 0


def test_exit_code_after_a_fix_is_that_of_what_remains(cli: Cli, export_copy: Callable[..., Path]) -> None:
    done = cli("verify", export_copy("mixtral"), "--fix", "--format", "json")

    entry = json.loads(done.out)["models"][0]
    assert (done.code, {f["code"] for f in entry["findings"]}) == (1, {"EXP003"})
    assert [Path(file).name for file in entry["written"]] == ["openvino_model.xml"]


def test_expectations(cli: Cli, fixtures: Path) -> None:
    assert cli("verify", fixtures / "qwen3_5_vl", "--expect-mtp").code == 0
    assert cli("verify", fixtures / "qwen3_5_vl", "--no-mtp").code == 1
    assert "MTP005" in cli("verify", fixtures / "qwen3", "--expect-mtp").out


def test_quiet_prints_the_findings_that_count(cli: Cli, broken: Path, fixtures: Path) -> None:
    done = cli("verify", broken, fixtures / "llama", "-q")

    name, file, finding = done.out.splitlines()
    assert (done.code, name, file, done.err) == (1, str(broken), "  openvino_model.bin", "")
    assert finding.split()[:2] == ["error", "IR006"]
    assert cli("verify", fixtures / "llama", "-q").out == ""
    assert "note     HID001" in cli("verify", fixtures / "llama", "-q", "--fail-on", "note").out


# -- what the fixes say ------------------------------------------------------------------


@pytest.fixture
def mistapped(export_copy: Callable[..., Path]) -> Path:
    """An export whose annotation names the Add after the attention of layer 1."""
    directory = export_copy("qwen3")
    xml = directory / "openvino_model.xml"
    start, end = (xml.read_text().index(text) for text in ("<hidden_states_decoder_layers", "</rt_info>\n</net>"))
    annotation = xml.read_text()[start:end].replace("layers.1/aten::add/Add_1", "layers.1/aten::add/Add")
    xml.write_text(xml.read_text()[:start] + annotation + xml.read_text()[end:])
    return directory


def test_fix_says_what_another_option_would_fix(cli: Cli, mistapped: Path) -> None:
    safe = cli("verify", mistapped, "--fix")
    assert (safe.code, "note: 1 finding can be fixed with --unsafe-fixes" in safe.err) == (1, True)

    unsafe = cli("verify", mistapped, "--unsafe-fixes")
    assert (unsafe.code, "can be fixed" in unsafe.err) == (0, False)


def test_fix_says_when_it_can_do_nothing(cli: Cli, fixtures: Path) -> None:
    assert "note: irtools cannot fix the 3 findings left" in cli("verify", fixtures / "bert", "--fix").err
    assert "fix" not in cli("verify", fixtures / "qwen3", "--fix").err


# -- rules -------------------------------------------------------------------------------


def test_rules_list(cli: Cli) -> None:
    text, machine = cli("rules", "list"), json.loads(cli("rules", "list", "--format", "json").out)

    codes = [line.split()[0] for line in text.out.splitlines()[1:]]
    assert [rule["code"] for rule in machine["rules"]] == codes
    jsonschema.validate(machine, schema())


def test_rules_explain_takes_a_message(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "Check 'x' failed at a/b.cpp:7:\nNo ScaledDotProductAttention operation observed in the graph"
    done = cli("rules", "explain", message)
    assert done.code == 0
    assert "RUN003" in done.out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(message.encode())))
    assert cli("rules", "explain", "-").out == done.out
    found = json.loads(
        cli("rules", "explain", "DFlash CB/PA supports one sequence per request.", "--format", "json").out
    )
    jsonschema.validate(found, schema())
    assert [(one["strategy"], one["id"]) for one in found["conditions"]] == [("dflash", "one-sequence")]
    grouped = json.loads(cli("rules", "explain", "dflash of an unknown kind", "--format", "json").out)
    assert {"DFL001", "DFL021"} <= {rule["code"] for rule in grouped["rules"]}
    unknown = cli("rules", "explain", "nobody has seen this")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no known rule explains 'nobody has seen this'; run `irtools verify" in unknown.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b" \n")))
    assert "there is no message" in cli("rules", "explain", "-").err


def test_the_conditions_are_shown_on_request(cli: Cli, fixtures: Path) -> None:
    path = fixtures / "qwen3_5_vl_trained"
    assert "num_assistant_tokens" not in cli("verify", path).out
    lines = cli("verify", path, "-v").out.splitlines()
    assert any(line.startswith("    set ") and "num_assistant_tokens > 0" in line for line in lines)


def test_rules_explain(cli: Cli) -> None:
    done = cli("rules", "explain", "ir007")

    assert done.out.startswith("IR007 short-weights (error)\n")
    assert "How to fix it" in done.out
    assert cli("rules", "explain", "short-weights").out == done.out
    missing = cli("rules", "explain", "IR999")
    assert (missing.code, "there is no rule 'IR999'. Did you mean 'IR0" in missing.err) == (2, True)


def test_rules_of_a_folder_are_listed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from irtools.authoring import Severity, rule\n\n"
        '@rule("ACME001", "acme", Severity.NOTE, "Mine")\ndef check(context):\n    """Mine."""\n    return ()\n'
    )

    assert "ACME001  note" in cli("rules", "list", "--rules", tmp_path).out
    assert cli("rules", "explain", "acme", "--rules", tmp_path).code == 0


def test_expected_compression_is_required_of_target_and_head(cli: Cli, fixtures: Path) -> None:
    compressed = fixtures / "qwen3_5_vl_int4"
    assert cli("verify", compressed, "--expect-compression", "int4_asym:64:int8_sym").code == 0
    other = cli("verify", compressed, "--expect-compression", "int4_sym:64")
    assert (other.code, other.out.count("QNT017")) == (1, 2)
    assert cli("verify", compressed, "--expect-compression", "int8_sym", "--part", "text_embeddings").code == 0
    assert cli("verify", fixtures / "qwen3_5_vl", "--expect-compression", "int4_asym").code == 1
    nothing = cli("verify", compressed, "--expect-compression", "int4_asym", "--part", "tokenizer")
    assert (nothing.code, nothing.out.count("no weights that could be compressed")) == (1, 1)


@pytest.mark.parametrize(
    "arguments",
    [("--expect-compression", "int5"), ("--part", "mtp"), ("--expect-compression", "int8_sym", "--part", "nope")],
)
def test_unusable_expectations_are_usage_errors(cli: Cli, fixtures: Path, arguments: tuple[str, ...]) -> None:
    done = cli("verify", fixtures / "qwen3_5_vl_int4", *arguments)
    assert (done.code, "Traceback" in done.err, done.err.count("irtools: error:")) == (2, False, 1)


def test_a_rule_given_as_a_path_is_answered_with_how_to_give_several(cli: Any, fixtures: Path) -> None:
    done = cli("verify", fixtures / "falcon", "--select", "IR001", "MTP005")

    assert done.code == 2
    assert "separate rules by commas" in done.err
