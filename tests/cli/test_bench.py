"""``irtools bench``: options, output and exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from irtools.bench import run
from irtools.bench.record import schema
from irtools.bench.samples import Attempt, Contender, PromptRun
from irtools.bench.settings import BenchSettings
from irtools.runtime import genai
from irtools.runtime.probe import RuntimeFacts
from tests.cli.conftest import Done

Cli = Callable[..., Done]
SEEN = RuntimeFacts(("CPU",), {"FULL_DEVICE_NAME": "A processor"}, {"python": "3", "platform": "x"}, ((1, 2, 3),))


class Simulated:
    """A runtime in which drafting is twice as fast, 3 drafts crash, and 4 are interrupted."""

    def __init__(self, settings: BenchSettings, prompts: Any) -> None:
        self.prompts = prompts

    def __enter__(self) -> Simulated:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, contender: Contender, repetition: int) -> Attempt:
        drafts = contender.assistant_tokens
        if drafts == 3:
            return Attempt(repetition, "crashed", "the process ended with code -11 (SIGSEGV)")
        if drafts == 4:
            raise KeyboardInterrupt
        tokens, accepted = ((2,) * 20, 20) if drafts else ((1,) * 40, 0)
        seconds = (0.01,) * len(tokens)
        runs = tuple(
            PromptRun(number, 9, 0.1, 0.5, 0.1, 0.1, 0.5, seconds, tokens, accepted, 20 * drafts)
            for number in range(len(self.prompts))
        )
        return Attempt(repetition, "ran", load=1.0, warm_up=0.1, peak_memory=1 << 28, load_average=0.1, runs=runs)


_TAKEN: dict[object, Any] = {}
"""Evidence by models and drafts; taking it compiles each of them in a process."""


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, fixtures: Path) -> Path:
    take = run._evidence

    def once(export: Any, contenders: Sequence[Contender], *others: Any) -> Any:
        key = frozenset((str(one.model), str(one.draft), one.strategy) for one in contenders)
        if key not in _TAKEN:
            _TAKEN[key] = take(export, contenders, *others)
        return _TAKEN[key]

    monkeypatch.setattr(run, "_evidence", once)
    monkeypatch.setattr(run, "Attempts", Simulated)
    monkeypatch.setattr(run, "probe", lambda *_, **__: SEEN)
    return fixtures / "qwen3_5_vl_trained"


def test_the_json_has_the_record(cli: Cli, simulated: Path) -> None:
    done = cli("bench", simulated, "--assistant-tokens", "1,2-3", "--format", "json", "-q")
    record = json.loads(done.out)["models"][0]["bench"]
    jsonschema.validate(record, schema())
    assert [row["name"] for row in record["rows"]] == ["plain", "mtp 1", "mtp 2", "mtp 3"]
    assert [row["status"] for row in record["rows"]] == ["ran", "ran", "ran", "crashed"]
    assert record["recommendation"]["decision"] == "on"
    assert record["rows"][1]["figures"]["speed_up"]["median"] == pytest.approx(2)
    assert [len(row["samples"]) for row in record["rows"]] == [5, 5, 5, 1]
    assert done.code == 0


def test_the_verdict_comes_first_and_finished_rows_are_printed(cli: Cli, simulated: Path) -> None:
    done = cli("bench", simulated, "--assistant-tokens", "1-3", "--repeat", "3")
    assert done.out.startswith("on: draft 1 at a time")
    assert "mtp 3: crashed: the process ended with code -11" in done.err
    assert "mtp 2: 200.0 tokens/s" in done.err
    assert cli("bench", simulated, "--repeat", "2", "-q").err == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--min-speedup", "3"), "failed: the speed-up 2.00 of mtp 1 is below the required 3"),
        (("--assistant-tokens", "2", "--min-acceptance", "0.9"), "failed: the acceptance rate 0.500 of mtp 2"),
        (("--min-speedup", "1.9", "--min-acceptance", "0.9"), ""),
    ],
)
def test_gates(cli: Cli, simulated: Path, options: tuple[str, ...], words: str) -> None:
    done = cli("bench", simulated, "--assistant-tokens", "1", *options)
    assert words in done.out
    assert done.code == (1 if words else 0)


def test_an_interrupt_reports_what_was_measured(cli: Cli, simulated: Path) -> None:
    done = cli("bench", simulated, "--assistant-tokens", "1,4")
    assert "interrupted: the figures are those of the rows that were done" in done.out
    assert "mtp 1" in done.out
    assert done.code == 130


def test_nothing_measured_is_an_error(cli: Cli, simulated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Attempt(0, "refused", "no memory")
    monkeypatch.setattr(Simulated, "__call__", lambda *_: failed)
    done = cli("bench", simulated, "-q")
    assert done.err.endswith("nothing was measured: plain refused, no memory\n")
    assert done.code == 2


def test_without_the_runtime_there_is_one_sentence(cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genai, "available", lambda: False)
    done = cli("bench", fixtures / "falcon")
    assert done.err == f"irtools: error: {fixtures / 'falcon'}: {genai.NOT_INSTALLED}\n"
    assert done.code == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--assistant-tokens", "0"), "from 1 to 1000"),
        (("--assistant-tokens", "5-1"), "neither a number nor a range"),
        (("--assistant-tokens", "a"), "neither a number nor a range"),
        (("--property", "A"), "not KEY=VALUE"),
        (("--repeat", "0"), "at least 1"),
        (("--context", "many"), "not a number of tokens"),
        (("--classes", "poems"), "no workload class 'poems'"),
        (("--min-acceptance", "2"), "not between 0 and 1"),
        (("--draft", "none"), "none"),
        (("--max-new-tokens", "2"), "at least 8"),
    ],
)
def test_invalid_options_are_refused(cli: Cli, simulated: Path, options: tuple[str, ...], words: str) -> None:
    done = cli("bench", simulated, *options)
    assert words in done.err
    assert done.err.count("\n") == 1
    assert done.code == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--against", "llama", "--against", "llama"), "the row llama plain would be in the table twice"),
        (("--against", "llama", "--min-speedup", "1"), "a gate needs a draft"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused(
    cli: Cli, simulated: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(simulated.parent)
    done = cli("bench", "falcon", *options)
    assert words in done.err
    assert done.code == 2


@pytest.mark.slow
def test_a_refused_draft_and_a_grafted_copy_are_rows(cli: Cli, fixtures: Path) -> None:
    done = cli(
        *("bench", fixtures / "qwen3_5_vl_trained", "--draft", fixtures / "bert", "--graft", "128"),
        *("--assistant-tokens", "2", "--repeat", "1", "--classes", "prose", "--max-new-tokens", "8"),
        *("--property", "KV_CACHE_PRECISION=u8", "--format", "json", "-q"),
    )
    record = json.loads(done.out)["models"][0]["bench"]
    rows = {row["name"]: row for row in record["rows"]}
    assert {name: row["status"] for name, row in rows.items()} == {
        "plain": "ran",
        "mtp 2": "ran",
        "draft 2": "refused",
        "graft 128 plain": "ran",
        "graft 128 mtp 2": "ran",
    }
    assert rows["draft 2"]["message"]
    # A head over 128 tokens drafts as well as the whole one on this export.
    assert rows["graft 128 mtp 2"]["figures"]["acceptance"] == rows["mtp 2"]["figures"]["acceptance"]
    assert rows["mtp 2"]["figures"]["peak_memory"]["median"] > 50 << 20
    assert rows["mtp 2"]["figures"]["cpu"]["median"] > 0
    for row in (rows["plain"], rows["mtp 2"]):
        for one in row["samples"][0]["runs"]:
            assert sum(one["pass_tokens"]) == 7
            assert len(one["pass_tokens"]) == len(one["passes"])


def _rows(done: Done) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(done.out)["models"][0]["bench"]["rows"]}


_SHORT = ("--assistant-tokens", "3", "--repeat", "1", "--max-new-tokens", "8", "--format", "json", "-q")


@pytest.mark.slow
def test_a_dflash_draft_is_not_run_beyond_its_block_and_paths_may_have_any_name(
    cli: Cli, fixtures: Path, tmp_path: Path
) -> None:
    target = tmp_path / "ein Modell \u00fc"
    shutil.copytree(fixtures / "falcon", target)
    assert cli("annotate", target, "-q").code == 0
    for path in (*target.iterdir(), target):
        path.chmod(path.stat().st_mode & ~0o222)
    draft = ("--draft", fixtures / "qwen3_dflash", "--classes", "code")
    rows = _rows(cli("bench", target, *draft, *_SHORT, "--assistant-tokens", "3,4"))
    target.chmod(0o755)
    assert {name: row["status"] for name, row in rows.items()} == {
        "plain": "ran",
        "dflash 3": "ran",
        "dflash 4": "refused",
    }
    assert "block_size is 4" in rows["dflash 4"]["message"]
    assert rows["dflash 3"]["samples"][0]["runs"][0]["drafted"] > 0


@pytest.mark.slow
def test_a_target_that_cannot_be_paged_runs_on_the_stateful_path(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    target = tmp_path / "eager"
    shutil.copytree(fixtures / "zoo" / "gpt2_eager", target)
    for path in fixtures.joinpath("gpt2").glob("openvino_*tokenizer.*"):
        shutil.copy(path, target)
    rows = _rows(cli("bench", target, "--draft", fixtures / "gpt2", "--classes", "code", *_SHORT))
    assert rows["plain"]["status"] == "ran"
    assert rows["plain"]["stateful"]
    assert len(rows["plain"]["samples"][0]["runs"][0]["passes"]) == 7
    assert "stateful path, which does not support drafting" in rows["draft 3"]["message"]


@pytest.mark.slow
def test_system_messages_and_images_are_drafted_for(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image").new("RGB", (64, 48)).save(tmp_path / "a.png")
    prompts = tmp_path / "prompts.jsonl"
    system, image = {"system": "Be brief."}, {"image": "a.png"}
    lines = [{"text": "Hello", **system}, {"text": "What?", **image}, {"text": "What?", **system, **image}]
    prompts.write_text("\n".join(map(json.dumps, lines)))
    rows = _rows(cli("bench", fixtures / "qwen3_5_vl_trained", "--prompts", prompts, *_SHORT))
    assert {row["status"] for row in rows.values()} == {"ran"}
    lengths = [[run["prompt_tokens"] for run in row["samples"][0]["runs"][:3]] for row in rows.values()]
    assert lengths[0] == lengths[1]
    system_only, image_only, both = lengths[0]
    # The tokenizer knows letters, so that the prompts have five tokens without the system message and the image.
    assert both == system_only + image_only - 5


@pytest.mark.slow
def test_a_runtime_that_gives_no_answer_is_ended(cli: Cli, fixtures: Path) -> None:
    done = cli("bench", fixtures / "llama", "--classes", "code", "--repeat", "1", "--timeout", "0.01", "-q")
    assert "plain hung, the process did not respond for 0.01 s and was stopped" in done.err
    assert done.code == 2
