"""Draft heads: their logits are those of lm_head, and their removal restores the bytes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import openvino as ov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openvino import opset13 as ops

import irtools
from irtools.errors import EditError, ExportError, SaveError
from irtools.ir.save import FileChange, save_files
from irtools.model.document import Document
from irtools.surgery.graft.directory import token_file
from irtools.surgery.graft.own import own_head, without_own_head
from irtools.surgery.graft.target import grafting, ungrafting
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply
from tests.surgery.heads import FOUR_BITS, HeadLayout, layouts, save_target

TRAINED, PART = "qwen3_5_vl_trained", "openvino_language_model.xml"


EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}


def computed(model: ov.Model, values: Any) -> list[Any]:
    """Outputs of a model of one input, without requantised activations."""
    results = ov.Core().compile_model(model, "CPU", EXACT)([values])
    return [np.array(results[number]) for number in range(len(model.outputs))]


def scores_of(matmuls: Sequence[Any], width: int, values: Any) -> list[Any]:
    """What MatMuls of a model compute from given hidden states."""
    hidden = ops.parameter([-1, -1, width], ov.Type.f32)
    for matmul in matmuls:
        matmul.input(0).replace_source_output(hidden.output(0))
    return computed(ov.Model([ops.result(matmul) for matmul in matmuls], [hidden], "heads"), values)


def lm_head(model: ov.Model, vocabulary: int) -> Any:
    """The MatMul of lm_head."""
    heads = [op for op in model.get_ops() if op.get_type_name() == "MatMul"]
    return next(op for op in heads if op.get_output_partial_shape(0)[-1] == vocabulary)


def hidden_states(width: int) -> tuple[Any, Any]:
    """Unit vectors, whose scores do not depend on the order of the sums, and random ones."""
    random = np.random.default_rng(0).standard_normal((2, 3, width)).astype("f4")
    return np.eye(width, dtype="f4")[None], random


@settings(max_examples=8, deadline=None)
@given(layout=layouts(), data=st.data())
def test_a_draft_head_computes_the_first_scores_bit_for_bit(layout: HeadLayout, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, layout.vocabulary - 1))
    with TemporaryDirectory() as directory:
        path = save_target(layout, Path(directory))
        original = path.read_bytes()
        path.write_bytes(apply(Document(path), grafting(Document(path), rows).edits).data)
        model = ov.Core().read_model(path)
        result = model.get_results()[0]
        assert result.get_friendly_name() == "logits"
        draft = result.input_value(0).get_node()
        assert draft.get_input_partial_shape(0) == ov.PartialShape([0, layout.hidden])
        head = lm_head(model, layout.vocabulary)
        hidden = next(output for output in model.outputs if "last_hidden_state" in output.get_names())
        assert hidden.get_node().input_value(0) == head.input_value(0)
        units, random = hidden_states(layout.hidden)
        first, scores = scores_of([draft, head], layout.hidden, units)
        # Column by column, 4-bit weights are decompressed when the model is compiled, with other roundings.
        folded = not layout.transposed and layout.element_type in FOUR_BITS
        np.testing.assert_allclose(first, scores[..., :rows], rtol=2e-3 if folded else 0, atol=1e-4 if folded else 0)
        first, scores = scores_of([draft, head], layout.hidden, random)
        np.testing.assert_allclose(first, scores[..., :rows], rtol=1e-4, atol=5e-4 if folded else 1e-5)
        assert apply(Document(path), ungrafting(Document(path)).edits).data == original


@settings(max_examples=8, deadline=None)
@given(layout=layouts(), data=st.data())
def test_a_head_of_its_own_computes_the_scores_of_its_tokens(layout: HeadLayout, data: st.DataObject) -> None:
    ids = st.integers(0, layout.vocabulary - 1)
    first = st.integers(1, layout.vocabulary).map(lambda count: list(range(count)))
    tokens = data.draw(first | st.lists(ids, min_size=1, unique=True))
    with TemporaryDirectory() as directory:
        path = save_target(layout, Path(directory))
        hidden = ops.parameter([-1, -1, layout.hidden], ov.Type.f32, name="hidden_states")
        result = ops.result(ops.multiply(hidden, np.float32(1)))
        result.output(0).set_names({"last_hidden_state"})
        hidden.output(0).set_names({"hidden_states"})
        draft = Path(directory) / "openvino_mtp_model.xml"
        ov.save_model(ov.Model([result], [hidden], "draft"), draft, compress_to_fp16=False)
        files = draft, draft.with_suffix(".bin")
        original = [file.read_bytes() for file in files]
        write(own_head(Document(path), Document(draft), tokens).patch)
        own = ov.Core().read_model(draft)
        number = next(number for number, output in enumerate(own.outputs) if "logits" in output.get_names())
        for values, tolerance in zip(hidden_states(layout.hidden), (0, 1e-5), strict=True):
            head = lm_head(ov.Core().read_model(path), layout.vocabulary)
            expected = scores_of([head], layout.hidden, values)[0]
            logits = computed(own, values)[number]
            if tokens != list(range(len(tokens))):
                assert logits.shape == expected.shape
                assert (np.delete(logits, tokens, axis=-1) == -65504).all()
                logits = logits[..., tokens]
            np.testing.assert_allclose(logits, expected[..., tokens], rtol=10 * tolerance, atol=tolerance)
        write(without_own_head(Document(path), Document(draft)).patch)
        assert [file.read_bytes() for file in files] == original


def write(patch: Patch) -> None:
    save_files([FileChange(patch.path, patch.data, patch.original, None, patch.weights)])


# -- directories ---------------------------------------------------------------------------


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("removing", [False, True])
def test_a_kill_between_two_renames_is_undone_by_the_next_run(
    export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, removing: bool
) -> None:
    """The longer weights come first and go last: the other graph reads them too."""
    path = export_copy(TRAINED)
    files = [path / "openvino_mtp_model.xml", path / "openvino_mtp_model.bin"]
    before = [file.read_bytes() for file in files]
    export = irtools.open_export(path)
    export.graft(100, own_head=True)
    if removing:
        export.save(check=False)
        export = irtools.open_export(path)
        export.ungraft(own_head=True)
        monkeypatch.setattr("irtools.ir.save._Weights.replace", interrupted)
    else:
        monkeypatch.setattr("irtools.ir.save.flush_directory", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export.save(check=False)
    monkeypatch.undo()
    ov.Core().read_model(files[0])
    assert files[0].read_bytes() == before[0]
    assert len(files[1].read_bytes()) > len(before[1])
    for rows in (64, 32):  # the leftover rows are replaced, not kept
        export = irtools.open_export(path)
        export.graft(rows, own_head=True, force=True)
        export.save(check=False)
    export = irtools.open_export(path)
    export.ungraft(own_head=True)
    export.save()
    assert [file.read_bytes() for file in files] == before


def test_leftover_rows_can_be_removed(export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = export_copy(TRAINED)
    weights = path / "openvino_mtp_model.bin"
    before = weights.read_bytes()
    export = irtools.open_export(path)
    export.graft(100, own_head=True)
    monkeypatch.setattr("irtools.ir.save.flush_directory", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export.save(check=False)
    monkeypatch.undo()
    export = irtools.open_export(path)
    export.ungraft(own_head=True)
    export.save()
    assert weights.read_bytes() == before


@pytest.mark.parametrize("content", [b"version https://git-lfs.github.com/spec/v1\n", b"", bytes(1000)])
def test_rows_are_not_appended_to_other_weights(export_copy: Callable[..., Path], content: bytes) -> None:
    path = export_copy(TRAINED)
    weights = path / "openvino_mtp_model.bin"
    weights.write_bytes(content)
    with pytest.raises(ExportError, match=r"openvino_mtp_model\.bin: (a Git-LFS pointer|has )"):
        irtools.open_export(path).graft(100, own_head=True)
    assert weights.read_bytes() == content


def test_an_output_that_happens_to_be_named_logits_stays(export_copy: Callable[..., Path]) -> None:
    path = export_copy(TRAINED)
    export = irtools.open_export(path)
    hidden = export.locate().layers[1].source.op
    with export.edit() as editor:
        editor.add_op("Result", "logits", [hidden], output_names=["mine"])
    export.save(check=False)
    with pytest.raises(EditError, match="named 'logits'"):
        irtools.open_export(path).graft(100, force=True)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("5\n7", (5, 7)),
        ("\ufeff[5, 7]", (5, 7)),
        ("[" * 200_000, None),
        ("[[5]]", None),
        ("\uff11", None),
        ("1_0", None),
        ("[true]", None),
        ("x", None),
    ],
)
def test_token_files(tmp_path: Path, text: str, ids: tuple[int, ...] | None) -> None:
    path = tmp_path / "ids"
    path.write_text(text, encoding="utf-8")
    if ids is not None:
        assert token_file(path) == ids
        return
    with pytest.raises(EditError, match="no token ids"):
        token_file(path)


def test_a_pending_draft_head_excludes_the_other(fixtures: Path) -> None:
    for first in (False, True):
        export = irtools.open_export(fixtures / TRAINED)
        export.graft(100, own_head=first)
        with pytest.raises(EditError, match="its own output 'logits'" if first else "already has a draft head"):
            export.graft(100, own_head=not first)
    with pytest.raises(EditError, match="save it first"):
        export.ungraft(own_head=True)


@pytest.mark.parametrize("own_head", [False, True])
def test_adding_and_removing_restores_every_byte(export_copy: Callable[..., Path], own_head: bool) -> None:
    path = export_copy(TRAINED)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    export = irtools.open_export(path)
    assert export.graft(100, own_head=own_head).rows == 100
    export.save()
    changed = {file.name for file in path.iterdir() if file.read_bytes() != before[file.name]}
    assert changed == ({"openvino_mtp_model.xml", "openvino_mtp_model.bin"} if own_head else {PART})
    again = irtools.open_export(path)
    again.ungraft(own_head=own_head)
    again.save()
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_model_output_named_logits_gets_its_name_back(export_copy: Callable[..., Path]) -> None:
    path = export_copy(TRAINED)
    export = irtools.open_export(path)
    own = next(key for key in export.target.graph.results if "logits" in export.target.graph.result_names(key))
    with export.edit() as editor:
        editor.rename(own, "logits")
    export.save(check=False)
    before = (path / PART).read_bytes()
    for rows in (100, 50):
        export = irtools.open_export(path)
        export.graft(rows, force=True)
        export.save(check=False)
        names = [result.get_friendly_name() for result in ov.Core().read_model(path / PART).get_results()]
        assert names.count("logits") == 1
    export = irtools.open_export(path)
    export.ungraft()
    export.save(check=False)
    assert (path / PART).read_bytes() == before


@pytest.mark.parametrize(
    ("fixture", "rows", "words"),
    [
        ("llama", 100, "there is no openvino_mtp_model.xml"),
        (TRAINED, 0, "from 1 to 511"),
        (TRAINED, 512, "from 1 to 511"),
    ],
)
def test_refusals(fixtures: Path, fixture: str, rows: int, words: str) -> None:
    with pytest.raises(EditError, match=words):
        irtools.open_export(fixtures / fixture).graft(rows)


@pytest.mark.parametrize("same", [True, False])
def test_an_output_of_hidden_states_that_is_there_must_be_that_of_lm_head(
    same: bool, export_copy: Callable[..., Path]
) -> None:
    path = export_copy(TRAINED)
    export = irtools.open_export(path)
    graph = export.target.graph
    hidden = graph.inputs(lm_head_key(graph))[0].op if same else export.locate().layers[0].source.op
    with export.edit() as editor:
        editor.add_op("Result", "own hidden states", [hidden], output_names=["last_hidden_state"])
    export.save(check=False)
    export = irtools.open_export(path)
    if not same:
        with pytest.raises(EditError, match="would draft from another value"):
            export.graft(100)
        return
    export.graft(100)
    export.save(check=False)
    outputs = [port.get_names() for port in ov.Core().read_model(path / PART).outputs]
    assert sum("last_hidden_state" in names for names in outputs) == 1


def lm_head_key(graph: Any) -> int:
    """Layer id of the MatMul that computes the logits."""
    (result,) = (key for key in graph.results if "logits" in graph.result_names(key))
    key = graph.inputs(result)[0].op
    while graph.op_type(key) != "MatMul":
        key = graph.inputs(key)[0].op
    return int(key)


def test_another_draft_head_needs_force(export_copy: Callable[..., Path]) -> None:
    export = irtools.open_export(export_copy(TRAINED))
    export.graft(100)
    assert not export.graft(100).patch.changed
    with pytest.raises(EditError, match="--force"):
        export.graft(64)
    export.graft(64, force=True)
    export.graft(100, force=True)
    assert export.graft(100).patch.changed is False
    assert b"irtools.graft/64" not in export.pending[0].data


def test_both_kinds_of_draft_head_exclude_each_other(export_copy: Callable[..., Path]) -> None:
    path = export_copy(TRAINED)
    export = irtools.open_export(path)
    export.graft(100)
    export.save(check=False)
    with pytest.raises(EditError, match="already has a draft head"):
        irtools.open_export(path).graft(100, own_head=True)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("own_head", [False, True])
def test_the_other_kind_of_draft_head_that_appeared_meanwhile_is_noticed(
    export_copy: Callable[..., Path], tmp_path: Path, own_head: bool, elsewhere: bool
) -> None:
    path = export_copy(TRAINED)
    late, early = irtools.open_export(path), irtools.open_export(path)
    late.graft(100, own_head=own_head)
    early.graft(100, own_head=not own_head)
    early.save(check=False)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(SaveError, match="changed while irtools was working"):
        late.save(tmp_path / "made" if elsewhere else None, check=False)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert not (tmp_path / "made").exists()


def test_weights_that_are_a_link_are_replaced(export_copy: Callable[..., Path], tmp_path: Path) -> None:
    path = export_copy(TRAINED)
    weights = path / "openvino_mtp_model.bin"
    blob = tmp_path / "blob"
    shutil.move(weights, blob)
    weights.symlink_to(blob)
    before = blob.read_bytes()
    export = irtools.open_export(path)
    export.graft(100, own_head=True)
    export.save()
    assert blob.read_bytes() == before
    assert not weights.is_symlink()
    assert weights.read_bytes().startswith(before)
