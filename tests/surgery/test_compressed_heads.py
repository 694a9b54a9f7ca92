"""Heads of their own that NNCF compresses: its values, and nothing else of the draft changes."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

import irtools
from irtools.cli import main
from irtools.errors import EditError, OptionError
from irtools.ir.save import FileChange, save_files
from irtools.model.document import Document
from irtools.runtime import compression
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob
from irtools.surgery.graft.own import own_head
from tests.in_process import collected_later
from tests.surgery.heads import HeadLayout, decoded_weights, save_target

needs_nncf = pytest.mark.skipif(find_spec("nncf") is None, reason="nncf is not installed: the extra `compress`")
OWN = "irtools.graft/"

LAYOUTS = {
    "f32": HeadLayout("f32", 37, 64),
    "f16": HeadLayout("f16", 36, 48),
    "bf16": HeadLayout("bf16", 37, 130),
    "turned": HeadLayout("f32", 37, 64, transposed=False),
    "u8": HeadLayout("u8", 37, 64, zero_point="each"),
    "i8-half": HeadLayout("i8", 37, 64, half=True),
    "i8-turned": HeadLayout("i8", 37, 64, transposed=False),
    "narrow": HeadLayout("f32", 37, 36),
    "soft-cap": HeadLayout("i8", 37, 64, tail="softcap"),
}


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of the temporary files."""
    path = tmp_path / "scratch"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def save_draft(directory: Path, width: int) -> Path:
    hidden = ops.parameter([-1, -1, width], ov.Type.f32, name="hidden_states")
    result = ops.result(ops.relu(hidden))
    result.output(0).set_names({"last_hidden_state"})
    path = directory / "openvino_model.xml"
    ov.save_model(ov.Model([result], [hidden], "draft"), path, compress_to_fp16=False)
    return path


def constants(model: ov.Model) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Element type, shape and bytes of the constants by name, without shapes and axes."""
    return {
        op.get_friendly_name(): (op.get_element_type().get_type_name(), tuple(op.shape), op.data.tobytes())
        for op in model.get_ops()
        if op.get_type_name() == "Constant" and op.get_element_type() != ov.Type.i64
    }


@needs_nncf
@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("precision", ["int4", "int8"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_rows_are_what_nncf_makes_of_the_whole_head(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, name: str, precision: str, pieces: int
) -> None:
    layout = LAYOUTS[name]
    if precision == "int8" and "8" in layout.element_type:
        pytest.skip("refused")
    import nncf

    monkeypatch.setattr(compression, "_ELEMENTS", -(-layout.vocabulary * layout.hidden // pieces))
    target = Document(save_target(layout, tmp_path))
    draft = save_draft(tmp_path, layout.hidden)
    before = draft.with_suffix(".bin").read_bytes()
    own = own_head(
        target,
        Document(draft),
        range(layout.vocabulary),
        replaces_hidden=True,
        compress=compression.compressor(precision),
    )
    assert len(list(scratch.glob("*/*.bin"))) >= pieces
    save_files([FileChange(draft, own.patch.data, own.patch.original, None, own.patch.weights)])
    assert draft.with_suffix(".bin").read_bytes().startswith(before)
    del own
    assert list(scratch.iterdir()) == []

    weights = decoded_weights(layout).astype(np.float32)
    hidden = ops.parameter([-1, layout.hidden], ov.Type.f32)
    whole = ov.Model([ops.matmul(hidden, ops.constant(weights), False, True)], [hidden], "head")
    group = next((size for size in (128, 64, 32, 16) if layout.hidden % size == 0), -1)
    options: dict[str, Any] = {"group_size": group, "ratio": 1.0, "all_layers": True} if precision == "int4" else {}
    whole = nncf.compress_weights(whole, mode=nncf.CompressWeightsMode[f"{precision.upper()}_SYM"], **options)
    found = constants(ov.Core().read_model(draft)).values()
    assert sorted(found) == sorted(constants(whole).values())
    assert {kind for kind, *_ in found} == {"i4" if precision == "int4" else "i8", "f16"}


@needs_nncf
@pytest.mark.parametrize("tokens", [None, range(100), (7, 3, 400)])
def test_only_the_head_of_a_dflash_draft_changes(
    fixtures: Path, tmp_path: Path, tokens: range | tuple[int, ...] | None
) -> None:
    export = irtools.open_export(fixtures / "falcon")
    draft = irtools.open_export(fixtures / "qwen3_dflash")
    head = export.graft(draft=draft, weights="int4", tokens=tokens)
    draft.save(tmp_path / "made")
    old, new = (path / "openvino_model.xml" for path in (draft.directory, tmp_path / "made"))
    assert new.with_suffix(".bin").read_bytes().startswith(old.with_suffix(".bin").read_bytes())
    count = len(tokens) if tokens is not None else 512
    # 32 values of a row: 4 bits each, and a scale of 16 bits.
    assert (head.rows, head.graft_bytes) == (count, 18 * count)
    models = [ov.Core().read_model(path) for path in (old, new)]
    ops_of = [
        {
            op.get_friendly_name(): (op.get_type_name(), str(op.get_attributes()))
            for op in model.get_ops()
            if not op.get_friendly_name().startswith(OWN) and op.get_type_name() != "Result"
        }
        for model in models
    ]
    assert ops_of[0] == ops_of[1]
    assert constants(models[0]).items() <= constants(models[1]).items()
    assert [sorted(port.get_names()) for port in models[1].outputs] == [["logits"]]
    saved = new.with_suffix(".bin").stat().st_size - old.with_suffix(".bin").stat().st_size
    assert head.graft_bytes <= saved < head.graft_bytes + 8 * count + 600


@needs_nncf
@pytest.mark.slow
def test_the_runtime_writes_the_same_text(export_copy: Callable[..., Path], fixtures: Path, tmp_path: Path) -> None:
    target = export_copy("falcon")
    export = irtools.open_export(target)
    export.annotate()
    export.save(check=False)
    drafts = [fixtures / "qwen3_dflash"]
    for name, options in {
        "int4": {},
        "int8": {},
        "first": {"vocabulary": 100},
        "chosen": {"tokens": [7, 3, 40]},
    }.items():
        draft = irtools.open_export(fixtures / "qwen3_dflash")
        irtools.open_export(target).graft(draft=draft, weights="int8" if name == "int8" else "int4", **options)
        draft.save(tmp_path / name)
        drafts.append(tmp_path / name)
    jobs = [
        GenerationJob(str(target), "The quick brown fox", draft=draft, assistant_tokens=3, exact=True)
        for draft in (None, *map(str, drafts))
    ]
    outcomes = list(iterate(jobs))
    assert [outcome.stage for outcome in outcomes] == ["ran"] * len(jobs), [outcome.message for outcome in outcomes]
    assert len({outcome.tokens for outcome in outcomes}) == 1


# -- without nncf ----------------------------------------------------------------------


def fake_nncf(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (directory / "nncf.py").write_text(text)
    monkeypatch.syspath_prepend(str(directory))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os; os.abort()", r"the process ended with code -6 \(SIGABRT\)"),
        ("raise ImportError('no torch')", r"it cannot be imported \(no torch\)"),
        ("def compress_weights(*_, **__): raise ValueError('broken')\nCompressWeightsMode = str", "broken"),
    ],
)
def test_a_failure_is_a_sentence_and_leaves_nothing(
    fixtures: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    fake_nncf(tmp_path, monkeypatch, text)
    draft = irtools.open_export(fixtures / "qwen3_dflash")
    with pytest.raises(EditError, match=f"NNCF could not compress lm_head: {words}"):
        irtools.open_export(fixtures / "falcon").graft(draft=draft, weights="int4")
    assert draft.pending == ()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("layout", "precision", "words"),
    [
        (HeadLayout("u4", 37, 64, groups=2), "int4", "stores its weights as u4, so int4 would not make them smaller"),
        (HeadLayout("i8", 37, 64), "int8", "stores its weights as i8, so int8 would not make them smaller"),
        (HeadLayout("f32", 37, 63), "int4", "an odd number"),
    ],
)
def test_refused_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: HeadLayout, precision: str, words: str
) -> None:
    fake_nncf(tmp_path, monkeypatch, "")
    target, draft = save_target(layout, tmp_path), save_draft(tmp_path, layout.hidden)
    with pytest.raises(EditError, match=words):
        own_head(
            Document(target),
            Document(draft),
            range(9),
            replaces_hidden=True,
            compress=compression.compressor(precision),
        )


def test_without_nncf(fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "nncf", None)
    arguments = ["graft", str(fixtures / "falcon"), "--draft", str(fixtures / "qwen3_dflash"), "--weights", "int4"]
    with collected_later(), pytest.raises(SystemExit) as ended:
        main([*arguments, "--output-dir", str(tmp_path / "made")])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("irtools: error: nncf is not installed; install the extra `compress`")
    assert error.count("\n") == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "int4", "vocabulary": 9}, "weights need own_head=True or a draft"),
        ({"weights": "int2", "own_head": True}, "'int2' are unknown; give int4 or int8"),
        ({}, "give either vocabulary or tokens"),
        ({"vocabulary": 9, "tokens": [1]}, "give either vocabulary or tokens"),
        ({"vocabulary": False}, "vocabulary and tokens are whole numbers"),
        ({"tokens": ["1"], "own_head": True}, "vocabulary and tokens are whole numbers"),
        ({"tokens": [1]}, "tokens need own_head=True"),
    ],
)
def test_options_that_do_not_go_together(fixtures: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        irtools.open_export(fixtures / "qwen3_5_vl_trained").graft(**options)


def test_a_draft_head_is_not_taken_for_another_compression(export_copy: Callable[..., Path]) -> None:
    path = export_copy("qwen3_5_vl_int4")
    before = [(finding.code, finding.severity) for finding in irtools.open_export(path).verify(select=["QNT"]).findings]
    export = irtools.open_export(path)
    export.graft(100, own_head=True)
    export.save(check=False)
    after = [(finding.code, finding.severity) for finding in irtools.open_export(path).verify(select=["QNT"]).findings]
    assert after == before
