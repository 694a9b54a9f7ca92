"""``irtools report``, and the page of ``verify`` and ``render``, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import html

Cli = Callable[..., Any]


def test_report_writes_the_file(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    done = cli("report", fixtures / "falcon", "-o", tmp_path / "a.html", "--format", "json")
    assert done.code == 0
    (model,) = json.loads(done.out)["models"]
    assert model["status"] == "written"
    assert model["bytes"] == (tmp_path / "a.html").stat().st_size
    assert model["errors"] == 0


def test_report_of_an_export_with_errors_is_written_all_the_same(
    cli: Cli, export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    directory = export_copy("qwen3_5_vl")
    (directory / "openvino_mtp_model.xml").unlink()
    done = cli("report", directory, "-o", tmp_path / "a.html", "--expect-mtp")
    assert done.code == 0
    assert "MTP001" in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "-o", "a.txt"], "use the suffix .html"),
        (["report", "-o", "no/a.html"], "create its directory first"),
        (["report"], "missing option '-o'"),
        (["render", "-o", "a.html", "--full"], "it takes only --layer and --around"),
        (["render", "-o", "a.html", "--layer", "9"], "has no layer 9"),
        (["render", "-o", "a.html", "--around", "nonsense"], "no op is called"),
    ],
)
def test_mistakes(
    cli: Cli, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli(arguments[0], fixtures / "falcon", *arguments[1:])
    assert done.code == 2
    assert words in done.err
    assert list(tmp_path.iterdir()) == []


def test_render_writes_the_page_and_says_where_to_begin(cli: Cli, fixtures: Path, tmp_path: Path) -> None:
    assert cli("render", fixtures / "falcon", "-o", tmp_path / "a.html", "--around", "lm_head").code == 0
    start = html.fromstring((tmp_path / "a.html").read_text()).xpath("//script[@id='start']/text()")[0]
    assert json.loads(start) == {"part": "m0-model", "op": "__module.lm_head/aten::linear/MatMul", "layer": None}


def test_verify_prints_the_page_and_keeps_its_exit_code(
    cli: Cli, export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    directory = export_copy("falcon")
    (directory / "openvino_tokenizer.xml").unlink()
    done = cli("verify", directory, "--format", "html")
    assert done.code == 1
    assert done.out.startswith("<!doctype html>")
    assert cli("verify", directory, "--output", tmp_path / "a.html", "--exit-zero").code == 0
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
