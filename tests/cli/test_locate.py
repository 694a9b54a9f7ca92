"""``irtools locate``."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from irtools.report.json import schema
from tests.cli.conftest import Done
from tests.marks import mostly_slow

VALIDATOR = jsonschema.Draft202012Validator(schema())


def read(done: Done) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.out)
    VALIDATOR.validate(document)
    assert document["command"] == "locate"
    assert document["summary"]["exit_code"] == done.code
    return document


@pytest.mark.parametrize("name", ["falcon", "gemma4_vl", "qwen3_5_moe_vl", "opt"])
def test_json_tells_the_hidden_states(
    name: str, fixtures: Path, cli: Callable[..., Done], truth: Callable[[str], dict[str, Any]]
) -> None:
    done = cli("locate", fixtures / name, "--format", "json")
    (model,) = read(done)["models"]
    wanted = truth(name)["layers"]
    assert [layer["layer"] for layer in model["layers"]] == [int(index) for index in wanted]
    for layer in model["layers"]:
        assert [layer["producer"], layer["output_index"]] in wanted[str(layer["layer"])]
        assert layer["shape"] == [-1, -1, model["hidden_size"]]
    config = json.loads((fixtures / name / "config.json").read_text())
    assert model["hidden_size"] == config.get("text_config", config)["hidden_size"]


def test_text_says_everything_about_a_layer(fixtures: Path, cli: Callable[..., Done]) -> None:
    done = cli("locate", fixtures / "qwen3_5_moe_vl")
    assert done.code == 0
    general, *layers = done.out.split("\nlayer ")
    for label in ("scope", "layers", "hidden size", "embedding", "head", "logits tail"):
        assert f"\n  {label} " in general
    assert [layer.split("\n")[0] for layer in layers] == ["0", "1", "2", "3"]
    config = json.loads((fixtures / "qwen3_5_moe_vl" / "config.json").read_text())
    for layer, kind in zip(layers, config["text_config"]["layer_types"], strict=True):
        assert f"mixer         {kind.replace('_', ' ')}\n" in layer
        assert "feed-forward  experts\n" in layer
        assert layer.count("\n  residual sum ") == 2
        assert "\n  state " in layer
        for witness in ("walk", "dominators", "names", "state", "config"):
            assert f"\n  {witness} " in layer


def test_explain_lists_what_was_not_taken(fixtures: Path, cli: Callable[..., Done]) -> None:
    (model,) = read(cli("locate", fixtures / "llama", "--explain", "--format", "json"))["models"]
    rejected = {entry["producer"] for entry in model["rejections"]}
    assert "__module.model.layers.0/aten::add/Add" in rejected
    text = cli("locate", fixtures / "llama", "--explain").out
    assert all(entry["reason"] in text for entry in model["rejections"])
    assert "rejections" not in read(cli("locate", fixtures / "llama", "--format", "json"))["models"][0]


def test_the_working_directory_is_the_default(fixtures: Path, process: Callable[..., Done]) -> None:
    here = process("locate", cwd=fixtures / "llama")
    assert here.code == 0
    assert here.out.startswith("openvino_model.xml\n")


def test_the_path_of_an_xml_is_taken(fixtures: Path, cli: Callable[..., Done]) -> None:
    by_file = cli("locate", fixtures / "llava" / "openvino_language_model.xml")
    assert by_file.code == 0
    assert by_file.out == cli("locate", fixtures / "llava").out
    assert by_file.out == cli("locate", fixtures / "llava", "--part", "language").out


def test_one_refusal_does_not_stop_the_others(fixtures: Path, cli: Callable[..., Done]) -> None:
    models = [fixtures / "bert", fixtures / "nowhere", fixtures / "llama"]
    done = cli("locate", *models)
    assert done.code == 2
    assert done.out.startswith(f"{fixtures / 'llama'}")
    errors = [line for line in done.err.splitlines() if line.startswith("irtools: ")]
    assert len(errors) == 2
    assert errors[0].startswith(f"irtools: error: {fixtures / 'bert'}")
    assert errors[1] == f"irtools: error: {fixtures / 'nowhere'}: no such file or directory"
    document = read(cli("locate", *models, "--format", "json"))
    assert [model["status"] for model in document["models"]] == ["refused", "failed", "ok"]
    assert document["summary"]["statuses"] == {"refused": 1, "failed": 1, "ok": 1}


def test_an_unknown_part_is_refused_with_those_there_are(fixtures: Path, cli: Callable[..., Done]) -> None:
    done = cli("locate", fixtures / "qwen3_5_vl", "--part", "vision")
    assert done.code == 2
    assert "no part 'vision'" in done.err
    assert "mtp" in done.err


def test_quiet_prints_errors_only(fixtures: Path, cli: Callable[..., Done]) -> None:
    done = cli("locate", "-q", fixtures / "llama", fixtures / "bert")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    mostly_slow(["new\nline", "ünïcödé 模型", "with space", "-dash", "quote'\"", b"bytes-\xff\xfe"], fast=2),
    ids=["newline", "unicode", "space", "dash", "quotes", "bytes"],
)
@pytest.mark.parametrize("encoding", mostly_slow(["ascii", "utf-8", "latin-1"], fast=1))
def test_strange_paths(
    name: str | bytes, encoding: str, tmp_path: Path, fixtures: Path, process: Callable[..., Done]
) -> None:
    path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))  # noqa: PTH118
    shutil.copytree(os.fsencode(fixtures / "llama"), path)
    arguments = ("locate", "--", os.fsencode(name))
    done = process(*arguments, cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert (done.code, done.err) == (0, "")
    done = process("locate", "--format", "json", "--", os.fsencode(name), cwd=tmp_path, PYTHONIOENCODING=encoding)
    (model,) = read(done)["models"]
    assert os.fsencode(model["path"]) == os.fsencode(name)
    missing = process("locate", "--", os.fsencode(name) + b"-missing", cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert missing.code == 2
    assert missing.err.startswith("irtools: error: ")
    assert missing.err.endswith("-missing: no such file or directory\n")
    assert missing.err.count("\n") == 1


def test_a_name_that_the_terminal_cannot_print(tmp_path: Path, fixtures: Path, process: Callable[..., Done]) -> None:
    shutil.copytree(fixtures / "llama", tmp_path / "llama")
    xml = tmp_path / "llama" / "openvino_model.xml"
    text = xml.read_text()
    xml.write_text(text.replace("__module.model.layers.0/aten::add/Add_1", "层零/和"), "utf-8")
    done = process("locate", tmp_path / "llama", PYTHONIOENCODING="ascii")
    assert done.code == 0
    assert r"\u5c42\u96f6/\u548c" in done.out
    assert "层零/和" in process("locate", tmp_path / "llama", PYTHONIOENCODING="utf-8").out
