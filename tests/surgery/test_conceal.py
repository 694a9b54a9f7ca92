"""Only exposed outputs are removed, which restores the original file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openvino as ov
import pytest

import irtools
from irtools.decoder.stack import DecoderStack
from irtools.errors import EditError
from irtools.model.document import Document
from irtools.surgery.edits import AddOp, OpOutput, SetTensorNames
from irtools.surgery.expose import concealing, exposing
from irtools.surgery.transaction import apply
from tests.surgery.exposed import outputs, read, steps


def test_parts_of_what_was_exposed_can_be_taken_away(fixtures: Path, template: DecoderStack) -> None:
    plain = Document(fixtures / "falcon" / "openvino_model.xml")
    full = steps(
        plain,
        {"layers": "all"},
        {"layers": [2, 0], "concat": "taps"},
        {"layers": "2", "names": "two"},
        template=template,
    )
    assert outputs(full) == [("logits",), *((f"hidden_states.{at}",) for at in range(4)), ("taps",), ("two",)]

    def left(**chosen: Any) -> list[str]:
        edits = concealing(full, **chosen).edits
        return [names[0] for names in outputs(Document(full.path, apply(full, edits).data))[1:]]

    every = ["hidden_states.0", "hidden_states.1", "hidden_states.2", "hidden_states.3", "taps", "two"]
    assert left(layers=[2]) == ["hidden_states.0", "hidden_states.1", "hidden_states.3", "taps"]
    assert left(layers="2", names="two") == every[:-1]
    assert left(names="hidden_states.{layer}") == ["taps", "two"]
    assert left(concat="taps") == [*every[:4], "two"]
    assert left(layers="last", count=4) == [*every[:3], "taps", "two"]
    assert left(layers="all") == ["taps"]
    assert left(layers="0,2", concat="taps") == [*every[:4], "two"]
    assert left(layers="0,2", concat="taps", names="hidden_states.{layer}") == [every[1], every[3], "two"]
    assert left(concat="nothing") == every
    assert left() == []
    assert apply(full, concealing(full).edits).data == plain.data


def test_an_output_of_the_model_itself_stays(fixtures: Path, template: DecoderStack) -> None:
    """The output reads the same value, and has a name that expose would give it."""
    export = irtools.open_export(fixtures / "falcon")
    with export.edit() as editor:
        editor.add_op("Result", "mine", [template.layers[1].locator.producer], output_names=["hidden_states.2"])
    plain = Document(export.target.path, export.pending[0].data)
    exposed = steps(plain, {"layers": "1,3"}, template=template)
    assert outputs(exposed) == [("logits",), ("hidden_states.2",), ("hidden_states.1",), ("hidden_states.3",)]
    for name in ("hidden_states.2", "logits"):
        with pytest.raises(EditError, match=f"the output '{name}' was not added by exposing a hidden state"):
            concealing(exposed, names=name)
    assert apply(exposed, concealing(exposed).edits).data == plain.data
    with pytest.raises(EditError, match=r"an input or output of the model is already named 'hidden_states\.2'"):
        exposing(plain, template, "2")


def test_what_was_exposed_is_known_after_openvino_has_saved_it(
    fixtures: Path, template: DecoderStack, tmp_path: Path
) -> None:
    plain = Document(fixtures / "falcon" / "openvino_model.xml")
    exposed = steps(plain, {"layers": "1,3", "names": "h{layer}", "concat": "taps"}, template=template)
    ov.save_model(read(plain, exposed.data, tmp_path), tmp_path / "saved.xml", compress_to_fp16=False)
    saved = Document(tmp_path / "saved.xml")
    assert outputs(saved) == [("logits",), ("h1",), ("h3",), ("taps",)]
    bare = Document(saved.path, apply(saved, concealing(saved).edits).data)
    assert outputs(bare) == [("logits",)]
    assert "Concat" not in {
        kind for kind, name in zip(bare.scan.types, bare.scan.names, strict=True) if "irtools" in name
    }


def test_ops_that_got_other_names_are_still_taken_away(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "falcon")
    before = export.target.data
    with export.edit() as editor:
        single, taps = editor.expose("1,last", names="h{layer}", concat="taps").outputs[1:]
        editor.rename(single.locator.producer, "norm")
        editor.rename(taps.locator.producer, "joined")
    with export.edit() as editor:
        editor.conceal()
        editor.rename("norm", single.locator.producer)
    assert editor.patch is not None
    assert editor.patch.data == before


def test_an_output_that_is_there_keeps_its_names(fixtures: Path, template: DecoderStack, tmp_path: Path) -> None:
    """An output without names of its own has the names of the value that it reads."""
    plain = Document(fixtures / "falcon" / "openvino_model.xml")
    value = OpOutput(template.layers[3].source.op)
    edits = [SetTensorNames(value, ("mine",)), AddOp("Result", "out", (value,))]
    document = Document(plain.path, apply(plain, edits).data)
    exposed = steps(document, {"layers": "2,last"}, template=template)
    names = [port.get_names() for port in read(document, exposed.data, tmp_path).outputs]
    assert names == [{"logits"}, {"mine"}, {"hidden_states.2"}, {"hidden_states.3"}]
    assert apply(exposed, concealing(exposed).edits).data == document.data


def test_a_tensor_name_that_was_there_before_stays(fixtures: Path, template: DecoderStack, tmp_path: Path) -> None:
    """Exporters name tensors ``hidden_states`` and ``hidden_states.1``; here the last hidden state has such a name."""
    document = Document(fixtures / "falcon" / "openvino_model.xml")
    names = document.graph.port(template.layers[3].source).names
    assert "hidden_states" in names
    exposed = steps(document, {"layers": "3", "names": "hidden_states"}, {"layers": "3"}, template=template)
    model = read(document, exposed.data, tmp_path)
    assert [port.get_names() for port in model.outputs[1:]] == [{"hidden_states"}, {"hidden_states.3"}]
    for chosen in ({"names": "hidden_states"}, {}):
        exposed = Document(document.path, apply(exposed, concealing(exposed, **chosen).edits).data)
        assert "hidden_states" in exposed.graph.port(template.layers[3].source).names
    assert exposed.data == document.data
