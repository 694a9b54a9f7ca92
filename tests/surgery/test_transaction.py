"""The editing core: what an edit changes, what undoes it, and what is refused."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import openvino as ov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irtools
from irtools.errors import CheckError, EditError
from irtools.ir.document import Document
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.surgery import annotate, apply, strip
from irtools.surgery.edits import (
    AddOp,
    Edit,
    NewPort,
    Output,
    RemoveOp,
    Rename,
    Rewire,
    SetAttribute,
    SetRtInfo,
    SetTensorNames,
)
from irtools.surgery.rename import unique_names
from irtools.surgery.splices import Splice, compose, difference, spliced

STATE = "__module.transformer.h.1/aten::add/Add"
NEXT = "__module.transformer.h.2/aten::add/Add"
HEAD = "__module.lm_head/aten::linear/MatMul"
RELU = AddOp("Relu", "extra", (Output(STATE),), (NewPort("f32", (-1, -1, 32)),))
OTHER = AddOp("Relu", "other", (Output(NEXT),), (NewPort("f32", (-1, -1, 32)),))
GIVEN_OUT = AddOp("Result", "out", (Output("extra"),), output_names=("extra",))


def lines_joined(data: bytes) -> bytes:
    return re.sub(rb">\s+<", b"><", data)


SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "as exported": lambda data: data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "BOM": lambda data: b"\xef\xbb\xbf" + data,
    "one line": lines_joined,
    "ASCII": lambda data: data.replace(b'<?xml version="1.0"?>', b'<?xml version="1.0" encoding="us-ascii"?>'),
    "single quotes": lambda data: re.sub(
        rb"(<(?:layer|edge|port|data) [^>]*>)", lambda m: m[1].replace(b'"', b"'"), data
    ),
    "comments": lambda data: data.replace(b"</layer>", b"</layer><!-- <layer> -->").replace(
        b"<edge ", b"<!-- <edge /> -->\n<edge "
    ),
    "comments in layers": lambda data: re.sub(
        rb"(<layer [^>]*[^/]>)", rb'\1<!-- <data a="1"/><port id="9"/> -->', data
    ),
    "empty tensor names": lambda data: data.replace(b' names="', b' names=",'),
    "spaces": lambda data: re.sub(rb'<edge from-layer="(\d+)"', rb'<edge  from-layer = "\1"', data),
}


@pytest.fixture(scope="session")
def falcon(fixtures: Path) -> Document:
    return Document(fixtures / "falcon" / "openvino_model.xml")


@pytest.fixture
def read(tmp_path: Path, falcon: Document) -> Callable[[bytes], ov.Model]:
    """Read a version of falcon's graph with OpenVINO."""

    def reader(data: bytes) -> ov.Model:
        (tmp_path / "m.xml").write_bytes(data)
        return ov.Core().read_model(tmp_path / "m.xml", falcon.weights_path)

    return reader


def after(document: Document, edits: Sequence[Edit]) -> Document:
    return Document(document.path, apply(document, edits).data)


def edit(export: irtools.Export, *edits: Edit, after: Callable[[], object] = int) -> None:
    with export.edit() as editor:
        editor.make(*edits)
        after()


def op_named(model: ov.Model, name: str) -> ov.Node:
    (found,) = (op for op in model.get_ops() if op.get_friendly_name() == name)
    return found


# -- what edits do -------------------------------------------------------------------------

EDITS: dict[str, tuple[Edit, ...]] = {
    "add": (RELU, GIVEN_OUT),
    "insert": (RELU, Rewire(HEAD, 0, Output("extra"))),
    "remove": (Rewire(HEAD, 0, Output(STATE)), RemoveOp("__module.transformer.ln_f/aten::layer_norm/MVN")),
    "rename": (Rename(STATE, 'a "b" & <c> \u00fc'),),
    "attribute": (SetAttribute(HEAD, "note", "x"), SetAttribute(HEAD, "transpose_a", None)),
    "first attribute": (SetAttribute("Result_431423", "note", "x"),),
    "tensor names": (SetTensorNames(Output(STATE), ("385", "a,b", "\u00fc")), SetTensorNames(Output(HEAD), ())),
    "rt_info": (SetRtInfo("note", "x"), SetRtInfo("optimum", None), SetRtInfo(ANNOTATION_KEY, '{"layers":{}}')),
    "several": (
        RELU,
        Rename("extra", "more"),
        SetRtInfo("note", "x"),
        Rewire(HEAD, 0, Output("more")),
        Rename(HEAD, "head"),
    ),
}


CASES = [
    *((name, "as exported") for name in EDITS),
    *((name, spelling) for name in ("several", "remove", "tensor names") for spelling in list(SPELLINGS)[1:]),
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
    patch = apply(falcon, [RELU, Rewire(HEAD, 0, Output("extra"))])
    kept = falcon.data
    for start, end, _ in reversed(patch.splices):
        kept = kept[:start] + kept[end:]
    assert len(falcon.data) - len(kept) < 20, "nothing but where one edge starts was replaced"
    assert len(patch.splices) == 3


def test_there_and_back_is_the_same_file(falcon: Document) -> None:
    (source,) = (falcon.graph.inputs(key)[0] for key in falcon.scan.ids if falcon.graph.op_name(key) == HEAD)
    assert after(falcon, [Rewire(HEAD, 0, Output(STATE)), Rewire(HEAD, 0, Output(source.op))]).data == falcon.data
    there = after(falcon, [Rewire(HEAD, 0, Output(STATE)), Rename(STATE, "x"), SetAttribute(HEAD, "y", "1")])
    back = [Rewire(HEAD, 0, Output(source.op)), Rename("x", STATE), SetAttribute(HEAD, "y", None)]
    assert after(there, back).data == falcon.data
    added = after(falcon, [RELU, GIVEN_OUT])
    assert after(added, [RemoveOp("out"), RemoveOp("extra")]).data == falcon.data
    assert after(falcon, [RELU, RemoveOp("extra")]).data == falcon.data


def test_a_rewired_input_takes_the_shape_of_what_it_reads(falcon: Document) -> None:
    narrow = AddOp("Convert", "narrow", (Output(STATE),), (NewPort("f16", (-1, -1, 32)),), {"destination_type": "f16"})
    wide = AddOp("Convert", "wide", (Output("narrow"),), (NewPort("f32", (-1, -1, 32)),), {"destination_type": "f32"})
    edited = after(falcon, [narrow, wide, Rewire("wide", 0, Output(STATE)), RemoveOp("narrow")])
    (port,) = edited.graph.op(edited.scan.ids[-1]).inputs
    assert (port.element_type, port.shape) == ("f32", (-1, -1, 32))


def test_an_op_that_is_removed_takes_its_line_and_its_edges_along(
    falcon: Document, read: Callable[[bytes], ov.Model]
) -> None:
    """The op between two is left out: what read it reads what it had read."""
    key = next(key for key in falcon.graph.by_type["Convert"] if not falcon.graph.constant(key))
    source = falcon.graph.inputs(key)[0]
    readers = falcon.graph.consumers(key)
    edits: list[Edit] = [Rewire(reader.op, reader.input, Output(source.op)) for reader in readers]
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
    with pytest.raises(EditError, match="the hidden state of layer 0, so it cannot be removed; strip the annotation"):
        apply(export.target, [RemoveOp(first.locator.producer)])


def test_unique_names_keep_the_annotation_right(fixtures: Path) -> None:
    """Another op has taken the name that the annotation gives."""
    export = irtools.open_export(fixtures / "qwen3")
    producer = export.locate().locators[0].producer.encode()
    other = export.locate().locators[1].producer.encode()
    doubled = export.target.data.replace(b'name="' + other, b'name="' + producer)
    patch = unique_names(Document(export.target.path, doubled))
    assert b'name="' + producer + b'_1"' in patch.data
    assert patch.new == patch.old


# -- what is refused -----------------------------------------------------------------------

REFUSED: dict[str, tuple[tuple[Edit, ...], str]] = {
    "no such op": ((RemoveOp("nowhere"),), "there is no op named 'nowhere'; give a friendly name or a layer id"),
    "no such id": ((Rename(99999, "x"),), "there is no op with the layer id 99999"),
    "no such output": ((Rewire(HEAD, 0, Output(STATE, 1)),), f"'{STATE}' has 1 outputs and no index 1"),
    "negative output": ((Rewire(HEAD, 0, Output(STATE, -1)),), "has 1 outputs and no index -1"),
    "no such input": ((Rewire(HEAD, 2, Output(STATE)),), f"'{HEAD}' has 2 inputs and no index 2"),
    "name taken": ((Rename(STATE, NEXT),), f"2 ops would be named '{NEXT}'"),
    "added under a name that is taken": ((AddOp("Result", STATE, (Output(STATE),)),), "there is an op named"),
    "no name": ((Rename(STATE, ""),), "an op needs a friendly name that is not empty"),
    "no XML in rt_info": ((SetRtInfo("a", "\0"),), "which no XML file can hold"),
    "no XML": ((Rename(STATE, "a\0b"),), "which no XML file can hold"),
    "reader of what is removed": ((RemoveOp(STATE),), f"of '{STATE}' by its input port"),
    "cycle": ((Rewire(STATE, 0, Output(NEXT)),), "in a cycle: it depends on its own output"),
    "own output": ((Rewire(STATE, 0, Output(STATE)),), "in a cycle"),
    "half a state": (
        (RemoveOp("Assign_445104"),),
        "the state 'past_key_values.3.valuepresent.3.value' has the ReadValue",
    ),
    "other state": (
        (SetAttribute("Assign_445104", "variable_id", "x"),),
        "'ReadValue_445103' and no Assign; edit both together",
    ),
    "output name taken": (
        (AddOp("Result", "out", (Output(STATE),), output_names=("logits",)),),
        "2 model outputs would be named 'logits'",
    ),
    "reads what was removed again": ((RELU, GIVEN_OUT, RemoveOp("extra")), "of 'extra' by its input port 0, and"),
    "reads what was removed before": (
        (RELU, Rewire(HEAD, 0, Output("extra")), SetRtInfo("a", "1"), RemoveOp("extra"), SetRtInfo("a", "2"), OTHER),
        "layer 569, which does not exist after the edits",
    ),
    "one state twice": (
        (SetAttribute("Assign_445104", "variable_id", "past_key_values.0.keypresent.0.key"),),
        "the state 'past_key_values.0.keypresent.0.key' would have 2 Assign ops",
    ),
    "no name of an attribute": ((SetAttribute(HEAD, "a b", "1"),), "'a b' cannot be the name of an attribute"),
    "no name of a new attribute": (
        (AddOp("Relu", "extra", (Output(STATE),), RELU.outputs, {'a"': "1"}),),
        "cannot be the name of an attribute",
    ),
    "tensor name that would join the next": (
        (SetTensorNames(Output(STATE), ("a\\", "b")),),
        "has a backslash before a comma or its end",
    ),
    "tensor name of a new op": (
        (AddOp("Relu", "extra", (Output(STATE),), (NewPort("f32", (-1, -1, 32), ("a\0",)),)),),
        "which no XML file can hold",
    ),
    "empty name of an output": (
        (AddOp("Result", "out", (Output(STATE),), output_names=("",)),),
        "a tensor name cannot be empty",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_inconsistent_is_refused_in_one_sentence(name: str, export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    export = irtools.open_export(directory)
    edits, said = REFUSED[name]
    with pytest.raises(EditError) as caught:
        edit(export, SetRtInfo("note", "x"), *edits)
    message = str(caught.value)
    assert said in message
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
    with pytest.raises(EditError, match="is inside the body of a Loop or If; edits concern the ops at the top level"):
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
        "output 0 of 'extra' is f32 [?,?,32] to OpenVINO, and the file says f32 [?,?,99]",
        "no output of the model depends on 'loose', so OpenVINO leaves it out",
    )


def test_what_was_changed_since_is_not_undone(falcon: Document) -> None:
    patch = apply(falcon, [Rename(STATE, "x")])
    renamed = Document(falcon.path, patch.data)
    with pytest.raises(EditError, match="changed since"):
        apply(after(renamed, [Rename("x", "yy")]), patch.undo)
    others = [SetRtInfo("note", "x"), Rename("attention_mask", "mask"), AddOp("Result", "out", (Output(NEXT),))]
    elsewhere, expected = after(renamed, others), after(falcon, others)
    assert apply(elsewhere, patch.undo).data == expected.data, "other changes do not hinder"


# -- sections that are empty or not there --------------------------------------------------


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
    patch = apply(document, [AddOp("Result", "y", (Output("x"),), output_names=("y",))])
    document.path.write_bytes(patch.data)
    document.weights_path.write_bytes(b"")
    assert [port.get_names() for port in ov.Core().read_model(document.path).outputs] == [{"y"}]
    assert apply(Document(document.path, patch.data), patch.undo).data == document.data


# -- any edits -----------------------------------------------------------------------------

TEXT = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff"), min_size=1, max_size=8
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("rename", "insert", "take out", "expose", "attribute", "rt_info", "names", "annotate")),
        st.integers(0, 10**6),
        TEXT,
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=12, deadline=None)
@given(steps=STEPS, spelling=st.sampled_from(sorted(SPELLINGS)))
def test_any_legal_edits_keep_the_file_sound(
    steps: list[tuple[str, int, str]], spelling: str, falcon: Document
) -> None:
    original = Document(falcon.path, SPELLINGS[spelling](falcon.data))
    export = irtools.open_export(falcon.path.parent)
    export.target.__dict__["data"] = original.data
    inserted: list[tuple[str, int, int, int]] = []
    with export.edit() as editor:
        for number, (what, choice, text) in enumerate(steps):
            graph = editor.document.graph
            values = [
                (key, index, source)
                for key in graph.scan.ids
                if graph.op_type(key) in ("MatMul", "Multiply", "Softmax", "MVN")
                for index, source in enumerate(graph.inputs(key))
                if not graph.constant(source.op) and graph.op(key).inputs[index].element_type == "f32"
            ]
            key, index, source = values[choice % len(values)]
            name = f"{text}{number}"
            if what == "rename":
                editor.rename(graph.scan.ids[choice % len(graph.scan.ids)], name)
            elif what == "insert":
                port = graph.port(source)
                assert port is not None
                editor.add_op("Relu", name, [(source.op, graph.output_index(source))], [("f32", port.shape)])
                editor.rewire(key, index, name)
                inserted.append((name, key, index, source.op))
            elif what == "take out" and inserted:
                name, key, index, producer = inserted.pop()
                if (
                    name in graph.scan.names
                    and graph.inputs(key)[index].op == graph.scan.ids[graph.scan.names.index(name)]
                ):
                    read = graph.scan.ids[graph.scan.names.index(name)]
                    for reader in graph.consumers(read):
                        editor.rewire(reader.op, reader.input, producer, graph.output_index(graph.inputs(read)[0]))
                    editor.remove_op(read)
            elif what == "expose":
                editor.expose([choice % 4], names=[name.replace("\\", "/")])
            elif what == "attribute":
                editor.set_attribute(key, "irtools_test", text)
            elif what == "rt_info":
                editor.set_rt_info(f"key{choice % 3}", text if choice % 2 else None)
            elif what == "names":
                editor.set_tensor_names(
                    source.op, graph.output_index(source), [name.replace("\\", "/"), "b,c"][: choice % 3]
                )
            else:
                editor.annotate(force=True)
    patch = editor.patch
    assert patch is not None
    document = Document(falcon.path, patch.data)
    assert len(set(document.scan.ids)) == len(document.scan.ids)
    assert len(set(document.scan.names)) == len(document.scan.names)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "m.xml").write_bytes(patch.data)
        model = ov.Core().read_model(Path(scratch, "m.xml"), falcon.weights_path)
    assert {op.get_friendly_name() for op in model.get_ops()} <= set(document.scan.names)
    assert len(model.outputs) == document.scan.types.count("Result")
    assert apply(document, patch.undo).data == original.data


@given(st.binary(max_size=20), st.lists(st.integers(0, 30), max_size=6), st.lists(st.integers(0, 30), max_size=6))
def test_two_sets_of_splices_are_one(data: bytes, first: list[int], second: list[int]) -> None:
    def make(at: list[int], length: int) -> list[Splice]:
        ends = sorted(min(value, length) for value in at[: len(at) // 2 * 2])
        return [Splice(start, end, b"x" * (start % 3)) for start, end in zip(ends[::2], ends[1::2], strict=True)]

    one = make(first, len(data))
    between = spliced(data, one)
    other = make(second, len(between))
    after = spliced(between, other)
    assert spliced(data, compose(one, other)) == after
    assert spliced(data, difference(data, after)) == after


# -- through the export --------------------------------------------------------------------


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
    export.save()
    model = ov.Core().read_model(path)
    assert json.loads(model.get_rt_info(ANNOTATION_KEY).value)["layers"]["1"]["producer"] == "second"
    assert [port.get_names() for port in model.outputs] == [{"logits"}, {"hidden_states.0"}]
    assert export.pending == ()
    with export.edit() as editor:
        editor.make(*pending.undo)
    export.save()
    assert path.read_bytes() == before


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
    edit(export, RELU, GIVEN_OUT, AddOp("Result", "more", (Output("extra"),), output_names=("more",)))
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
    """The new names are looked up in the new graph, whatever has been converted ahead."""
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
    with pytest.raises(EditError, match="the block of these edits has ended"):
        editor.rename(HEAD, "head")
    with pytest.raises(EditError, match="the block of these edits has ended"), editor:
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
    edit(export, AddOp("Result", "out", (Output(NEXT),), output_names=("out",)))
    assert editor.patch is not None
    edit(export, *editor.patch.undo)
    (saved,) = export.save()
    assert saved.notes == ()


def test_layer_ids_may_be_as_large_as_can_be_read(falcon: Document, read: Callable[[bytes], ov.Model]) -> None:
    last = falcon.scan.ids[-1]
    huge = re.sub(rb'(id|to-layer)="%d"' % last, rb'\1="%d"' % (10**18 - 1), falcon.data)
    document = Document(falcon.path, huge)
    assert document.scan.ids[-1] == 10**18 - 1
    patch = apply(document, [RELU, GIVEN_OUT])
    assert [port.get_names() for port in read(patch.data).outputs] == [{"logits"}, {"extra"}]
    assert apply(Document(falcon.path, patch.data), patch.undo).data == huge


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
        apply(faulty, [Rewire(NEXT, 0, Output(NEXT))])


def test_annotate_and_strip_know_their_inverse(fixtures: Path) -> None:
    for name in ("qwen3", "falcon"):
        export = irtools.open_export(fixtures / name)
        document = export.target
        for patch in (annotate(document, export.locate()), strip(document)):
            assert apply(Document(document.path, patch.data), patch.undo).data == document.data
