"""A name that two ops share: every command gives it as the reason for a missing annotation, and one repairs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import irtools
from irtools.cli import cli

TAKEN, OTHER = "__module.model.layers.1/aten::add/Add_1", "__module.model.layers.0/aten::add/Add"


@pytest.fixture
def shared(export_copy: Callable[..., Path]) -> Path:
    path = export_copy("llama") / "openvino_model.xml"
    data = path.read_bytes()
    assert data.count(f'name="{OTHER}"'.encode()) == 1
    path.write_bytes(data.replace(f'name="{OTHER}"'.encode(), f'name="{TAKEN}"'.encode()))
    return path.parent


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_locate_shows_the_stack_and_marks_the_name(shared: Path, fixtures: Path) -> None:
    found = json.loads(run("locate", shared, "--format", "json").stdout)["models"][0]
    clean = irtools.open_export(fixtures / "llama").locate()

    assert [layer["producer"] for layer in found["layers"]] == [locator.producer for locator in clean.locators]
    assert [TAKEN in layer["obstacle"] for layer in found["layers"]] == [False, True, False, False]
    text = run("locate", shared)
    assert text.exit_code == 0
    assert text.stdout.count("no annotation") == 2  # at the top, and at the layer


def test_verify_gives_the_reason_and_the_remedy(shared: Path) -> None:
    out = run("verify", shared).stdout

    assert (
        "dflash: not available: 2 ops have the name of the producer of layer 1 (IR016); "
        "`irtools verify --unsafe-fixes` makes the names unique"
    ) in out
    assert "could not be located" not in out


def test_a_draft_whose_layers_the_runtime_guesses_needs_no_annotation(
    export_copy: Callable[..., Path], fixtures: Path
) -> None:
    """GenAI 2026.4.1 runs this pair: without annotation, it takes the first Add with the name."""
    path = export_copy("granite") / "openvino_model.xml"
    data, taken = path.read_bytes(), b'name="__module.model.layers.2/aten::add/Add_1"'
    other = b'name="__module.model.layers.2.self_attn/aten::scaled_dot_product_attention/ScaledDotProductAttention"'
    assert (data.count(taken), data.count(other)) == (1, 1)
    path.write_bytes(data.replace(other, taken))

    alone, drafted = run("verify", path.parent), run("verify", path.parent, "--draft", fixtures / "qwen3_dflash")

    assert "dflash: not available: 2 ops have the name of the producer of layer 2 (IR016)" in alone.stdout
    assert "dflash: available: with at most 3 assistant tokens" in drafted.stdout


@pytest.mark.parametrize("command", ["inspect", "annotate"])
def test_the_reason_is_the_same_everywhere(command: str, shared: Path) -> None:
    before = (shared / "openvino_model.xml").read_bytes()

    done = run(command, shared)

    assert (shared / "openvino_model.xml").read_bytes() == before
    assert f"{TAKEN!r}, but 2 ops have that name" in done.output
    assert "irtools verify --unsafe-fixes" in done.output


def test_the_repair_keeps_the_producer_and_annotates(shared: Path, fixtures: Path) -> None:
    before = (shared / "openvino_model.xml").read_bytes()

    assert run("verify", shared, "--fix").exit_code == 0
    assert (shared / "openvino_model.xml").read_bytes() == before
    assert run("verify", shared, "--unsafe-fixes").exit_code == 0

    export = irtools.open_export(shared)
    assert export.target.graph.op_name(211) == f"{TAKEN}_1"
    assert export.locate().annotation() == irtools.open_export(fixtures / "llama").locate().annotation()
    assert {strategy.name: strategy.available for strategy in export.verify().strategies}["dflash"]


def test_an_annotation_that_names_it_is_not_replaced_but_made_unique(export_copy: Callable[..., Path]) -> None:
    path = export_copy("qwen3") / "openvino_model.xml"
    original = path.read_bytes()
    producer = irtools.open_export(path.parent).locate().locators[1].producer
    first = b'name="%s"' % b"__module.model.layers.0/aten::add/Add"
    assert original.count(first) == 1
    path.write_bytes(original.replace(first, f'name="{producer}"'.encode()))

    verified = run("verify", path.parent, "--unsafe-fixes")

    assert verified.exit_code == 0, verified.output
    assert path.read_bytes() == original.replace(first, f'name="{producer}_1"'.encode())
