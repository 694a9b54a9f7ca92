"""The editing core: the changes of an edit, and their inverse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import openvino as ov
import pytest

import irtools
from irtools.errors import EditError
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.document import Document
from irtools.surgery.annotate import annotate
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
from irtools.surgery.rename import unique_names
from irtools.surgery.strip import strip
from irtools.surgery.transaction import apply
from tests.surgery.edited import GIVEN_OUT, HEAD, RELU, SPELLINGS, STATE, after, op_named

EDITS: dict[str, tuple[Edit, ...]] = {
    "add": (RELU, GIVEN_OUT),
    "insert": (RELU, Rewire(HEAD, 0, OpOutput("extra"))),
    "remove": (Rewire(HEAD, 0, OpOutput(STATE)), RemoveOp("__module.transformer.ln_f/aten::layer_norm/MVN")),
    "rename": (Rename(STATE, 'a "b" & <c> \u00fc'),),
    "attribute": (SetAttribute(HEAD, "note", "x"), SetAttribute(HEAD, "transpose_a", None)),
    "first attribute": (SetAttribute("Result_431423", "note", "x"),),
    "tensor names": (SetTensorNames(OpOutput(STATE), ("385", "a,b", "\u00fc")), SetTensorNames(OpOutput(HEAD), ())),
    "names of the output": (SetTensorNames(OpOutput("Result_431423"), ("scores", "a,b")),),
    "rt_info": (SetRtInfo("note", "x"), SetRtInfo("optimum", None), SetRtInfo(ANNOTATION_KEY, '{"layers":{}}')),
    "several": (
        RELU,
        Rename("extra", "more"),
        SetRtInfo("note", "x"),
        Rewire(HEAD, 0, OpOutput("more")),
        Rename(HEAD, "head"),
    ),
}
EDITS["all of these"] = (*EDITS["remove"], *EDITS["tensor names"], *EDITS["several"])


CASES = [
    *((name, "as exported") for name in EDITS),
    *(("all of these", spelling) for spelling in list(SPELLINGS)[1:]),
]


@pytest.mark.parametrize(("name", "spelling"), CASES)
def test_openvino_reads_the_result_and_undoing_gives_every_byte_back(
    name: str, spelling: str, falcon: Document, read: Callable[[bytes], ov.Model]
) -> None:
    original = Document(falcon.path, SPELLINGS[spelling](falcon.data))
    patch = apply(original, EDITS[name])
    assert patch.changed
    assert len(read(patch.data).inputs) == 4
    undone = apply(Document(falcon.path, patch.data), patch.undo)
    assert undone.data == original.data
    again = apply(original, undone.undo)
    assert again.data == patch.data, "undoing can be undone"
    if spelling == "CRLF":
        assert b"\n" not in patch.data.replace(b"\r\n", b"")
    if spelling == "ASCII":
        assert patch.data.isascii()


def test_what_openvino_reads_is_what_was_asked_for(falcon: Document, read: Callable[[bytes], ov.Model]) -> None:
    old = read(falcon.data)
    model = read(after(falcon, [*EDITS["insert"], GIVEN_OUT, *EDITS["tensor names"], SetRtInfo("note", "x")]).data)
    head = op_named(model, HEAD)
    assert head.input_value(0).get_node().get_friendly_name() == "extra"
    assert op_named(model, "extra").get_type_name() == "Relu"
    assert [port.get_names() for port in model.outputs] == [{"logits"}, {"extra"}]
    assert op_named(model, STATE).output(0).get_names() == {"385", "a,b", "\u00fc"}
    assert model.get_rt_info("note").value == "x"
    names = {op.get_friendly_name() for op in model.get_ops()}
    assert names - {op.get_friendly_name() for op in old.get_ops()} == {"extra", "out"}


def test_what_is_not_edited_keeps_its_bytes(falcon: Document) -> None:
    patch = apply(falcon, [RELU, Rewire(HEAD, 0, OpOutput("extra"))])
    kept = falcon.data
    for start, end, _ in reversed(patch.splices):
        kept = kept[:start] + kept[end:]
    assert len(falcon.data) - len(kept) < 20, "nothing but where one edge starts was replaced"
    assert len(patch.splices) == 3


def test_there_and_back_is_the_same_file(falcon: Document) -> None:
    (source,) = (falcon.graph.inputs(key)[0] for key in falcon.scan.ids if falcon.graph.op_name(key) == HEAD)
    assert after(falcon, [Rewire(HEAD, 0, OpOutput(STATE)), Rewire(HEAD, 0, OpOutput(source.op))]).data == falcon.data
    there = after(falcon, [Rewire(HEAD, 0, OpOutput(STATE)), Rename(STATE, "x"), SetAttribute(HEAD, "y", "1")])
    back = [Rewire(HEAD, 0, OpOutput(source.op)), Rename("x", STATE), SetAttribute(HEAD, "y", None)]
    assert after(there, back).data == falcon.data
    added = after(falcon, [RELU, GIVEN_OUT])
    assert after(added, [RemoveOp("out"), RemoveOp("extra")]).data == falcon.data
    assert after(falcon, [RELU, RemoveOp("extra")]).data == falcon.data


def test_a_rewired_input_takes_the_shape_of_what_it_reads(falcon: Document) -> None:
    narrow = AddOp(
        "Convert", "narrow", (OpOutput(STATE),), (NewPort("f16", (-1, -1, 32)),), {"destination_type": "f16"}
    )
    wide = AddOp("Convert", "wide", (OpOutput("narrow"),), (NewPort("f32", (-1, -1, 32)),), {"destination_type": "f32"})
    edited = after(falcon, [narrow, wide, Rewire("wide", 0, OpOutput(STATE)), RemoveOp("narrow")])
    (port,) = edited.graph.op(edited.scan.ids[-1]).inputs
    assert (port.element_type, port.shape) == ("f32", (-1, -1, 32))


def test_an_op_that_is_removed_takes_its_line_and_its_edges_along(
    falcon: Document, read: Callable[[bytes], ov.Model]
) -> None:
    """The readers of a Convert read its input instead."""
    key = next(key for key in falcon.graph.by_type["Convert"] if not falcon.graph.constant(key))
    source = falcon.graph.inputs(key)[0]
    readers = falcon.graph.consumers(key)
    edits: list[Edit] = [Rewire(reader.op, reader.input, OpOutput(source.op)) for reader in readers]
    patch = apply(falcon, [*edits, RemoveOp(key)])
    assert key not in Document(falcon.path, patch.data).scan.ids
    assert f'to-layer="{key}"'.encode() not in patch.data
    assert not re.search(rb"\n[ \t]*\n", patch.data)
    assert apply(Document(falcon.path, patch.data), patch.undo).data == falcon.data


# -- the annotation ------------------------------------------------------------------------


def test_the_annotation_follows_a_renamed_op(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "qwen3")
    document = export.target
    producer = export.locate().locators[1].producer
    patch = apply(document, [Rename(producer, 'new "name"')])
    assert json.loads(patch.new or "")["layers"]["1"] == {"producer": 'new "name"', "output_index": 0}
    edited = Document(document.path, patch.data)
    assert edited.annotation == patch.new
    assert apply(edited, [Rename('new "name"', producer)]).data == document.data
    assert apply(edited, patch.undo).data == document.data


def test_names_that_change_places_are_followed(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "qwen3")
    one, other = (export.locate().locators[at].producer for at in (0, 1))
    key = next(key for key, name in zip(export.target.scan.ids, export.target.scan.names, strict=True) if name == other)
    patch = apply(export.target, [Rename(one, "t"), Rename(key, one), Rename("t", other)])
    layers = json.loads(patch.new or "")["layers"]
    assert [layers[at]["producer"] for at in ("0", "1")] == [other, one]


def test_what_the_annotation_names_is_not_removed(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "qwen3")
    first = export.locate().layers[0]
    with pytest.raises(
        EditError, match="the hidden state of layer 0, so the op cannot be removed; strip the annotation"
    ):
        apply(export.target, [RemoveOp(first.locator.producer)])


def test_unique_names_keep_the_annotation_right(fixtures: Path) -> None:
    """Another op has the name that is in the annotation."""
    export = irtools.open_export(fixtures / "qwen3")
    producer = export.locate().locators[0].producer.encode()
    other = export.locate().locators[1].producer.encode()
    doubled = export.target.data.replace(b'name="' + other, b'name="' + producer)
    patch = unique_names(Document(export.target.path, doubled))
    assert b'name="' + producer + b'_1"' in patch.data
    assert patch.new == patch.old


@pytest.mark.parametrize("shape", [(), (-1, -1, 32)])
def test_the_ports_of_a_new_op_are_spelled_as_openvino_spells_them(shape: tuple[int, ...], fixtures: Path) -> None:
    document = Document(fixtures / "falcon" / "openvino_model.xml")
    dims = b"".join(rb"\s*<dim>%d</dim>" % size for size in shape)
    end = rb">%s\s*</port>" % dims if shape else b" />"
    port = rb'\n\s*<port id="\d+" precision="FP32"%s' % end
    exported = {re.sub(rb'id="\d+"', b"", text) for text in re.findall(port, document.data)}

    data = after(document, [AddOp("Relu", "extra", (OpOutput(STATE),), (NewPort("f32", shape),))]).data

    written = data[data.index(b'name="extra"') :].partition(b"</layer>")[0].partition(b"<output>")[2]
    assert exported
    assert {re.sub(rb'id="\d+"', b"", text) for text in re.findall(port, written)} == exported


# -- empty and missing sections --------------------------------------------------


@pytest.mark.parametrize("edges", ["<edges/>", "<edges />", "<edges></edges>", "<edges>\n\t</edges>", ""])
def test_the_first_edge_opens_its_section(edges: str, tmp_path: Path) -> None:
    port = '<output><port id="0" precision="FP32"><dim>-1</dim></port></output>'
    layer = (
        f'<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?" element_type="f32"/>{port}</layer>'
    )
    text = (
        f'<?xml version="1.0"?>\n<net name="m" version="11">\n\t<layers>\n\t\t{layer}\n\t</layers>\n\t{edges}\n</net>\n'
    )
    document = Document(tmp_path / "m.xml", text.encode())
    patch = apply(document, [AddOp("Result", "y", (OpOutput("x"),), output_names=("y",))])
    document.path.write_bytes(patch.data)
    document.weights_path.write_bytes(b"")
    assert [port.get_names() for port in ov.Core().read_model(document.path).outputs] == [{"y"}]
    assert apply(Document(document.path, patch.data), patch.undo).data == document.data


def test_layer_ids_may_be_as_large_as_can_be_read(falcon: Document, read: Callable[[bytes], ov.Model]) -> None:
    last = falcon.scan.ids[-1]
    huge = re.sub(rb'(id|to-layer)="%d"' % last, rb'\1="%d"' % (10**18 - 1), falcon.data)
    document = Document(falcon.path, huge)
    assert document.scan.ids[-1] == 10**18 - 1
    patch = apply(document, [RELU, GIVEN_OUT])
    assert [port.get_names() for port in read(patch.data).outputs] == [{"logits"}, {"extra"}]
    assert apply(Document(falcon.path, patch.data), patch.undo).data == huge


def test_annotate_and_strip_know_their_inverse(fixtures: Path) -> None:
    for name in ("qwen3", "falcon"):
        export = irtools.open_export(fixtures / name)
        document = export.target
        for patch in (annotate(document, export.locate()), strip(document)):
            assert apply(Document(document.path, patch.data), patch.undo).data == document.data
