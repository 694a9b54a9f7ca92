"""``irtools render`` from the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from irtools.render.engine import engine_command


@pytest.mark.parametrize("form", ["svg", "png", "pdf", "dot"])
def test_the_suffix_says_the_format(cli: Any, fixtures: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / f"picture.{form}"
    done = cli("render", fixtures / "falcon", "-o", output)
    assert (done.code, done.out, done.err) == (0, f"wrote {output}\n", "")
    assert cli("render", fixtures / "falcon", "-o", output, "-q").out == ""
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "dot": b"digraph irtools {"}[form]
    assert output.read_bytes().startswith(start)


def test_what_is_left_out_is_said(cli: Any, fixtures: Path, tmp_path: Path) -> None:
    output = tmp_path / "picture.svg"
    done = cli("render", fixtures / "falcon", "-o", output, "--full", "--max-nodes", 40)
    assert done.code == 0
    assert "omitted: " in done.err
    assert "ops without constants, in the middle, beyond the limit of 40" in done.err
    words = " ".join(etree.parse(output).xpath("//*[local-name()='text']/text()"))
    assert "beyond the limit of 40" in words


def test_json(cli: Any, fixtures: Path, tmp_path: Path) -> None:
    done = cli("render", fixtures / "falcon", "-o", tmp_path / "x.dot", "--format", "json")
    (model,) = json.loads(done.out)["models"]
    assert model["status"] == "written"
    assert model["format"] == "dot"
    assert model["bytes"] == (tmp_path / "x.dot").stat().st_size
    assert model["omitted"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "x.gif"], "use one of .svg, .png, .pdf, .dot"),
        (["-o", "x.svg", "--full", "--layer", "1"], "select different pictures"),
        (["-o", "x.svg", "--radius", "2"], "--radius requires --around"),
        (["-o", "x.svg", "--layer", "99"], "no layer 99"),
        (["-o", "x.svg", "--around", "nothing like it"], "no op is called"),
        (["-o", "x.svg", "--part", "nonsense"], "no part 'nonsense'"),
        (["-o", "x.svg", "--pair"], "no MTP head"),
        (["-o", "no/such/folder/x.dot"], "x.dot"),
        ([], "missing option '-o'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    cli: Any, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("render", fixtures / "falcon", *arguments)
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_views(cli: Any, fixtures: Path, tmp_path: Path) -> None:
    views = (["--layer", 3], ["--around", "lm_head", "--radius", 1], ["--part", "mtp"], ["--pair"], ["--full"])
    sizes = []
    for view in views:
        done = cli("render", fixtures / "qwen3_5_vl", "-o", tmp_path / "x.dot", *view)
        assert done.code == 0, done.err
        sizes.append((tmp_path / "x.dot").stat().st_size)
    assert len(set(sizes)) == len(views)
    ends = [
        "__module.model.model.language_model.layers.0/aten::add/Add",
        "__module.model.model.language_model.layers.0/aten::add/Add_1",
    ]
    done = cli("render", fixtures / "qwen3_5_vl", "-o", tmp_path / "x.dot", "--between", *ends)
    assert done.code == 0, done.err
    assert "MatMul" in (tmp_path / "x.dot").read_text()


def test_an_export_without_a_target_shows_its_decoder(
    cli: Any, export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    export = export_copy("falcon")
    for suffix in ("xml", "bin"):
        (export / f"openvino_model.{suffix}").rename(export / f"openvino_decoder_model.{suffix}")
        shutil.copy(export / f"openvino_tokenizer.{suffix}", export / f"openvino_encoder_model.{suffix}")
    done = cli("render", export, "-o", tmp_path / "x.dot")
    assert (done.code, done.err) == (0, "")
    assert "openvino_decoder_model.xml" in (tmp_path / "x.dot").read_text()
    done = cli("inspect", export)
    assert (done.code, done.err) == (0, "")
    assert "decoder*" in done.out
    assert "none: no openvino_model.xml or openvino_language_model.xml" in done.out


def test_a_missing_export_is_told_before_a_missing_engine(
    cli: Any, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("irtools.render.engine.find_spec", lambda _name: None)
    engine_command.cache_clear()
    assert "give an OpenVINO export" in cli("render", "-o", "x.svg").err
    assert "pip install '.[render]'" in cli("render", fixtures / "falcon", "-o", "x.svg").err
    engine_command.cache_clear()


def test_a_limit_that_the_overview_does_not_know_is_told(cli: Any, fixtures: Path, tmp_path: Path) -> None:
    done = cli("render", fixtures / "falcon", "-o", tmp_path / "x.dot", "--max-nodes", 2)
    assert done.code == 0
    assert "has no effect without --full" in done.err


def test_errors_name_the_export_once(cli: Any, fixtures: Path, tmp_path: Path) -> None:
    done = cli("render", fixtures / "falcon", "--pair", "-o", tmp_path / "x.dot")
    assert done.err.count(str(fixtures / "falcon")) == 1
