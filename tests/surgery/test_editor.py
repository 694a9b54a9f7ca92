"""Edit blocks of an export: joined changes, checks, and discarded edits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openvino as ov
import pytest

import irtools
from irtools.errors import AnnotationDiffersError, CheckError, EditError
from irtools.ir.markup import spliced
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.document import Document
from irtools.surgery.edits import (
    AddOp,
    OpOutput,
    RemoveOp,
    Rename,
    Rewire,
    SetRtInfo,
)
from tests.surgery.edited import GIVEN_OUT, HEAD, NEXT, RELU, STATE, edit, op_named


def test_changes_of_one_part_add_up(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    path = directory / "openvino_model.xml"
    before = path.read_bytes()
    export = irtools.open_export(directory)
    annotation = export.annotate().new
    with export.edit() as editor:
        editor.rename(STATE, "second")
        editor.expose([0])
    assert path.read_bytes() == before
    (pending,) = export.pending
    assert (pending.original, pending.old) == (before, None)
    assert pending.new == (annotation or "").replace(STATE, "second")
    export.save(check=False)
    model = ov.Core().read_model(path)
    assert json.loads(model.get_rt_info(ANNOTATION_KEY).value)["layers"]["1"]["producer"] == "second"
    assert [port.get_names() for port in model.outputs] == [{"logits"}, {"hidden_states.0"}]
    assert export.pending == ()
    with export.edit() as editor:
        editor.make(*pending.undo)
    export.save(check=False)
    assert path.read_bytes() == before


def test_another_annotation_is_replaced_only_with_force(falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    other = json.dumps({"layers": {"0": {"producer": NEXT, "output_index": 0}}})
    with export.edit() as editor:
        editor.make(SetRtInfo(ANNOTATION_KEY, other, force=True))
    with export.edit() as editor, pytest.raises(AnnotationDiffersError):
        editor.annotate()
    assert export.pending[0].new == other
    with export.edit() as editor:
        editor.annotate(force=True)
    assert STATE in (export.pending[0].new or "")


def test_a_block_sees_what_it_has_done_so_far(falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    with export.edit() as editor:
        editor.rename(STATE, "second")
        editor.annotate()
        editor.expose("last", names="end")
        editor.rename("irtools.expose/3/end", "other")
        editor.strip()
    (patch,) = export.pending
    document = Document(falcon.path, patch.data)
    assert document.annotation is None
    assert {"second", "other"} <= set(document.scan.names)


def test_an_exception_in_the_block_leaves_no_change(falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    with pytest.raises(UnicodeDecodeError):
        edit(export, Rename(STATE, "second"), after=lambda: b"\xff".decode())
    assert export.pending == ()


def test_what_a_later_change_takes_back_is_not_looked_for(export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy("falcon"))
    edit(export, RELU, GIVEN_OUT, AddOp("Result", "more", (OpOutput("extra"),), output_names=("more",)))
    edit(export, RemoveOp("more"))
    edit(export, Rename("extra", "other"))
    (saved,) = export.save()
    assert saved.notes == ()
    assert [port.get_names() for port in ov.Core().read_model(saved.path).outputs] == [{"logits"}, {"extra"}]


def test_what_adds_up_to_nothing_is_not_written(falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    export.annotate()
    export.strip()
    assert export.pending == ()
    assert export.save() == ()


def test_an_annotated_file_whose_graph_is_edited_is_rehearsed_as_it_will_be(export_copy: Callable[..., Path]) -> None:
    """The new names are looked up in the new graph, not in a graph that was converted ahead."""
    directory = export_copy("qwen3")
    export = irtools.open_export(directory)
    producer = export.locate().locators[0].producer
    with export.edit() as editor:
        editor.rename(producer, "first")
    (saved,) = export.save()
    assert saved.notes == ()
    with export.edit() as editor:
        editor.set_rt_info(ANNOTATION_KEY, (export.target.annotation or "").replace('"first"', '"nowhere"'))
    with pytest.raises(CheckError, match="no op has this name"):
        export.save()


def test_edits_that_would_be_lost_are_refused(falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    with export.edit() as editor:
        editor.rename(STATE, "second")
    (before,) = export.pending
    with pytest.raises(EditError, match="this edit block has ended"):
        editor.rename(HEAD, "head")
    with pytest.raises(EditError, match="this edit block has ended"), editor:
        pass
    for meanwhile in (export.annotate, lambda: edit(export, Rename(HEAD, "head"))):
        with pytest.raises(EditError, match="was changed while a block of edits was open"):
            edit(export, Rename(NEXT, "third"), after=meanwhile)
    (after,) = export.pending
    assert after.original == before.original
    assert spliced(after.original, after.splices) == after.data
    names = Document(falcon.path, after.data).scan.names
    assert {"second", "head"} <= set(names)
    assert NEXT in names
    assert after.new


def test_openvino_is_asked_for_the_names_that_undoing_gives_back(export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy("falcon"))
    with export.edit() as editor:
        editor.rename(STATE, "second")
    edit(export, AddOp("Result", "out", (OpOutput(NEXT),), output_names=("out",)))
    assert editor.patch is not None
    edit(export, *editor.patch.undo)
    (saved,) = export.save()
    assert saved.notes == ()


def test_a_patch_can_be_undone_as_it_is(falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    edit(export, Rename(STATE, "second"), SetRtInfo("note", "x"))
    (patch,) = export.pending
    with export.edit() as editor:
        editor.make(patch.undo)
    assert export.pending == ()


@pytest.mark.parametrize("nonsense", ["rename", None, 3, [None], ["rename"]])
def test_what_is_no_edit_is_refused(nonsense: Any, falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    with pytest.raises(EditError, match=r"is not an edit; use the classes of irtools\.edits, or patch\.undo"):
        edit(export, Rename(STATE, "second"), nonsense)
    assert export.pending == ()


def test_a_piece_has_what_is_pending(falcon: Document, tmp_path: Path) -> None:
    export = irtools.open_export(falcon.path.parent)
    edit(export, RELU, *(Rewire(key, index, OpOutput("extra")) for key, index in readers(falcon, STATE)))
    piece = export.extract(tmp_path / "one", layers="1", check=False)
    assert [(port.producer, port.name) for port in piece.outputs] == [("extra", "hidden_states.1")]
    assert op_named(ov.Core().read_model(piece.path), "extra").get_type_name() == "Relu"
    edit(export, Rename("extra", "other"))
    piece = export.extract(tmp_path / "two", from_="other", to="other", check=False)
    assert op_named(ov.Core().read_model(piece.path), "other").get_type_name() == "Relu"


def readers(document: Document, name: str) -> list[tuple[int, int]]:
    graph = document.graph
    (key,) = (key for key in graph.scan.ids if graph.op_name(key) == name)
    return [(reader.op, reader.input) for reader in graph.consumers(key)]


def test_what_is_pending_is_not_proved(falcon: Document) -> None:
    export = irtools.open_export(falcon.path.parent)
    edit(export, Rename(STATE, "second"))
    with pytest.raises(EditError, match="there are pending changes; save them first"):
        export.prove()


def test_an_added_constant_beyond_the_weights_is_the_fault_of_the_edit(export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy("falcon"))
    where = {"element_type": "f32", "shape": "4", "offset": "1000000000", "size": "16"}
    with export.edit() as editor:
        editor.add_op("Const", "beyond", (), [("f32", [4])], attributes=where)
        editor.add_op("Result", "out", ["beyond"], output_names=["out"])
    with pytest.raises(CheckError) as caught:
        export.save()
    assert "the edited constant 'beyond' reads the bytes 1000000000 to 1000000016 of the weights" in str(caught.value)


def test_the_document_has_the_edits_so_far(falcon: Document) -> None:
    with irtools.open_export(falcon.path.parent).edit() as editor:
        before = editor.document
        head = before.graph.by_type["MatMul"][0]
        assert before.data == falcon.data

        editor.rename(head, "another name")

        assert editor.document.graph.op_name(head) == "another name"
        assert before.graph.op_name(head) != "another name"
