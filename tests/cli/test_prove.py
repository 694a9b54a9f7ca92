"""``irtools prove``: options, output and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from irtools.cli import prove as module
from irtools.export import open_export
from irtools.prove import run
from irtools.prove.decoding import Decoded, Runs
from irtools.prove.evidence import Evidence
from irtools.prove.figures import acceptance_figures, plain_figures
from irtools.prove.run import Proof
from irtools.prove.settings import Prompt, ProveSettings
from irtools.prove.speculate import DraftSetup
from irtools.prove.steps import FAILED, PASSED, WARNING, Check, Step
from irtools.report.json import schema
from irtools.report.prove import proof_text
from irtools.report.terminal import Style
from irtools.runtime import genai
from irtools.runtime.jobs import Outcome
from irtools.runtime.probe import RuntimeFacts
from tests.cli.conftest import Done

Cli = Callable[..., Done]
TOKENS = tuple(range(40))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, fixtures: Path) -> list[ProveSettings]:
    """Settings of the calls; nothing runs."""
    calls: list[ProveSettings] = []

    def prove(export: Any, settings: ProveSettings, progress: Any, on_step: Any) -> Proof:
        calls.append(settings)
        record = {"record_version": 2, "device": {"name": "CPU", "full_name": None}, "tokenizer_fault": ""}
        return Proof(export, settings, DraftSetup(), (), record)

    monkeypatch.setattr(run, "prove", prove)
    return calls


def test_options_become_settings(cli: Cli, asked: list[ProveSettings], fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n\ntwo words\n")
    (tmp_path / "list").write_text('["a\\nb", "c"]')
    calls: dict[tuple[object, ...], ProveSettings] = {
        (): ProveSettings(),
        ("--prompt", "a", "--prompt", "b"): ProveSettings(prompts=("a", "b")),
        ("--prompts", tmp_path / "lines"): ProveSettings(prompts=("one", "two words")),
        ("--prompts", tmp_path / "list"): ProveSettings(prompts=("a\nb", "c")),
        ("--token-ids", "1,2, 3", "--token-ids", "4,5"): ProveSettings(token_ids=((1, 2, 3), (4, 5))),
        ("--steps", "taps,head", "--device", "GPU"): ProveSettings(steps=("taps", "head"), device="GPU"),
        ("--assistant-tokens", "4,2-2", "--min-acceptance", "0.5"): ProveSettings(
            assistant_tokens=(2, 4), min_acceptance=0.5
        ),
        ("--repeat", "3"): ProveSettings(repeat=3),
        ("--max-new-tokens", "7", "--draft", tmp_path): ProveSettings(max_new_tokens=7, draft=tmp_path),
    }
    for arguments, expected in calls.items():
        assert cli("prove", fixtures / "falcon", *arguments).code == 0
        assert asked.pop() == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "tap"), "there is no step 'tap'"),
        (("--steps", ","), "no step is selected"),
        (("--assistant-tokens", "1,x"), "'x' is neither a number nor a range"),
        (("--token-ids", "1,x"), "not a list of numbers"),
        (("--assistant-tokens", "0"), "at least 1"),
        (("--max-new-tokens", "1"), "at least 2"),
        (("--max-new-tokens", "9" * 20), "more than 1000000"),
        (("--assistant-tokens", "9" * 20), "at most 1000000"),
        (("--min-acceptance", "1.5"), "between 0 and 1"),
        (("--min-acceptance", "0.5", "--steps", "taps"), "step runtime, which is not selected"),
        (("--min-acceptance", "0.5"), "there is no MTP head; give --draft"),
        (("--token-ids", "5"), "at least two tokens"),
        (("--token-ids", "5,-1"), "negative"),
        (("--prompt", ""), "a prompt is empty"),
        (("--prompt", "a", "--token-ids", "5,6"), "either as text or as token ids"),
        (("--prompt", "a", "--prompts", "README.md"), "--prompt and --prompts cannot be used together"),
        (("--prompts", "missing"), "no such file"),
        (("--prompts", "pyproject.toml"), "starts like a JSON list"),
        (("--compare", "README.md"), "is not valid JSON"),
        (("-o", "x.txt"), "'x.txt' has none of the suffixes .json, .md, .html"),
        (("-o", "missing/x.json"), "there is no directory 'missing'"),
        (("--draft", "missing"), "no such file or directory"),
        (("--draft", "docs"), "no openvino_model.xml"),
    ],
)
@pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")
def test_options_that_make_no_sense_are_one_sentence(
    cli: Cli, fixtures: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fixtures.parent)
    done = cli("prove", fixtures / "falcon", *arguments)

    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_files_are_written_in_the_formats_of_their_suffixes(
    cli: Cli, fixtures: Path, proof: Proof, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "prove", lambda *_: proof)
    files = [tmp_path / f"x.{suffix}" for suffix in ("json", "md", "html", "xml")]

    done = cli("prove", fixtures / "falcon", *(part for file in files for part in ("-o", file)), "--format", "json")

    assert done.code == 0
    assert json.loads(files[0].read_text()) == json.loads(done.out)
    begins = ("# Proof of ", "<!doctype html>", "<?xml version=")
    assert all(file.read_text().startswith(begin) for file, begin in zip(files[1:], begins, strict=True))
    again = cli("prove", fixtures / "falcon", "--compare", files[0])
    assert "nothing changed since the earlier record" in again.out


def test_without_genai_there_is_one_sentence(cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genai, "available", lambda: False)

    done = cli("prove", fixtures / "falcon", "--steps", "runtime")

    assert (done.code, done.out) == (2, "")
    assert "openvino-genai is not installed; install the extra" in done.err


def test_without_genai_the_other_steps_run(cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genai, "available", lambda: False)

    done = cli("prove", fixtures / "falcon", "--steps", "state,runtime")

    assert done.code == 0
    assert done.out.startswith("proved: state passed; 1 step does not apply\n")
    assert "openvino-genai is not installed; install the extra" in " ".join(done.out.split())
    assert "note: state: passed" in done.err


def test_a_runtime_that_cannot_be_imported_is_one_sentence(
    cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "openvino_genai.py").write_text("raise ImportError('a library is missing')")
    monkeypatch.syspath_prepend(tmp_path)

    done = cli("prove", fixtures / "falcon", "--prompt", "ab")

    assert (done.code, done.out) == (2, "")
    assert "openvino-genai cannot be imported (a library is missing); install the extra again" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("content", [None, "<net", "<a/>"])
def test_what_is_no_export_is_an_error(cli: Cli, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "openvino_model.xml").write_text(content)

    done = cli("prove", tmp_path, "--steps", "taps")

    assert (done.code, done.out) == (2, "")
    assert str(tmp_path) in done.err


@pytest.mark.parametrize("device", ["NPU", "nonsense"])
def test_a_device_that_is_not_there_is_an_error(cli: Cli, fixtures: Path, device: str) -> None:
    """The NPU plugin answers property queries even without a device."""
    done = cli("prove", fixtures / "opt", "--device", device, "--steps", "taps", "--token-ids", "5,6")

    assert done.code == 2
    assert f"there is no device {device!r}; OpenVINO sees CPU" in done.err


def test_token_ids_that_stand_in_for_prompts_are_told(proof: Proof) -> None:
    faulty = Proof(
        proof.export, proof.settings, proof.setup, proof.steps, {**proof.record, "tokenizer_fault": "no file"}
    )

    assert proof_text(faulty, Style()).splitlines()[2].endswith("random token ids from seed 0 replace them: no file")


def test_nothing_is_proved_when_no_step_applies(proof: Proof) -> None:
    nothing = Proof(proof.export, proof.settings, proof.setup, proof.steps[:1], proof.record)

    assert proof_text(nothing, Style()).startswith("nothing proved: no step applies\n")
    assert nothing.exit_code == 2


# -- what is printed -------------------------------------------------------------------


def outcome(accepted: int, drafted: int) -> Outcome:
    return Outcome("ran", "", TOKENS, "text", (89, 80), 2, accepted=accepted, drafted=drafted, steps=40 - accepted)


@pytest.fixture
def proof(fixtures: Path) -> Proof:
    """Proof of a draft with 30 of 45 tokens accepted."""
    export = open_export(fixtures / "qwen3_5_vl_trained")
    prompts = (Prompt("What does a proof by running consist of?", (89, 80)),)
    drafted = {1: Runs((outcome(19, 20),)), 2: Runs((outcome(30, 45),)), 3: Runs((outcome(0, 114),))}
    decoded = Decoded(prompts, Runs((outcome(0, 0),)), drafted)
    checks = (
        Check("plain", PASSED, "decoded", "40 tokens", figures=plain_figures(decoded)),
        Check("acceptance", WARNING, "counted", "some", "a reason", acceptance_figures(decoded)),
    )
    steps = (
        Step("taps", why="the target has no annotation"),
        Step("runtime", checks, seconds=3.21),
    )
    setup, settings = DraftSetup("mtp", "MTP head", export), ProveSettings()
    seen = RuntimeFacts(("CPU",), {"FULL_DEVICE_NAME": "A Device"}, {"python": "3.11", "platform": "any"})
    evidence = Evidence.take("CPU", seen, {"model": export})
    return Proof(export, settings, setup, steps, run.record(setup, prompts, settings, evidence, steps))


def test_the_report_tells_each_step_and_what_follows(proof: Proof) -> None:
    lines = [" ".join(line.split()) for line in proof_text(proof, Style()).splitlines()]

    assert lines[1].endswith("on CPU (A Device), with its MTP head")
    assert "taps: not applicable" in lines
    assert "runtime: warning (3.2 s)" in lines
    assert "total 1 19 of 20 0.95 19" in lines
    assert "2 30 of 45 0.67 30" in lines
    assert lines[0] == "proved: runtime passed (warnings in runtime); 1 step does not apply"


@pytest.mark.parametrize("width", [40, 80])
def test_the_report_fits_a_terminal(proof: Proof, width: int) -> None:
    text = proof_text(proof, Style(width=width))

    assert [line for line in text.splitlines() if len(line) > width] == []


def test_json_and_exit_code(cli: Cli, proof: Proof, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing = Proof(
        proof.export, proof.settings, proof.setup, (Step("taps", (Check("cut", FAILED, "cut"),)),), proof.record
    )
    old = tmp_path / "old.json"
    old.write_text(json.dumps({**proof.record, "drafting": "dflash"}))
    for result, code, status in ((proof, 0, "ok"), (failing, 1, "findings")):
        monkeypatch.setattr(run, "prove", lambda *_, result=result: result)
        done = cli("prove", proof.export.path, "--format", "json", "--compare", old)

        (model,) = json.loads(done.out)["models"]
        jsonschema.Draft202012Validator(schema()).validate(json.loads(done.out))
        assert (done.code, model["status"], done.err) == (code, status, "")
        assert model["changes"] == [
            {"what": "drafting", "before": "dflash", "now": "mtp", "ratio": None, "condition": True}
        ]
        assert cli("prove", proof.export.path, "-q").out == ""


def test_comparing_is_a_table_in_text(cli: Cli, proof: Proof, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps({**proof.record, "drafting": "dflash"}))
    monkeypatch.setattr(run, "prove", lambda *_: proof)

    done = cli("prove", proof.export.path, "--compare", old)

    assert ["drafting", "dflash", "mtp"] in [line.split() for line in done.out.splitlines()]
    assert module.command.name == "prove"


def test_a_strategy_that_the_installed_runtime_lacks_is_refused_before_anything_runs(
    cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("something was loaded")

    monkeypatch.setattr(genai, "available", lambda: True)
    monkeypatch.setattr(genai, "installed_version", lambda: "2026.3.1.0")
    monkeypatch.setattr(run, "probe", never)

    done = cli("prove", fixtures / "qwen3_5_vl_trained")

    assert done.code == 2
    assert "mtp needs a newer runtime: OpenVINO GenAI has it from 2026.4 on, and 2026.3.1.0 is installed" in done.err
    assert "--steps taps,state,head" in done.err
    with pytest.raises(AssertionError, match="something was loaded"):
        run.prove(open_export(fixtures / "llama"), ProveSettings())
