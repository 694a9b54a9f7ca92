"""Exposed hidden states: the right values, nothing else changed, and the file as it was when they are taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest

import irtools
from irtools.decoder.stack import DecoderStack, Locator
from irtools.errors import EditError
from irtools.graph.view import Source
from irtools.ir.document import Document
from irtools.prove.drive import Session, difference
from irtools.prove.worker import Files
from irtools.runtime import genai
from irtools.surgery import apply
from irtools.surgery.edits import AddOp, Output, SetTensorNames
from irtools.surgery.expose import concealing, exposing

NAMES = (
    *("falcon", "gemma4_vl", "gpt2", "granite", "llama", "llava", "mixtral", "opt", "qwen3"),
    *("qwen3_5_moe_vl", "qwen3_5_vl", "qwen3_5_vl_int4", "qwen3_5_vl_trained"),
)
TOKENS = [[5, 9, 17, 33, 2]]

Truth = Callable[[str], dict[str, Any]]


def true_stack(document: Document, layers: dict[str, Any], template: DecoderStack) -> DecoderStack:
    """The stack that a truth file says, so that expose is tested and not the locating."""
    graph, found = document.graph, []
    for index in range(len(layers)):
        producer, output = layers[str(index)][0]
        (key,) = (key for key, name in zip(graph.scan.ids, graph.scan.names, strict=True) if name == producer)
        port = graph.output(key, output)
        layer = template.layers[0]
        found.append(
            replace(
                layer, index=index, locator=Locator(producer, output), source=Source(key, port.id), shape=port.shape
            )
        )
    return replace(template, layers=tuple(found))


@pytest.fixture(scope="session")
def template(fixtures: Path) -> DecoderStack:
    return irtools.open_export(fixtures / "falcon").locate()


def read(document: Document, data: bytes, scratch: Path) -> ov.Model:
    (scratch / "m.xml").write_bytes(data)
    return ov.Core().read_model(scratch / "m.xml", document.weights_path)


@pytest.mark.parametrize("name", NAMES)
def test_exposed_outputs_are_the_tensors_of_the_untouched_model(
    name: str, fixtures: Path, truth: Truth, tmp_path: Path
) -> None:
    export = irtools.open_export(fixtures / name)
    document, layers = export.target, truth(name)["layers"]
    exposure = exposing(document, export.locate(), "all", names="h{layer}", concat="taps")
    patch = apply(document, exposure.edits)
    session = Session(Files.of(export))
    untouched = session.copy("target")
    own = len(untouched.outputs)
    for index in range(len(layers)):
        untouched.add_outputs([tuple(layers[str(index)][0])])
    expected = session.runner(untouched).run(TOKENS)
    runner = session.runner(read(document, patch.data, tmp_path))
    outputs = runner.run(TOKENS)
    assert runner.names[own:] == [*({f"h{index}"} for index in range(len(layers))), {"taps"}]
    assert len(outputs) == len(expected) + 1
    for value, other in zip(outputs, expected, strict=False):
        found = difference(value, other)
        assert found is not None
        assert found < 1e-5
    assert np.array_equal(outputs[-1], np.concatenate(outputs[own:-1], axis=-1))
    exposed = Document(document.path, patch.data)
    assert apply(exposed, concealing(exposed).edits).data == document.data
    assert apply(exposed, patch.undo).data == document.data


def zoo() -> list[Path]:
    return sorted(path.parent for path in (Path(__file__).parents[2] / "fixtures" / "zoo").glob("*/truth.json"))


def test_exports_of_the_zoo_can_be_exposed_and_given_back(template: DecoderStack, tmp_path: Path) -> None:
    """Read, not run: their weights are zeros."""
    seen = 0
    for directory in zoo()[::3]:
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
    assert seen > 12


def lines_joined(data: bytes) -> bytes:
    return re.sub(rb">\s+<", b"><", data)


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
    assert all(name in found for name, found in zip(wanted, names, strict=True))
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
    """The hidden state comes out of a Split, behind another value."""
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


# -- only what was added is taken away -----------------------------------------------------


def steps(document: Document, *exposures: dict[str, Any], template: DecoderStack) -> Document:
    for one in exposures:
        options = dict(one)
        make = concealing(document, **options) if options.pop("remove", None) else None
        edits = make.edits if make else exposing(document, template, **options).edits
        document = Document(document.path, apply(document, edits).data)
    return document


def outputs(document: Document) -> list[tuple[str, ...]]:
    return [document.graph.result_names(key) for key in document.graph.results]


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
    """One that reads the same value, and has a name as expose would give it."""
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
    with pytest.raises(EditError, match=r"an input or output of the model is named 'hidden_states\.2' already"):
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


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"layers": "4"}, "there is no layer 4; the decoder stack has the layers 0 to 3"),
        ({"layers": [-1]}, "there is no layer -1"),
        ({"layers": "0,0"}, "layer 0 is given twice"),
        ({"layers": "1-2,2"}, "layer 2 is given twice"),
        ({"layers": "3-1"}, "run backwards"),
        ({"layers": "one"}, "is no list of layers"),
        ({"layers": ""}, "is no list of layers"),
        ({"layers": []}, "no layer is given"),
        ({"layers": [True]}, "True is no number of a layer"),
        ({"layers": "1", "names": "logits"}, "named 'logits' already"),
        ({"layers": "1", "names": "input_ids"}, "named 'input_ids' already"),
        ({"layers": "1", "concat": "logits"}, "named 'logits' already"),
        ({"layers": "1", "names": "last_hidden_state"}, "only that of the last layer (3) may have this name"),
        (
            {"layers": "2,3", "names": "h,last_hidden_state", "concat": "last_hidden_state"},
            "would be that of 2 outputs",
        ),
        ({"layers": "all", "concat": "last_hidden_state"}, "only that of the last layer (3) may have this name"),
        ({"layers": "1,2", "names": "h"}, "1 name is given for 2 layers"),
        ({"layers": "1,2", "names": ["a", "b", "c"]}, "3 names are given for 2 layers"),
        ({"layers": "1", "names": "a,b"}, "2 names are given for 1 layer;"),
        ({"layers": "1,2", "names": "h,h"}, "would be that of 2 outputs"),
        ({"layers": "1", "names": ""}, "is empty"),
        ({"layers": "1", "names": "a\nb"}, "holds the character"),
        ({"layers": "1", "names": "a\0"}, "holds the character"),
    ],
)
def test_nonsense_is_one_sentence(arguments: dict[str, Any], said: str, fixtures: Path, template: DecoderStack) -> None:
    with pytest.raises(EditError) as caught:
        exposing(Document(fixtures / "falcon" / "openvino_model.xml"), template, **arguments)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_last_layer_may_have_the_name_that_the_runtime_looks_for(fixtures: Path, template: DecoderStack) -> None:
    document = Document(fixtures / "falcon" / "openvino_model.xml")
    exposed = steps(document, {"layers": "last", "names": "last_hidden_state"}, template=template)
    assert outputs(exposed)[-1] == ("last_hidden_state",)
    assert exposed.graph.inputs(exposed.graph.results[-1]) == (template.head_input,)
    assert exposing(document, template, "last", names="last_hidden_state").notes == (
        "GenAI 2026.4 takes the output 'last_hidden_state' for its own and fails to generate with a DFlash draft",
    )


def test_a_name_cannot_stand_for_something_else_later(fixtures: Path, template: DecoderStack) -> None:
    exposed = steps(
        Document(fixtures / "falcon" / "openvino_model.xml"), {"layers": "1", "names": "h"}, template=template
    )
    with pytest.raises(EditError, match="an exposed output 'h' already, of the hidden states of layers 1"):
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


# -- with the runtime ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["falcon", "gemma4_vl", "gpt2", "qwen3", "qwen3_5_vl_trained"])
def test_verify_and_locate_say_what_they_said_before(name: str, export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy(name))
    before, locators = findings(export), export.locate().locators
    with export.edit() as editor:
        editor.expose("all", names="h{layer}", concat="taps")
    export.save(check=False)
    assert findings(export) == before
    assert export.locate().locators == locators


def findings(export: irtools.Export) -> set[tuple[str, str | None, str]]:
    return {(finding.code, finding.op, finding.message) for finding in export.verify().findings}


def test_verify_still_finds_a_false_last_hidden_state(export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy("qwen3_5_vl_trained"))
    producer = export.locate().locators[0].producer
    with export.edit() as editor:
        editor.expose("last", names="last_hidden_state")
    export.save(check=False)
    rules = {finding.code for finding in export.verify(select=["MTP"]).findings}
    with export.edit() as editor:
        editor.rewire("irtools.expose/3/last_hidden_state", 0, producer)
    export.save(check=False)
    (new,) = [found for found in export.verify(select=["MTP"]).findings if found.code not in rules]
    assert "last_hidden_state" in new.message


@pytest.mark.slow
@pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")
def test_an_exposed_export_generates_as_before(fixtures: Path, export_copy: Callable[..., Path]) -> None:
    """Plain, with the MTP head, and as the target of a DFlash draft."""
    draft, prompt = fixtures / "qwen3_dflash", "zqab"
    directories = [export_copy(name) for name in ("falcon", "llama", "qwen3_5_vl_trained")]
    for directory in directories:
        export = irtools.open_export(directory)
        export.annotate()
        # GenAI 2026.4 confuses an output of this name with its own when there is a DFlash draft.
        names = ["h0", "h1", "h2", "last_hidden_state" if directory.name == "qwen3_5_vl_trained" else "h3"]
        with export.edit() as editor:
            editor.expose("all", names=names, concat="taps")
        export.save()
    falcon, llama, trained = directories
    jobs = [
        *(genai.Job.plain(fixtures / path.name, prompt) for path in (falcon, llama)),
        *(genai.Job.plain(path, prompt) for path in (falcon, trained)),
        *(genai.Job.dflash(path, draft, prompt, assistant_tokens=3) for path in (falcon, llama)),
        genai.Job.mtp(trained, prompt),
    ]
    done = genai.run_all(jobs)
    assert [outcome.stage for outcome in done] == ["ran"] * len(jobs), [outcome.message for outcome in done]
    plain_falcon, plain_llama, falcon_exposed, trained_exposed, falcon_flashed, llama_flashed, mtp = done
    assert falcon_exposed.tokens == falcon_flashed.tokens == plain_falcon.tokens
    assert llama_flashed.tokens == plain_llama.tokens
    assert trained_exposed.tokens == mtp.tokens == tuple(ord(letter) - ord("a") + 64 for letter in "gijekh" * 4)[:20]
    assert 0 < mtp.accepted == mtp.drafted


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
    """Without names of its own an output has those of the value that it reads."""
    plain = Document(fixtures / "falcon" / "openvino_model.xml")
    value = Output(template.layers[3].source.op)
    edits = [SetTensorNames(value, ("mine",)), AddOp("Result", "out", (value,))]
    document = Document(plain.path, apply(plain, edits).data)
    exposed = steps(document, {"layers": "2,last"}, template=template)
    names = [port.get_names() for port in read(document, exposed.data, tmp_path).outputs]
    assert names == [{"logits"}, {"mine"}, {"hidden_states.2"}, {"hidden_states.3"}]
    assert apply(exposed, concealing(exposed).edits).data == document.data


def test_a_tensor_name_that_was_there_before_stays(fixtures: Path, template: DecoderStack, tmp_path: Path) -> None:
    """Exporters call tensors of their own ``hidden_states`` and ``hidden_states.1``, here the last hidden state."""
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
