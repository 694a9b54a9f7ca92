"""Exposed hidden states: the right values in every spelling of the file, and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openvino as ov
import pytest

import irtools
from irtools.decoder.stack import DecoderStack
from irtools.errors import EditError
from irtools.graph.view import Source
from irtools.model.annotation import Locator
from irtools.model.document import Document
from irtools.surgery.expose import concealing, exposing
from irtools.surgery.transaction import apply
from tests.surgery.edited import lines_joined
from tests.surgery.exposed import outputs, read, steps


def true_stack(document: Document, layers: dict[str, Any], template: DecoderStack) -> DecoderStack:
    """The stack of a truth file, so that expose is tested and not the locating."""
    graph, stack = document.graph, []
    for index in range(len(layers)):
        producer, output = layers[str(index)][0]
        (key,) = (key for key, name in zip(graph.scan.ids, graph.scan.names, strict=True) if name == producer)
        port = graph.output(key, output)
        layer = template.layers[0]
        stack.append(
            replace(
                layer, index=index, locator=Locator(producer, output), source=Source(key, port.id), shape=port.shape
            )
        )
    return replace(template, layers=tuple(stack))


def zoo() -> list[Path]:
    return sorted(path.parent for path in (Path(__file__).parents[2] / "fixtures" / "zoo").glob("*/truth.json"))


def test_exports_of_the_zoo_can_be_exposed_and_given_back(template: DecoderStack, tmp_path: Path) -> None:
    """Read, not run: their weights are zeros."""
    seen = 0
    for directory in zoo()[::5]:
        layers = json.loads((directory / "truth.json").read_text())["layers"]
        export = irtools.open_export(directory)
        if not layers or not all(layers.values()) or len(export.target_candidates) != 1:
            continue
        document = export.target
        stack = true_stack(document, layers, template)
        exposure = exposing(document, stack, "0,last" if len(layers) > 1 else "0", concat="taps", names="h{layer}")
        patch = apply(document, exposure.edits)
        model = read(document, patch.data, tmp_path)
        last = len(layers) - 1
        for number, layer in ((-3, 0), (-2, last)) if last else ((-2, 0),):
            value = model.outputs[number].get_node().input_value(0)
            assert [value.get_node().get_friendly_name(), value.get_index()] in layers[str(layer)], directory.name
            assert model.outputs[number].get_names() == {f"h{layer}"}
        exposed = Document(document.path, patch.data)
        assert apply(exposed, concealing(exposed).edits).data == document.data, directory.name
        seen += 1
    assert seen > 8


@pytest.mark.parametrize(
    "respell",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lines_joined,
        lambda data: data.replace(b'<?xml version="1.0"?>', b"<?xml version='1.0' encoding='ASCII'?>"),
        lambda data: re.sub(rb"(<(?:layer|edge|port) [^>]*>)", lambda m: m[1].replace(b'"', b"'"), data),
        lambda data: data.replace(b"</layer>", b"</layer><!-- </layers> -->"),
        lambda data: data.replace(b"h.1/aten::add/Add", b"h.1/&lt;a&amp;b&gt; &quot;&#xfc;&apos;"),
        lambda data: re.sub(rb' names="[^"]*"', b"", data),
        lambda data: re.sub(rb' names="', b' names="a&#44;b\\\\,c,', data),
        lambda data: data.replace(b'version="11"', b'version="10"', 1),
    ],
)
def test_other_spellings_survive(
    respell: Callable[[bytes], bytes], fixtures: Path, template: DecoderStack, tmp_path: Path
) -> None:
    document = Document(fixtures / "falcon" / "openvino_model.xml")
    respelled = Document(document.path, respell(document.data))
    exposure = exposing(respelled, template, "1,3", names=['x "y" <z> & \u00fc', "a,b"], concat="'taps'")
    patch = apply(respelled, exposure.edits)
    model = read(document, patch.data, tmp_path)
    names = [port.get_names() for port in model.outputs[1:]]
    wanted = ['x "y" <z> & \u00fc', "a,b", "'taps'"]
    assert all(name in port_names for name, port_names in zip(wanted, names, strict=True))
    for port, layer in zip(model.outputs[1:3], (1, 3), strict=True):
        assert port.get_node().input_value(0).get_partial_shape() == ov.PartialShape([-1, -1, 32]), layer
    if b"\r\n" in patch.data:
        assert b"\n" not in patch.data.replace(b"\r\n", b"")
    if b"ASCII" in patch.data:
        assert patch.data.isascii()
    exposed = Document(document.path, patch.data)
    assert apply(exposed, concealing(exposed).edits).data == respelled.data
    assert exposing(exposed, template, "1,3", names=wanted[:2], concat="'taps'").edits == ()


def test_an_output_that_is_not_the_first_of_its_op(fixtures: Path, template: DecoderStack, tmp_path: Path) -> None:
    """The hidden state is the second output of a VariadicSplit."""
    document = Document(fixtures / "qwen3_5_vl" / "openvino_language_model.xml")
    graph = document.graph
    split = next(key for key in graph.by_type["VariadicSplit"] if len(graph.op(key).outputs) > 1)
    port = graph.output(split, 1)
    layer = replace(
        template.layers[0], source=Source(split, port.id), locator=Locator(graph.op_name(split), 1), shape=port.shape
    )
    stack = replace(template, layers=(layer, *template.layers[1:]))
    patch = apply(document, exposing(document, stack, [0]).edits)
    read_by = read(document, patch.data, tmp_path).outputs[-1].get_node().input_value(0)
    assert (read_by.get_node().get_friendly_name(), read_by.get_index()) == (graph.op_name(split), 1)
    assert read_by.get_names() == {*port.names, "hidden_states.0"}
    exposed = Document(document.path, patch.data)
    assert apply(exposed, concealing(exposed).edits).data == document.data


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": "4"}, "there is no layer 4; the decoder stack has layers 0 to 3"),
        ({"layers": [-1]}, "there is no layer -1"),
        ({"layers": "0,0"}, "layer 0 is given twice"),
        ({"layers": "1-2,2"}, "layer 2 is given twice"),
        ({"layers": "3-1"}, "runs backwards"),
        ({"layers": "one"}, "is not a list of layers"),
        ({"layers": ""}, "is not a list of layers"),
        ({"layers": []}, "no layer is given"),
        ({"layers": [True]}, "True is not a layer number"),
        ({"layers": "1", "names": "logits"}, "already named 'logits'"),
        ({"layers": "1", "names": "input_ids"}, "already named 'input_ids'"),
        ({"layers": "1", "concat": "logits"}, "already named 'logits'"),
        ({"layers": "1", "names": "last_hidden_state"}, "only the last layer (3) may have this name"),
        (
            {"layers": "2,3", "names": "h,last_hidden_state", "concat": "last_hidden_state"},
            "2 outputs would be named",
        ),
        ({"layers": "all", "concat": "last_hidden_state"}, "only the last layer (3) may have this name"),
        ({"layers": "1,2", "names": "h"}, "1 name is given for 2 layers"),
        ({"layers": "1,2", "names": ["a", "b", "c"]}, "3 names are given for 2 layers"),
        ({"layers": "1", "names": "a,b"}, "2 names are given for 1 layer;"),
        ({"layers": "1,2", "names": "h,h"}, "2 outputs would be named"),
        ({"layers": "1", "names": ""}, "is empty"),
        ({"layers": "1", "names": "a\nb"}, "contains the character"),
        ({"layers": "1", "names": "a\0"}, "contains the character"),
    ],
)
def test_nonsense_is_one_sentence(
    arguments: dict[str, Any], message: str, fixtures: Path, template: DecoderStack
) -> None:
    with pytest.raises(EditError) as caught:
        exposing(Document(fixtures / "falcon" / "openvino_model.xml"), template, **arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_last_layer_may_have_the_name_that_the_runtime_looks_for(fixtures: Path, template: DecoderStack) -> None:
    document = Document(fixtures / "falcon" / "openvino_model.xml")
    exposed = steps(document, {"layers": "last", "names": "last_hidden_state"}, template=template)
    assert outputs(exposed)[-1] == ("last_hidden_state",)
    assert exposed.graph.inputs(exposed.graph.results[-1]) == (template.head_input,)
    assert exposing(document, template, "last", names="last_hidden_state").notes == (
        "GenAI 2026.4 mistakes the output 'last_hidden_state' for its own and fails to generate with a DFlash draft",
    )


def test_a_name_cannot_stand_for_something_else_later(fixtures: Path, template: DecoderStack) -> None:
    exposed = steps(
        Document(fixtures / "falcon" / "openvino_model.xml"), {"layers": "1", "names": "h"}, template=template
    )
    with pytest.raises(EditError, match="the exposed output 'h' already exists, with the hidden states of layers 1"):
        exposing(exposed, template, "2", names="h")
    moved = replace(template.layers[1], source=template.layers[2].source)
    other = replace(template, layers=(template.layers[0], moved, *template.layers[2:]))
    with pytest.raises(EditError, match="does not read the hidden state of layer 1"):
        exposing(exposed, other, "1", names="h")


def test_an_annotation_that_says_otherwise_is_mentioned(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "qwen3")
    document, stack = export.target, export.locate()
    wrong = document.data.replace(b"layers.1/aten::add/Add_1&quot;", b"layers.1/aten::add/Add&quot;")
    exposure = exposing(Document(document.path, wrong), stack, "0,1")
    assert [note.partition(";")[0] for note in exposure.notes] == [
        "the annotation of the file names '__module.model.layers.1/aten::add/Add' for layer 1"
    ]
    assert exposing(document, stack, "all").notes == ()
