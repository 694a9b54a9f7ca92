"""The annotation rules on valid exports, and the output of their fixes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ir_edit import IR, edit

import irtools
from irtools.ir.rt_info import ANNOTATION_KEY, entries
from irtools.model.document import Document
from irtools.surgery.strip import strip
from tests.marks import mostly_slow

Copier = Callable[..., Path]


def findings(directory: Path, **options: Any) -> list[tuple[str, str]]:
    reported = irtools.open_export(directory).verify(select=["HID"], **options).findings
    return [(finding.code, finding.message) for finding in reported]


@pytest.mark.parametrize(
    "name", ["qwen3", "gemma4_vl", "qwen3_5_vl", "qwen3_5_moe_vl", "qwen3_5_vl_int4", "qwen3_5_vl_trained"]
)
def test_the_exporters_own_annotation_is_right(name: str, fixtures: Path) -> None:
    assert findings(fixtures / name, expect_mtp=True) == []


@pytest.mark.parametrize("name", mostly_slow(["llama", "falcon", "llava", "gpt2", "opt", "granite", "mixtral"]))
def test_what_annotate_writes_is_right(name: str, export_copy: Copier) -> None:
    directory = export_copy(name)
    export = irtools.open_export(directory)
    export.annotate()
    export.save()

    assert findings(directory, expect_mtp=True) == []


@pytest.mark.parametrize("name", ["llama", "falcon", "gpt2", "opt", "granite", "mixtral", "llava"])
def test_a_plain_export_gets_a_note(name: str, fixtures: Path) -> None:
    reported = irtools.open_export(fixtures / name).verify(select=["HID"]).findings

    assert [(finding.code, str(finding.severity)) for finding in reported] == [("HID001", "note")]


@pytest.mark.parametrize("name", ["falcon", "gemma4_vl", "gpt2", "llama", "llava", "mixtral", "opt", "qwen3"])
def test_every_locator_that_carries_the_hidden_state_is_accepted(
    name: str, export_copy: Copier, truth: Callable[[str], Any]
) -> None:
    """The ground truth lists all values that are equal at run time; those of rank 3 are valid taps."""
    layers = truth(name)["layers"]
    directory = export_copy(name)
    target = irtools.open_export(directory).target.path
    for choice in (0, -1):
        chosen = {k: {"producer": v[choice][0], "output_index": v[choice][1]} for k, v in layers.items()}
        edit(target, lambda ir, chosen=chosen: ir.set_rt(json.dumps({"layers": chosen}), ANNOTATION_KEY))

        assert findings(directory) == []


def test_a_value_behind_a_reshape_is_the_same(export_copy: Copier) -> None:
    directory = export_copy("qwen3")

    def reshape(ir: IR) -> None:
        source = ir.output(ir.layer("__module.model.layers.1/aten::add/Add_1"))
        readers = ir.consumers(source)
        shape = ir.add("ShapeOf", [source], name="its_shape", opset="opset3", outputs=[("i64", (3,))])
        shape.insert(0, shape.makeelement("data", {"output_type": "i64"}))
        view = ir.add(
            "Reshape",
            [source, ir.output(shape)],
            name="its_view",
            data={"special_zero": "false"},
            outputs=[("f32", (-1, -1, 32))],
        )
        ir.feed(readers, ir.output(view))
        value = json.loads(ir.rt_info.find(ANNOTATION_KEY).get("value"))
        value["layers"]["1"]["producer"] = "its_view"
        ir.set_rt(json.dumps(value), ANNOTATION_KEY)

    edit(directory / "openvino_model.xml", reshape)

    assert findings(directory) == []


@pytest.mark.parametrize("spelling", ["<info name={key} {rest}", "<anything name={key} {rest}"])
def test_other_spellings_of_the_key_count(spelling: str, export_copy: Copier) -> None:
    directory = export_copy("qwen3")
    path = directory / "openvino_model.xml"
    data = path.read_text()
    respelled = spelling.format(key=f'"{ANNOTATION_KEY}"', rest="value=")
    path.write_text(data.replace(f"<{ANNOTATION_KEY} value=", respelled))

    assert findings(directory) == []


def test_the_fix_for_a_missing_annotation_writes_what_the_exporter_wrote(export_copy: Copier) -> None:
    directory = export_copy("qwen3_5_vl")
    path = directory / "openvino_language_model.xml"
    exported = path.read_bytes()
    path.write_bytes(strip(Document(path)).data)

    reported = irtools.open_export(directory).verify(select=["HID"]).findings

    assert [finding.code for finding in reported] == ["HID001"]
    assert reported[0].fix is not None
    assert reported[0].fix.safe
    assert reported[0].fix.patch(Document(path)).data == exported


def test_the_fix_for_the_early_form_is_safe_and_upgrades_it(export_copy: Copier) -> None:
    directory = export_copy("qwen3")
    path = directory / "openvino_model.xml"
    exported = entries(Document(path).scan, ANNOTATION_KEY)[-1].value
    layers = {key: value["producer"] for key, value in json.loads(exported or "")["layers"].items()}
    edit(path, lambda ir: ir.set_rt(json.dumps({"version": 1, "layers": layers}), ANNOTATION_KEY))

    (finding,) = irtools.open_export(directory).verify(select=["HID"]).findings

    assert finding.code == "HID005"
    assert finding.fix is not None
    assert finding.fix.safe
    assert entries(Document(path, finding.fix.patch(Document(path)).data).scan, ANNOTATION_KEY)[-1].value == exported


def test_the_fix_for_a_wrong_tap_is_not_safe(export_copy: Copier) -> None:
    directory = export_copy("qwen3")
    path = directory / "openvino_model.xml"
    exported = entries(Document(path).scan, ANNOTATION_KEY)[-1].value
    edit(
        path,
        lambda ir: ir.set_rt(
            (exported or "").replace("layers.1/aten::add/Add_1", "layers.1/aten::add/Add"), ANNOTATION_KEY
        ),
    )

    (finding,) = irtools.open_export(directory).verify(select=["HID"]).findings

    assert finding.code == "HID018"
    assert finding.op == "__module.model.layers.1/aten::add/Add"
    assert finding.fix is not None
    assert not finding.fix.safe
    assert entries(Document(path, finding.fix.patch(Document(path)).data).scan, ANNOTATION_KEY)[-1].value == exported


def test_a_shift_names_the_layer_that_is_tapped(export_copy: Copier) -> None:
    directory = export_copy("qwen3")
    path = directory / "openvino_model.xml"
    exported = json.loads(entries(Document(path).scan, ANNOTATION_KEY)[-1].value or "")
    exported["layers"]["2"], exported["layers"]["1"] = exported["layers"]["1"], exported["layers"]["0"]
    exported["layers"]["0"] = {"producer": "__module.model.layers.0/aten::add/Add", "output_index": 0}
    edit(path, lambda ir: ir.set_rt(json.dumps(exported), ANNOTATION_KEY))

    reported = findings(directory)

    assert [code for code, _ in reported] == ["HID017", "HID017", "HID018"]
    assert "is the hidden state of layer 0" in reported[0][1]
    assert "is the hidden state of layer 1" in reported[1][1]
