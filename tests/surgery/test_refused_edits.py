"""Refused edits, and edits that only get a note."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.errors import CheckError, EditError
from irtools.model.document import Document
from irtools.surgery.edits import (
    AddOp,
    Edit,
    NewPort,
    OpOutput,
    RemoveOp,
    Rename,
    Rewire,
    SetAttribute,
    SetRtInfo,
    SetTensorNames,
)
from irtools.surgery.transaction import apply
from tests.surgery.edited import GIVEN_OUT, HEAD, NEXT, OTHER, RELU, STATE, after, edit

REFUSED: dict[str, tuple[tuple[Edit, ...], str]] = {
    "no such op": ((RemoveOp("nowhere"),), "there is no op named 'nowhere'; give a friendly name or a layer id"),
    "no such id": ((Rename(99999, "x"),), "there is no op with the layer id 99999"),
    "no such output": (
        (Rewire(HEAD, 0, OpOutput(STATE, 1)),),
        f"'{STATE}' has no output 1; the number of its outputs is 1",
    ),
    "negative output": ((Rewire(HEAD, 0, OpOutput(STATE, -1)),), "has no output -1"),
    "no such input": ((Rewire(HEAD, 2, OpOutput(STATE)),), f"'{HEAD}' has no input 2; the number of its inputs is 2"),
    "name taken": ((Rename(STATE, NEXT),), f"2 ops would be named '{NEXT}'"),
    "added under a name that is taken": ((AddOp("Result", STATE, (OpOutput(STATE),)),), "an op is already named"),
    "no name": ((Rename(STATE, ""),), "the friendly name of an op cannot be empty"),
    "no XML in rt_info": ((SetRtInfo("a", "\0"),), "which XML does not allow"),
    "no XML": ((Rename(STATE, "a\0b"),), "which XML does not allow"),
    "reader of what is removed": ((RemoveOp(STATE),), f"'{STATE}' is removed, but input port"),
    "cycle": ((Rewire(STATE, 0, OpOutput(NEXT)),), "in a cycle: it depends on its own output"),
    "own output": ((Rewire(STATE, 0, OpOutput(STATE)),), "in a cycle"),
    "half a state": (
        (RemoveOp("Assign_445104"),),
        "the state 'past_key_values.3.valuepresent.3.value' has the ReadValue",
    ),
    "other state": (
        (SetAttribute("Assign_445104", "variable_id", "x"),),
        "'ReadValue_445103' and no Assign; edit both together",
    ),
    "output name taken": (
        (AddOp("Result", "out", (OpOutput(STATE),), output_names=("logits",)),),
        "2 model outputs would be named 'logits'",
    ),
    "reads what was removed again": (
        (RELU, GIVEN_OUT, RemoveOp("extra")),
        "'extra' is removed, but input port 0 of 'out'",
    ),
    "reads what was removed before": (
        (RELU, Rewire(HEAD, 0, OpOutput("extra")), SetRtInfo("a", "1"), RemoveOp("extra"), SetRtInfo("a", "2"), OTHER),
        "layer 569, which does not exist after the edits",
    ),
    "one state twice": (
        (SetAttribute("Assign_445104", "variable_id", "past_key_values.0.keypresent.0.key"),),
        "the state 'past_key_values.0.keypresent.0.key' would have 2 Assign ops",
    ),
    "no name of an attribute": ((SetAttribute(HEAD, "a b", "1"),), "'a b' is not a valid attribute name"),
    "no name of a new attribute": (
        (AddOp("Relu", "extra", (OpOutput(STATE),), RELU.outputs, {'a"': "1"}),),
        "is not a valid attribute name",
    ),
    "tensor name that would join the next": (
        (SetTensorNames(OpOutput(STATE), ("a\\", "b")),),
        "has a backslash before a comma or at its end",
    ),
    "tensor name of a new op": (
        (AddOp("Relu", "extra", (OpOutput(STATE),), (NewPort("f32", (-1, -1, 32), ("a\0",)),)),),
        "which XML does not allow",
    ),
    "empty name of an output": (
        (AddOp("Result", "out", (OpOutput(STATE),), output_names=("",)),),
        "a tensor name cannot be empty",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_inconsistent_is_refused_in_one_sentence(name: str, export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    export = irtools.open_export(directory)
    edits, expected = REFUSED[name]
    with pytest.raises(EditError) as caught:
        edit(export, SetRtInfo("note", "x"), *edits)
    message = str(caught.value)
    assert expected in message
    assert message.startswith(str(directory / "openvino_model.xml"))
    assert "\n" not in message
    assert caught.value.exit_code == 2
    assert export.pending == ()
    assert export.save() == ()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_name_that_several_ops_have_is_refused(falcon: Document) -> None:
    doubled = Document(falcon.path, falcon.data.replace(f'name="{NEXT}"'.encode(), f'name="{STATE}"'.encode()))
    first, second = (key for key, name in zip(doubled.scan.ids, doubled.scan.names, strict=True) if name == STATE)
    with pytest.raises(EditError, match=rf"2 ops are named .* \(layer ids {first}, {second}\); give the layer id"):
        apply(doubled, [Rename(STATE, "x")])
    assert len(set(after(doubled, [Rename(second, NEXT)]).scan.names)) == len(doubled.scan.names)


def test_an_op_in_a_body_is_out_of_reach(fixtures: Path) -> None:
    document = irtools.open_export(fixtures / "qwen3_5_vl").target
    inner = re.search(rb"<body>.*?<layer [^>]*name=\"([^\"]+)\" type=\"Parameter\"", document.data, re.DOTALL)
    assert inner is not None
    with pytest.raises(EditError, match="is inside the body of a Loop or If; only ops at the top level can be edited"):
        apply(document, [Rename(inner[1].decode(), "x")])


def test_faults_that_were_there_before_do_not_stand_in_the_way(falcon: Document) -> None:
    twins = falcon.data.replace(f'name="{NEXT}"'.encode(), f'name="{STATE}"'.encode())
    cut = re.sub(rb'<edge [^>]*to-layer="568" to-port="0" />', b"", twins)
    faulty = Document(falcon.path, cut)
    assert apply(faulty, [Rename(HEAD, "head"), SetRtInfo("note", "x")]).changed
    with pytest.raises(EditError, match="3 ops would be named"):
        apply(faulty, [Rename(HEAD, STATE)])


def test_what_openvino_cannot_infer_is_not_written(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    before = (directory / "openvino_model.xml").read_bytes()
    export = irtools.open_export(directory)
    with export.edit() as editor:
        editor.rewire(HEAD, 0, "attention_mask")
    with pytest.raises(CheckError) as caught:
        export.save()
    assert "OpenVINO cannot read it" in str(caught.value)
    assert HEAD in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (directory / "openvino_model.xml").read_bytes() == before


def test_a_shape_that_openvino_infers_otherwise_is_a_note(export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy("falcon"))
    with export.edit() as editor:
        editor.add_op("Relu", "extra", [STATE], [("f32", [-1, -1, 99])])
        editor.add_op("Result", "out", ["extra"], output_names=["extra"])
        editor.add_op("Relu", "loose", ["extra"], [("f32", [-1, -1, 32])])
    (saved,) = export.save()
    assert saved.notes == (
        "OpenVINO reads output 0 of 'extra' as f32 [?,?,32], but the file says f32 [?,?,99]",
        "no output of the model depends on 'loose', so OpenVINO leaves it out",
    )


def test_what_was_changed_since_is_not_undone(falcon: Document) -> None:
    patch = apply(falcon, [Rename(STATE, "x")])
    renamed = Document(falcon.path, patch.data)
    with pytest.raises(EditError, match="a later edit changed the bytes to undo"):
        apply(after(renamed, [Rename("x", "yy")]), patch.undo)
    others = [SetRtInfo("note", "x"), Rename("attention_mask", "mask"), AddOp("Result", "out", (OpOutput(NEXT),))]
    elsewhere, expected = after(renamed, others), after(falcon, others)
    assert apply(elsewhere, patch.undo).data == expected.data, "other changes do not hinder"


FAULTS: dict[str, tuple[bytes, bytes]] = {
    "edge from nowhere, second into one port": (
        b"</edges>",
        b'<edge from-layer="99999" from-port="0" to-layer="559" to-port="0" /></edges>',
    ),
    "edge from a port that is not there": (b'from-port="2" to-layer="559"', b'from-port="9" to-layer="559"'),
    "nothing connected": (b'to-layer="559" to-port="0"', b'to-layer="559" to-port="1"'),
    "half a state": (b'3.valuepresent.3.value" />', b'3.valuepresent.3.other" />'),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_op_that_was_faulty_before_can_be_renamed(fault: str, falcon: Document) -> None:
    old, new = FAULTS[fault]
    assert old in falcon.data
    faulty = Document(falcon.path, falcon.data[::-1].replace(old[::-1], new[::-1], 1)[::-1])
    patch = apply(faulty, [Rename(HEAD, "head"), Rename("Assign_445104", "assign"), RELU, RemoveOp("extra")])
    assert {"head", "assign"} <= set(Document(falcon.path, patch.data).scan.names)
    with pytest.raises(EditError):
        apply(faulty, [Rewire(NEXT, 0, OpOutput(NEXT))])
