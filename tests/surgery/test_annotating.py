"""Annotate and strip: changed bytes, unchanged bytes and refusals."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import openvino as ov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irtools.decoder.stack import DecoderStack
from irtools.errors import AnnotationDiffersError, InvalidIRError
from irtools.export import open_export
from irtools.ir.rt_info import ANNOTATION_KEY, set_entry
from irtools.model.annotation import parse_annotation
from irtools.model.document import Document
from irtools.surgery.annotate import annotate
from irtools.surgery.strip import strip

ANNOTATED = ("qwen3", "qwen3_5_vl", "qwen3_5_vl_int4", "qwen3_5_vl_trained", "qwen3_5_moe_vl", "gemma4_vl")
PLAIN = ("falcon", "gpt2", "granite", "llama", "llava", "mixtral", "opt")

StackOf = Callable[[str], DecoderStack]
TargetOf = Callable[[str], Path]


def with_value(document: Document, value: str) -> Document:
    return Document(document.path, set_entry(document.scan, ANNOTATION_KEY, value))


# -- the exporter's own bytes --------------------------------------------------------------


@pytest.mark.parametrize("name", ANNOTATED)
def test_stripping_the_exporters_annotation_and_annotating_gives_its_bytes_back(
    name: str, true_stack: StackOf, target_of: TargetOf
) -> None:
    exported = Document(target_of(name))
    stripped = strip(exported)
    assert stripped.status == "would-write"
    assert ANNOTATION_KEY.encode() not in stripped.data
    assert stripped.data.count(b"\n") == exported.data.count(b"\n") - 1
    annotated = annotate(Document(exported.path, stripped.data), true_stack(name))
    assert annotated.data == exported.path.read_bytes()


@pytest.mark.parametrize("name", ANNOTATED)
def test_the_exporters_annotation_is_equal(name: str, true_stack: StackOf, target_of: TargetOf) -> None:
    patch = annotate(Document(target_of(name)), true_stack(name))
    assert (patch.status, patch.changed, patch.notes) == ("unchanged", False, ())


@pytest.mark.parametrize("name", PLAIN)
def test_strip_after_annotate_is_the_identity(name: str, true_stack: StackOf, target_of: TargetOf) -> None:
    original = Document(target_of(name))
    annotated = annotate(original, true_stack(name))
    assert (annotated.status, annotated.old) == ("would-write", None)
    assert len(annotated.data) > len(original.data)
    again = annotate(Document(original.path, annotated.data), true_stack(name))
    assert again.status == "unchanged", "annotating twice changes nothing"
    assert strip(Document(original.path, annotated.data)).data == original.path.read_bytes()


@pytest.mark.parametrize("name", ANNOTATED + PLAIN)
def test_openvino_reads_every_annotated_file(
    name: str, true_stack: StackOf, target_of: TargetOf, tmp_path: Path
) -> None:
    document, stack = Document(target_of(name)), true_stack(name)
    plain = Document(document.path, strip(document).data)
    (tmp_path / "m.xml").write_bytes(annotate(plain, stack).data)
    (tmp_path / "plain.xml").write_bytes(plain.data)
    model = ov.Core().read_model(tmp_path / "m.xml", document.weights_path)
    layers = {
        str(layer.index): {"producer": layer.locator.producer, "output_index": layer.locator.output_index}
        for layer in stack.layers
    }
    assert json.loads(model.get_rt_info(ANNOTATION_KEY).value) == {"layers": layers}
    plain_model = ov.Core().read_model(tmp_path / "plain.xml", document.weights_path)
    assert not plain_model.has_rt_info([ANNOTATION_KEY])
    assert [op.get_friendly_name() for op in model.get_ops()] == [
        op.get_friendly_name() for op in plain_model.get_ops()
    ]


CONTAINERS = ["", "\t<rt_info />\n", "<rt_info></rt_info>", "\t<rt_info>\n\t</rt_info>\n", "<meta_data/>"]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_openvino_reads_the_annotation_in_every_container(
    container: str, eol: str, true_stack: StackOf, target_of: TargetOf, tmp_path: Path
) -> None:
    document = Document(target_of("falcon"))
    head = document.data.decode().rpartition("</edges>")[0] + "</edges>"
    data = b"\xef\xbb\xbf" + f"{head}\n{container}</net>".replace("\n", eol).encode()
    annotated = annotate(Document(document.path, data), true_stack("falcon"))
    (tmp_path / "m.xml").write_bytes(annotated.data)
    model = ov.Core().read_model(tmp_path / "m.xml", document.weights_path)
    assert model.get_rt_info(ANNOTATION_KEY).value == annotated.new
    assert strip(Document(document.path, annotated.data)).data == data


@settings(max_examples=50, deadline=None)
@given(name=st.text(st.characters(blacklist_categories=("Cs",)), min_size=1))
def test_any_friendly_name_survives(name: str, make_stack: Callable[..., DecoderStack]) -> None:
    plain = Document("m.xml", b"<net><layers/><edges/></net>")
    annotated = annotate(plain, make_stack([(name, 3)]))
    document = Document("m.xml", annotated.data)
    assert json.loads(document.annotation or "") == {"layers": {"0": {"producer": name, "output_index": 3}}}
    assert strip(document).data == plain.data


# -- an existing annotation -----------------------------------------------------------


@pytest.mark.parametrize(
    "respell",
    [
        lambda value: json.dumps(json.loads(value), indent=2),
        lambda value: json.dumps({"version": 1, **json.loads(value)}),
        lambda value: json.dumps({"layers": dict(reversed(json.loads(value)["layers"].items()))}),
        lambda value: value.replace("__module", "\\u005f_module"),
        lambda value: value.replace('"output_index":0', '"output_index":0,"note":"x"'),
    ],
)
def test_an_equal_annotation_in_another_spelling_is_left_alone(
    respell: Callable[[str], str], true_stack: StackOf, target_of: TargetOf
) -> None:
    exported = Document(target_of("qwen3_5_vl"))
    document = with_value(exported, respell(exported.annotation or ""))
    assert document.annotation != exported.annotation
    assert annotate(document, true_stack("qwen3_5_vl")).status == "unchanged"


def test_an_early_form_that_agrees_is_upgraded(true_stack: StackOf, target_of: TargetOf) -> None:
    exported = Document(target_of("qwen3_5_vl"))
    layers = {key: value["producer"] for key, value in json.loads(exported.annotation or "")["layers"].items()}
    document = with_value(exported, json.dumps({"version": 1, "layers": layers}))
    patch = annotate(document, true_stack("qwen3_5_vl"))
    assert patch.status == "would-write"
    assert patch.data == exported.data
    assert "early form" in patch.notes[0]


def change(layers: dict[str, dict[str, object]], layer: str, **entries: object) -> None:
    layers[layer] = {**layers[layer], **entries}


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda layers: layers.pop("2"), "it has no entry for layer 2"),
        (lambda layers: layers.update({"4": layers["3"]}), "it has an entry for layer '4', but the model has 4 layers"),
        (lambda layers: change(layers, "1", producer="__module.model.embed/Gather"), "for layer 1 it names"),
        (lambda layers: change(layers, "1", output_index=1), "for layer 1 it names"),
        (
            lambda layers: change(layers, "1", output_index=-1),
            "layer '1' that has the `output_index` -1, which",
        ),
        (
            lambda layers: change(layers, "1", output_index=0.0),
            "the `output_index` 0.0, which is not an unsigned integer",
        ),
        (
            lambda layers: change(layers, "1", output_index="0"),
            'the `output_index` "0", which is not an unsigned integer',
        ),
        (
            lambda layers: change(layers, "1", output_index=True),
            "the `output_index` true, which is",
        ),
        (
            lambda layers: change(layers, "1", producer=None),
            "that has the `producer` null, which is not a string",
        ),
        (lambda layers: layers.update({"01": layers.pop("1")}), "it has no entry for layer 1"),
        (lambda layers: layers.update({"1": "name"}), 'that is "name", not an object with'),
    ],
)
def test_another_annotation_is_shown_and_kept_unless_forced(
    alter: Callable[[dict[str, dict[str, object]]], None], message: str, true_stack: StackOf, target_of: TargetOf
) -> None:
    exported = Document(target_of("qwen3_5_vl"))
    content = json.loads(exported.annotation or "")
    alter(content["layers"])
    document = with_value(exported, json.dumps(content))
    with pytest.raises(AnnotationDiffersError) as caught:
        annotate(document, true_stack("qwen3_5_vl"))
    assert message in str(caught.value)
    assert (caught.value.old, caught.value.new) == (document.annotation, exported.annotation)
    assert caught.value.exit_code == 1
    forced = annotate(document, true_stack("qwen3_5_vl"), force=True)
    assert forced.data == exported.data


@pytest.mark.parametrize("value", ["", "{", "[]", "null", '{"layers":[]}', '{"layers":{"0":NaN}}', "{" * 5000, "\\"])
def test_a_malformed_annotation_counts_as_different(value: str, true_stack: StackOf, target_of: TargetOf) -> None:
    exported = Document(target_of("qwen3_5_vl"))
    with pytest.raises(AnnotationDiffersError, match="--force"):
        annotate(with_value(exported, value), true_stack("qwen3_5_vl"))
    assert annotate(with_value(exported, value), true_stack("qwen3_5_vl"), force=True).data == exported.data


def test_an_entry_without_value_counts_as_different(true_stack: StackOf, target_of: TargetOf) -> None:
    document = Document(target_of("falcon"))
    data = document.data.replace(b"<rt_info>", f"<rt_info><{ANNOTATION_KEY}/>".encode())
    with pytest.raises(AnnotationDiffersError, match="it has no value"):
        annotate(Document(document.path, data), true_stack("falcon"))
    forced = annotate(Document(document.path, data), true_stack("falcon"), force=True)
    assert Document(document.path, forced.data).annotation == true_stack("falcon").annotation()


def test_the_runtimes_parser_takes_minus_zero_for_no_index() -> None:
    parsed = parse_annotation('{"layers":{"0":{"producer":"a","output_index":-0}}}')
    assert "-0, which is not an unsigned integer" in parsed.fault
    assert parsed.locators == {}


# -- equal-valued neighbours -----------------------------------------------------------------


def test_a_neighbour_that_only_reshapes_is_no_difference(
    make_stack: Callable[..., DecoderStack],
    truth: Callable[[str], dict[str, dict[str, list[list[object]]]]],
    target_of: TargetOf,
) -> None:
    """gpt2's truth names two ops for the last layer: the norm, and the Reshape that lm_head reads."""
    layers = truth("gpt2")["layers"]
    one, other = ([tuple(layers[str(index)][pick if index == 3 else 0]) for index in range(4)] for pick in (0, 1))
    assert one != other
    for here, there in ((one, other), (other, one)):
        annotated = Document(target_of("gpt2"), annotate(Document(target_of("gpt2")), make_stack(here)).data)
        patch = annotate(annotated, make_stack(there))
        assert patch.status == "unchanged"
        assert "carries the same value" in patch.notes[0]


def test_a_reshape_that_the_runtime_would_refuse_is_a_difference(
    true_stack: StackOf, make_stack: Callable[..., DecoderStack], target_of: TargetOf
) -> None:
    """OPT flattens its stream to rank 2 and back."""
    document = Document(target_of("opt"))
    graph = document.graph
    flat = next(
        key for key in graph.by_type["Reshape"] if len(graph.op(key).outputs[0].shape) == 2 and not graph.constant(key)
    )
    locators = [(locator.producer, locator.output_index) for locator in true_stack("opt").locators]
    wrong = make_stack([(graph.op_name(flat), 0), *locators[1:]])
    annotated = Document(document.path, annotate(document, wrong).data)
    with pytest.raises(AnnotationDiffersError):
        annotate(annotated, true_stack("opt"))


# -- the diff of a patch --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["falcon", "qwen3_5_vl"])
def test_the_diff_can_be_applied(
    name: str, true_stack: StackOf, target_of: TargetOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the file lies outside, so its name starts at the root
    document = Document(target_of(name))
    patch = strip(document) if document.annotation else annotate(document, true_stack(name))
    file = tmp_path / str(document.path).lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_bytes(patch.original)
    assert len(patch.diff().splitlines()) < 12
    try:
        subprocess.run(["patch", "-p1", "--binary", "-s"], input=patch.diff().encode(), cwd=tmp_path, check=True)
    except FileNotFoundError:
        pytest.skip("no patch here")
    assert file.read_bytes() == patch.data


def test_each_hunk_of_a_diff_is_where_its_header_says(target_of: TargetOf, tmp_path: Path) -> None:
    document = Document(target_of("falcon"))
    export = open_export(document.path.parent)
    with export.edit() as editor:
        editor.expose("all")
        editor.annotate()
    (patch,) = export.pending
    file = tmp_path / document.path.name
    file.write_bytes(patch.original)
    try:
        command = ["patch", "--binary", "--verbose", file.name]
        done = subprocess.run(command, input=patch.diff().encode(), cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no patch here")
    assert file.read_bytes() == patch.data
    hunks = [line for line in done.stdout.decode().splitlines() if line.startswith("Hunk #")]
    assert len(hunks) > 2
    assert not [line for line in hunks if "offset" in line or "fuzz" in line]
    for header in re.finditer(r"^@@ -\d+,\d+ \+(\d+),\d+ @@\n(.*)$", patch.diff(), re.MULTILINE):
        assert patch.data.decode().splitlines()[int(header[1]) - 1] == header[2][1:]


def test_the_diff_of_a_file_without_final_newline() -> None:
    document = Document("m.xml", b'<net>\n<rt_info>\n<hidden_states_decoder_layers value="{}"/></rt_info></net>')
    assert strip(document).diff().splitlines() == [
        "--- a/m.xml",
        "+++ b/m.xml",
        "@@ -1,3 +1,2 @@",
        " <net>",
        "-<rt_info>",
        '-<hidden_states_decoder_layers value="{}"/></rt_info></net>',
        "\\ No newline at end of file",
        "+<rt_info></rt_info></net>",
        "\\ No newline at end of file",
    ]


def test_without_a_change_there_is_no_diff(target_of: TargetOf) -> None:
    patch = strip(Document(target_of("falcon")))
    assert (patch.status, patch.diff(), patch.old, patch.new) == ("unchanged", "", None, None)


@pytest.mark.parametrize("data", [b"", b"<net>", b"<net/>", b"<a/>", "<net/>".encode("utf-16"), b"<net>\xff</net>"])
def test_a_file_that_is_no_ir_is_refused(data: bytes, make_stack: Callable[..., DecoderStack]) -> None:
    with pytest.raises(InvalidIRError):
        annotate(Document("m.xml", data), make_stack([("a", 0)]))
