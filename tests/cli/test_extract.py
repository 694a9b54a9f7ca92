"""``irtools extract`` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import openvino as ov
import pytest

from irtools.report.json import schema
from tests.cli.conftest import Done


@pytest.fixture
def run(cli: Callable[..., Done], fixtures: Path, tmp_path: Path) -> Callable[..., Done]:
    return lambda name, *options: cli("extract", fixtures / name, "-o", tmp_path / "out", *options)


def test_a_layer(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("llama", "--layers", "1")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].endswith("36.3 KiB of weights")
    assert lines[2].split()[:3] == ["hidden_states.0", "f32", "[?,?,32]"]
    assert "  2 states: past_key_values.1.keypresent.1.key, past_key_values.1.valuepresent.1.value" in lines
    assert lines[-1] == f"wrote {tmp_path}/out/openvino_model.xml and {tmp_path}/out/openvino_model.bin"
    model = ov.Core().read_model(tmp_path / "out" / "openvino_model.xml")
    assert [port.get_any_name() for port in model.outputs] == ["hidden_states.1"]


def test_json_says_the_same_as_openvino(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("gemma4_vl", "--layers", "last", "--stateless", "--format", "json", "--no-check")
    envelope: dict[str, Any] = json.loads(done.out)
    jsonschema.validate(envelope, schema())
    entry = envelope["models"][0]
    model = ov.Core().read_model(entry["written"][0])
    for ports, descriptions in ((model.inputs, entry["inputs"]), (model.outputs, entry["outputs"])):
        assert [port.get_any_name() for port in ports] == [port["name"] for port in descriptions]
        for port, description in zip(ports, descriptions, strict=True):
            shape = [dim.get_length() if dim.is_static else -1 for dim in port.get_partial_shape()]
            assert shape == description["shape"]
            assert port.get_element_type().get_type_name() == description["element_type"]
    assert entry["status"] == "written"
    assert [Path(path).stat().st_size for path in entry["written"]] == [entry["xml_bytes"], entry["weight_bytes"]]
    assert entry["states"] == []


def test_a_dry_run_writes_nothing(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("falcon", "--from", "input_ids", "--to", "__module.transformer.h.0/aten::add/Add", "--dry-run")
    assert done.code == 1
    assert done.out.splitlines()[-1] == f"would write {tmp_path}/out"
    assert not (tmp_path / "out").exists()


def test_the_piece_can_be_inspected_and_verified(
    run: Callable[..., Done], cli: Callable[..., Done], tmp_path: Path
) -> None:
    run("qwen3", "--layers", "0-1", "-q", "--no-check")
    assert cli("inspect", tmp_path / "out").code == 0
    assert cli("verify", tmp_path / "out").code in (0, 1)
    ends = ("--from", "hidden_states.embeddings", "--to", "hidden_states.1")
    done = cli("extract", tmp_path / "out", *ends, "-o", tmp_path / "again", "--no-check")
    assert done.code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "irtools: error: nothing is selected; give --layers such as 3-5, --stages, or --from OP and --to OP\n"),
        (
            ("--layers", "1", "--from", "x"),
            "irtools: error: --layers and --from cannot be used together; give one of them\n",
        ),
        (("--to", "x"), "irtools: error: --to needs --from too; give the first op of the piece\n"),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], message: str, run: Callable[..., Done]) -> None:
    done = run("falcon", *options)
    assert (done.code, done.out, done.err) == (2, "", message)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("falcon", "is the export itself; give an empty or new directory"),
        ("falcon/sub", "lies inside the export; give an --output-dir outside of {}/falcon"),
        ("link/sub", "is a link to nothing; remove it, or give another directory"),
    ],
)
def test_an_output_directory_that_makes_no_sense(
    where: str, message: str, cli: Callable[..., Done], export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    done = cli("extract", export_copy("falcon"), "--layers", "1", "-o", tmp_path / where)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f": {message.format(tmp_path)}\n")


def test_a_refusal_says_what_to_do(run: Callable[..., Done], fixtures: Path, tmp_path: Path) -> None:
    done = run("bert", "--layers", "1")
    assert done.code == 2
    assert done.err.startswith(f"irtools: error: {fixtures}/bert/openvino_model.xml: no output is named 'logits'")
    assert done.err.endswith(". --from OP and --to OP work without a decoder stack.\n")
    assert not (tmp_path / "out").exists()
