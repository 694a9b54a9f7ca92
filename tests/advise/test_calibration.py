"""Times from records and runs."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from irtools.advise import calibration
from irtools.advise.advice import Advice, advise
from irtools.advise.calibration import Calibration, acceptance_of, from_record
from irtools.advise.traffic import HeadBytes, PartBytes, Traffic, traffic
from irtools.bench.copies import grafted
from irtools.bench.samples import Attempt, PromptRun
from irtools.errors import OptionError, UsageError
from irtools.export import open_export
from irtools.prove.evidence import file_marks
from irtools.report.advice import advice_details, advice_text
from irtools.report.terminal import Style
from irtools.runtime.jobs import Outcome, Timing
from tests.bench.examples import Machine, example_record
from tests.report.records import proof_record

WIDE = Traffic(
    HeadBytes(248320, (("i8", 1024), ("f16", 1))),
    PartBytes(108_788_036, layers=12),
    PartBytes(12_740_196, layers=1),
    248320,
)
"""A target of 12 layers with a head of 254 MB."""


PLAIN, DRAFT, PASSES = 0.0153, 0.0073, {1: 0.022, 3: 0.026}
"""Seconds of a plain pass, of a drafted token, and of a pass that verifies 1 or 3 tokens."""


def attempt(drafts: int, accepted: int) -> Attempt:
    """Two prompts, 22 passes each; the first pass is slow, and the last one drafts nothing."""
    whole = PASSES[drafts] + drafts * DRAFT if drafts else PLAIN
    passes = (2 * whole, *[whole] * 20, PLAIN)
    counts = (*[accepted + 1] * 21, 1)
    drafted = 21 * drafts
    draft = drafted * DRAFT + whole  # with the prompt in the first pass
    run = PromptRun(0, 5, 0.1, sum(passes), draft, 0.0, 1.0, passes, counts, 21 * accepted, drafted)
    return Attempt(0, "ran", runs=(run, replace(run, prompt=1)))


def row_of(name: str, drafts: int = 0, accepted: int = 0, **other: Any) -> dict[str, Any]:
    """A row of the export as it is."""
    own = {"name": name, "strategy": "mtp" if drafts else "plain", "model": "m", "draft": "m" if drafts else None}
    return {**own, "assistant_tokens": drafts, "copy": "", "samples": [attempt(drafts, accepted).to_json()], **other}


def record_of(directory: Path) -> dict[str, Any]:
    """A benchmark with two numbers of assistant tokens, and rows that are not about the MTP head of the export."""
    slow = [replace(attempt(1, 0), runs=()).to_json()]
    rows = [
        row_of("plain"),
        row_of("mtp 1", 1, 1),
        row_of("mtp 3", 3, 1),
        row_of("graft 64 plain", copy="draft head over 64 tokens", samples=slow),
        row_of("mtp other 1", 1, 0, draft="other"),
        row_of("mtp 8", 1, 0, assistant_tokens=8, samples=[Attempt(0, "crashed", "it ended").to_json()]),
        row_of("dflash 3", 3, 0, strategy="dflash"),
    ]
    model = {"files": file_marks(open_export(directory).directory)}
    return json.loads(json.dumps({"kind": "bench", "record_version": 1, "model": model, "rows": rows}))  # type: ignore[no-any-return]


def test_a_record_gives_the_times_of_a_pass_and_of_a_draft(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    found = from_record(export, WIDE, record_of(export.directory))
    assert found.plain == pytest.approx(PLAIN)
    assert found.passes == pytest.approx(PASSES)
    assert found.draft(WIDE.per_draft(248320)) == pytest.approx(DRAFT)
    # measured on a machine without other work: 1.70 ms for a head over 32,768 tokens
    assert found.draft(WIDE.per_draft(32768)) == pytest.approx(0.0017, rel=0.1)
    assert found.acceptance == pytest.approx((21 / 22 + acceptance_of(21 / 22, 3)) / 2)


def test_the_record_of_a_simulated_benchmark_gives_its_times_back(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    machine = Machine(plain=0.020, draft=0.002, verify=0.001, processes=[[[1.0]]])
    found = from_record(export, WIDE, json.loads(json.dumps(example_record(export.directory, machine))))
    assert found.plain == pytest.approx(0.020)
    assert found.passes == pytest.approx({number: 0.020 + number * 0.001 for number in (1, 2, 3)})
    assert found.draft(WIDE.per_draft(248320)) == pytest.approx(0.002)


@pytest.mark.parametrize("change", ["target", "mtp", "weights", "absent", "more"])
def test_a_record_of_other_files_is_refused(fixtures: Path, change: str) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    record = record_of(export.directory)
    files = record["model"]["files"]
    if change == "target":
        files["openvino_language_model.xml"]["sha256"] = "0" * 64
    elif change == "mtp":
        files["openvino_mtp_model.xml"]["sha256"] = "0" * 64
    elif change == "weights":
        files["openvino_language_model.bin"]["size"] += 1
    elif change == "absent":
        del files["openvino_mtp_model.bin"]
    else:
        files["openvino_model.xml"] = {"size": 1, "sha256": "0" * 64}
    with pytest.raises(OptionError, match="other files"):
        from_record(export, WIDE, record)


def test_a_changed_readme_does_not_matter(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    record = record_of(export.directory)
    record["model"]["files"]["README.md"] = {"size": 1, "sha256": None}
    record["model"]["files"]["chat_template.jinja"]["sha256"] = "0" * 64
    assert from_record(export, WIDE, record).source == "record"


@pytest.mark.parametrize("kept", [(), ("plain",), ("mtp 1",), ("plain", "dflash 3", "mtp other 1", "mtp 8")])
def test_a_record_without_mtp_drafting_is_refused(fixtures: Path, kept: tuple[str, ...]) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    record = record_of(export.directory)
    rows = [row for row in record["rows"] if row["name"] in kept]
    with pytest.raises(OptionError, match=r"no times of decoding with and without the MTP head.*irtools bench"):
        from_record(export, WIDE, {**record, "rows": rows})


def test_the_record_of_a_proof_is_refused_in_one_sentence(fixtures: Path, tmp_path: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    proof = proof_record(export.directory)
    with pytest.raises(OptionError, match="only the record of a benchmark has times; write one with `irtools bench"):
        export.advise(bench=proof)
    path = tmp_path / "proof.json"
    path.write_text(json.dumps({"models": [{"proof": proof}]}))
    with pytest.raises(OptionError, match=r"a record of a proof, not of a benchmark; .*`irtools bench -o FILE\.json`"):
        export.advise(bench=path)


@pytest.mark.parametrize("damage", ["no rows", "no time", "text", "no number"])
def test_a_damaged_record_is_refused_in_one_sentence(fixtures: Path, damage: str) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    record = record_of(export.directory)
    plain, drafted = record["rows"][0], record["rows"][1]
    if damage == "no rows":
        del record["rows"]
    elif damage == "no time":
        for run in plain["samples"][0]["runs"]:
            run["passes"] = [0.0] * len(run["passes"])
    elif damage == "text":
        drafted["samples"][0]["runs"][0]["draft"] = "0.1"
    else:
        del drafted["assistant_tokens"]
    with pytest.raises(OptionError, match="the record is damaged; write it again with `irtools bench"):
        export.advise(bench=record)


@pytest.mark.parametrize("present", [3, 8])
def test_a_present_head_that_cannot_be_smaller_is_refused(fixtures: Path, present: int) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    with pytest.raises(UsageError, match=f"covers only {present} tokens.*--bench"):
        calibration.measure(export, replace(traffic(export), present=present))


def test_a_record_in_a_file_marks_the_best_row(fixtures: Path, tmp_path: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"models": [{"bench": record_of(export.directory)}]}))
    found = export.advise(bench=path)
    assert found.best is not None
    speeds = {(row.tokens, drafts): speed for row in found.rows for drafts, speed in enumerate(row.speeds or (), 1)}
    assert found.best.tokens_per_second == pytest.approx(max(*speeds.values(), 1 / PLAIN))
    assert "recommendation" in advice_text(found, Style())
    json.dumps(advice_details(found))


def test_a_record_and_runs_exclude_each_other(fixtures: Path) -> None:
    with pytest.raises(OptionError, match="not both"):
        open_export(fixtures / "qwen3_5_vl_trained").advise(bench={}, calibrate=True)


@pytest.mark.parametrize("drafts", [1, 3, 8])
def test_the_acceptance_is_the_inverse_of_the_expected_run(drafts: int) -> None:
    for acceptance in (0.0, 0.3, 0.8, 1.0):
        run = sum(acceptance**power for power in range(1, drafts + 1))
        assert acceptance_of(run, drafts) == pytest.approx(acceptance, abs=1e-6)


def test_passes_between_and_beyond_the_measured_ones_are_on_a_line() -> None:
    times = Calibration("runs", 0.015, ((0, 0.0), (10**10, 1.0)), {1: 0.020, 3: 0.024, 8: 0.034})
    assert [times.verify(drafts) for drafts in (1, 2, 3, 5, 8, 9)] == pytest.approx(
        [0.020, 0.022, 0.024, 0.028, 0.034, 0.036]
    )
    single = Calibration("record", 0.015, ((0, 0.0), (10**10, 1.0)), {3: 0.024})
    assert [single.verify(drafts) for drafts in (1, 3, 4)] == pytest.approx([0.018, 0.024, 0.027])


def outcome(drafts: int, per_draft: float) -> Outcome:
    """Ten passes without an accepted token."""
    draft = 10 * drafts * per_draft
    timing = Timing(passes=(0.015 + 0.002 * drafts + draft / 10,) * 10, draft=draft)
    return Outcome("ran", tokens=tuple(range(11)), steps=11, drafted=10 * drafts, timing=timing)


def fake_runs(monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...]) -> list[Path]:
    """Runs with given times per draft, by turns, after a plain one; the second round is disturbed."""
    directories: list[Path] = []

    def run(directory: Path, drafts: tuple[int, ...], device: str, timeout: float) -> dict[int, list[Outcome]]:
        number, place = divmod(len(directories), 1 + len(seconds))
        directories.append(directory)
        slow = 3.0 if number == 1 else 1.0
        return {count: [outcome(count, slow * (0.0, *seconds)[place])] * 4 for count in drafts}

    monkeypatch.setattr(calibration, "_run", run)
    return directories


def test_a_draft_takes_the_time_between_the_three_measured_sizes(
    fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    read = traffic(export)
    directories = fake_runs(monkeypatch, (0.025, 0.007, 0.022))
    found = calibration.measure(export, read)
    sizes = tuple(map(read.per_draft, (64, 256, 512)))
    assert found.drafts == tuple(zip(sizes, map(pytest.approx, (0.007, 0.022, 0.025)), strict=True))
    assert found.draft(read.per_draft(160)) == pytest.approx(0.0145)  # halfway from 64 to 256
    assert found.draft(read.per_draft(384)) == pytest.approx(0.0235)  # halfway from 256 to 512
    assert found.draft(read.per_draft(8)) == pytest.approx(0.0035)  # the line leads to 0.0026
    assert found.plain == pytest.approx(0.015)
    assert found.passes == pytest.approx({1: 0.017, 3: 0.021, 8: 0.031})
    assert found.busy
    assert len(directories) == 12
    assert not any(directory.exists() for directory in directories[2:4])


def test_runs_that_make_no_sense_are_refused(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    fake_runs(monkeypatch, (1e-3, 2e-3, 2e-3))
    with pytest.raises(UsageError, match="are inconsistent"):
        calibration.measure(export, traffic(export))


def test_the_copy_with_a_smaller_head_changes_only_the_target(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    before = copy.deepcopy(file_marks(export.directory))
    with grafted(export, 64, "") as made:
        assert traffic(open_export(made)).present == 64
        changed = [name for name, facts in file_marks(made).items() if facts != before[name]]
        assert changed == ["openvino_language_model.xml"]
    assert file_marks(export.directory) == before


@pytest.mark.slow
def test_the_copy_with_a_smaller_head_drafts_in_the_runtime(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    with grafted(export, 128, "") as made:
        runs = calibration._run(made, (0, 1, 3), "CPU", 300)
        assert [len(runs[count]) for count in (0, 1, 3)] == [4, 4, 4]
        assert all(run.drafted for run in runs[3])
        assert [run.tokens for run in runs[3]] == [run.tokens for run in runs[0]]


def test_advice_of_a_class_is_what_the_method_returns(fixtures: Path) -> None:
    export = open_export(fixtures / "qwen3_5_vl_trained")
    assert isinstance(advise(export), Advice)
