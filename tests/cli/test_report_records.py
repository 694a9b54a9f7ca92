"""``irtools report`` with records, and the page of a benchmark without matplotlib."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.report import plots
from tests.bench.examples import example_record
from tests.cli.conftest import Done
from tests.report.records import proof_record

Cli = Callable[..., Done]


def test_records_of_the_export_are_shown_and_those_of_others_refused(
    cli: Cli, fixtures: Path, export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    copy, page = export_copy("qwen3_5_vl_trained"), tmp_path / "x.html"
    proof, bench = tmp_path / "proof.json", tmp_path / "bench.json"
    proof.write_text(json.dumps(proof_record(copy)))
    bench.write_text(json.dumps({"models": [{"bench": example_record(copy)}]}))

    assert cli("report", copy, "-o", page, "--proof", proof, "--bench", bench).code == 0
    text = page.read_text()
    assert "not proved: state and head failed" in text
    assert "draft 3 at a time" in text
    page.unlink()

    for option, file, said in (
        ("--proof", bench, "of a benchmark, not of a proof"),
        ("--bench", proof, "of a proof, not of a benchmark"),
    ):
        done = cli("report", copy, "-o", page, option, file)
        assert (done.code, done.out) == (2, "")
        assert f"holds a record {said}" in done.err
    head = copy / "openvino_mtp_model.bin"
    head.write_bytes(b"\1" + head.read_bytes()[1:])
    for option, file in (("--proof", proof), ("--bench", bench)):
        done = cli("report", copy, "-o", page, option, file)
        assert (done.code, done.out) == (2, "")
        assert "describes other files: openvino_mtp_model.bin has changed since" in done.err
        assert done.err.count("\n") == 1
    assert not page.exists()


def test_a_page_that_cannot_be_drawn_is_refused_before_the_benchmark(
    cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    bench = tmp_path / "bench.json"
    bench.write_text(json.dumps(example_record(fixtures / "qwen3_5_vl_trained")))

    for arguments in (
        ("bench", fixtures / "qwen3_5_vl_trained", "-o", tmp_path / "x.html"),
        ("report", fixtures / "qwen3_5_vl_trained", "-o", tmp_path / "x.html", "--bench", bench),
    ):
        done = cli(*arguments)
        assert (done.code, done.out) == (2, "")
        assert "install the extra `plots`" in done.err
        assert done.err.count("\n") == 1
