"""``irtools expose``: output, files and exit codes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import openvino as ov
import pytest

from irtools.report.json import schema
from tests.cli.conftest import Done

VALIDATOR = jsonschema.Draft202012Validator(schema())


def model(done: Done) -> dict[str, Any]:
    envelope = json.loads(done.out)
    VALIDATOR.validate(envelope)
    assert envelope["summary"]["exit_code"] == done.code
    (entry,) = envelope["models"]
    assert isinstance(entry, dict)
    return entry


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def outputs(directory: Path) -> list[set[str]]:
    return [port.get_names() for port in ov.Core().read_model(directory / "openvino_model.xml").outputs]


@pytest.fixture
def llama(export_copy: Callable[..., Path]) -> Path:
    return export_copy("llama")


def test_the_table_says_what_is_given_out(
    llama: Path, cli: Callable[..., Done], truth: Callable[[str], dict[str, Any]]
) -> None:
    before = content(llama)
    done = cli("expose", llama, "--layers", "3,1", "--concat", "taps", "--name", "h{layer}")
    assert (done.code, done.err) == (0, "")
    summary, titles, *rows, outcome = done.out.splitlines()
    assert summary == f"{llama / 'openvino_model.xml'}: 3 exposed outputs"
    assert titles.split() == ["output", "layers", "producer", "index", "shape"]
    places = {layer: names[0] for layer, names in truth("llama")["layers"].items()}
    assert [row.split() for row in rows] == [
        ["h3", "3", *map(str, places["3"]), "[?,?,32]"],
        ["h1", "1", *map(str, places["1"]), "[?,?,32]"],
        ["taps", "3", "1", "irtools.expose/3,1/taps/Concat", "0", "[?,?,64]"],
    ]
    assert outcome == f"wrote {llama / 'openvino_model.xml'}"
    assert outputs(llama) == [{"logits"}, {"h3"}, {"h1"}, {"taps"}]
    assert {name for name, data in content(llama).items() if data != before[name]} == {"openvino_model.xml"}

    again = cli("expose", llama, "--layers", "3,1", "--concat", "taps", "--name", "h{layer}", "--no-check")
    assert again.code == 0
    assert again.out.endswith("already has these outputs; nothing written\n")

    done = cli("expose", llama, "--remove", "--no-check")
    assert (done.code, done.err) == (0, "")
    assert "removed 3 outputs" in done.out
    assert content(llama) == before
    assert cli("expose", llama, "--remove", "--no-check").out == (
        f"{llama / 'openvino_model.xml'} has no such outputs; nothing written\n"
    )


def test_json_says_the_same(llama: Path, cli: Callable[..., Done]) -> None:
    entry = model(cli("expose", llama, "--layers", "last", "--format", "json", "--no-check"))
    (output,) = entry["outputs"]
    assert (entry["status"], entry["written"]) == ("written", [str(llama / "openvino_model.xml")])
    assert (output["name"], output["layers"], output["shape"]) == ("hidden_states.3", [3], [-1, -1, 32])
    entry = model(cli("expose", llama, "--layers", "last", "--format", "json", "--no-check"))
    assert (entry["status"], entry["written"]) == ("unchanged", [])
    entry = model(cli("expose", llama, "--remove", "--layers", "last", "--format", "json", "--no-check"))
    assert (entry["status"], [gone["name"] for gone in entry["removed"]]) == ("written", ["hidden_states.3"])
    entry = model(cli("expose", llama, "--layers", "7", "--format", "json", "--no-check"))
    assert (entry["status"], entry["error"]) == (
        "failed",
        f"{llama}: there is no layer 7; the decoder stack has layers 0 to 3",
    )


def test_a_concatenation_alone_gives_one_output(llama: Path, cli: Callable[..., Done]) -> None:
    assert cli("expose", llama, "--layers", "all", "--concat", "taps", "--no-check").code == 0
    assert outputs(llama) == [{"logits"}, {"taps"}]


@pytest.mark.parametrize(
    ("names", "there"),
    [("a{layer},b", ["a0", "b"]), ("{layer}{layer}", ["00", "11"]), (r"a\,{layer}", ["a,0", "a,1"])],
)
def test_names_are_a_list_or_one_for_all(names: str, there: list[str], llama: Path, cli: Callable[..., Done]) -> None:
    before = content(llama)
    assert cli("expose", llama, "--layers", "0,1", "--name", names, "--no-check").code == 0
    assert outputs(llama) == [{"logits"}, *({name} for name in there)]
    assert cli("expose", llama, "--layers", "0,1", "--name", names, "--remove", "--no-check").code == 0
    assert content(llama) == before


def test_taking_a_million_layers_away_takes_no_time(llama: Path, cli: Callable[..., Done]) -> None:
    assert cli("expose", llama, "--remove", "--layers", "0-999999", "--no-check").out.endswith(
        "has no such outputs; nothing written\n"
    )


def test_a_dry_run_and_a_diff_write_nothing(llama: Path, cli: Callable[..., Done]) -> None:
    before = content(llama)
    assert cli("expose", llama, "--layers", "0,2", "--dry-run").code == 1
    done = cli("expose", llama, "--layers", "0,2", "--concat", "taps", "--name", "h{layer}", "--diff")
    assert done.code == 1
    assert content(llama) == before
    assert len(re.findall(r"^@@ ", done.out, re.MULTILINE)) == 4, "two values, the new ops, the new edges"
    patched = llama.with_name("patched")
    shutil.copytree(llama, patched)
    subprocess.run(
        ["patch", "-s", patched / "openvino_model.xml"], input=done.out.encode(), check=True, capture_output=True
    )
    assert outputs(patched) == [{"logits"}, {"h0"}, {"h2"}, {"taps"}]
    cli("expose", llama, "--layers", "0,2", "--concat", "taps", "--name", "h{layer}", "--no-check")
    assert content(patched) == content(llama)


def test_a_complete_export_goes_elsewhere(llama: Path, cli: Callable[..., Done], tmp_path: Path) -> None:
    before = content(llama)
    assert cli("expose", llama, "--layers", "all", "--output-dir", tmp_path / "out", "--no-check").code == 0
    assert content(llama) == before
    assert content(tmp_path / "out").keys() == before.keys()
    assert outputs(tmp_path / "out") == [{"logits"}, *({f"hidden_states.{at}"} for at in range(4))]


def test_several_models_get_the_highest_code(
    llama: Path, export_copy: Callable[..., Path], cli: Callable[..., Done]
) -> None:
    bert = export_copy("bert")
    done = cli("expose", bert, llama, "--layers", "last", "-q", "--no-check")
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"irtools: error: {bert / 'openvino_model.xml'}: ")
    assert outputs(llama)[-1] == {"hidden_states.3"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--layers is missing: give numbers such as 1,8,15, or all, or last"),
        (("--layers", "4"), "there is no layer 4"),
        (("--layers", "1,1"), "layer 1 is given twice"),
        (("--layers", "x"), "'x' is not a list of layers"),
        (("--layers", "1", "--name", "logits"), "already named 'logits'"),
        (("--layers", "1", "--name", "last_hidden_state"), "only the last layer (3)"),
        (("--layers", "1,2", "--concat", " last_hidden_state"), "only the last layer (3)"),
        (("--remove", "--name", "logits"), "the output 'logits' was not added"),
        (("--layers", "1", "--part", "nothing"), "no part 'nothing'"),
        (("--layers", "1", "--part", "tokenizer"), "openvino_tokenizer.xml: "),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(
    arguments: tuple[str, ...], message: str, llama: Path, cli: Callable[..., Done]
) -> None:
    before = content(llama)
    done = cli("expose", llama, *arguments, "--no-check")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert message in done.err
    assert content(llama) == before


def test_a_wrong_annotation_is_mentioned_and_no_hindrance(
    export_copy: Callable[..., Path], cli: Callable[..., Done]
) -> None:
    directory = export_copy("qwen3")
    xml = directory / "openvino_model.xml"
    xml.write_bytes(xml.read_bytes().replace(b"layers.1/aten::add/Add_1&quot;", b"layers.1/aten::add/nowhere&quot;"))
    done = cli("expose", directory, "--layers", "1", "--no-check")
    assert done.code == 0
    assert re.fullmatch(
        r"irtools: note: the annotation of the file names .*nowhere' for layer 1; the located value .* is exposed\n",
        done.err,
    )


def test_weights_that_are_missing_are_only_needed_for_the_check(llama: Path, cli: Callable[..., Done]) -> None:
    (llama / "openvino_model.bin").unlink()
    before = content(llama)
    done = cli("expose", llama, "--layers", "1")
    assert done.code == 2
    assert "give --no-check" in done.err
    assert content(llama) == before
    assert cli("expose", llama, "--layers", "1", "--no-check").code == 0
    assert b'output_names="hidden_states.1"' in (llama / "openvino_model.xml").read_bytes()
