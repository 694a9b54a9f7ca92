"""The step taps: correct annotations pass, and each kind of wrong annotation fails the expected check."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir_edit import IR

import irtools
from irtools.errors import LocateRefusedError
from irtools.prove.drive import Session, UndrivableError
from irtools.prove.files import Files
from irtools.prove.measure_taps import measure
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Step
from irtools.prove.taps import taps
from irtools.prove.worker import Measured
from tests.marks import mostly_slow

KEY = "hidden_states_decoder_layers"
TOKENS = [5, 9, 33, 7, 10, 42, 3]
SOUND = ["falcon", "gemma4_vl", "llama", "llava", "opt", "qwen3_5_moe_vl", "qwen3_5_vl_int4"]
# Of the zoo: the embeddings mixed into every layer, no feed-forward blocks, past keys as inputs.
ZOO = ["hand_x0", "mamba", "llama_stateless"]
SHARED = {"gemma4_vl": {"keys and values", "per-layer inputs"}, "zoo/hand_x0": {"embeddings"}}
Entries = list[list[Any]]


class Here:
    """Worker that measures in this process; a separate process would have to start for each test."""

    def __init__(self, export: irtools.Export) -> None:
        self.session = Session(Files.of(export))

    def measure(self, step: str, request: dict[str, Any], progress: object = None) -> Measured:
        assert step == "taps"
        try:
            measured = measure(self.session, json.loads(json.dumps(request)))
            return Measured(measured, made_up=sorted(self.session.made_up))
        except UndrivableError as error:
            return Measured({}, inapplicable=str(error))


def judge(directory: Path, entries: Entries | None, text: str | None = None) -> Step:
    """Result of the step for a copy of an export with this annotation."""
    export = irtools.open_export(directory)
    ir = IR(export.target.path)
    if entries is not None:
        layers = {str(layer): {"producer": name, "output_index": index} for layer, (name, index) in enumerate(entries)}
        text = json.dumps({"layers": layers})
    if text is not None or ir.rt_info.find(KEY) is not None:
        ir.set_rt(text, KEY)
    ir.save()
    export = irtools.open_export(directory)
    try:
        stack = export.locate()
    except LocateRefusedError as error:
        stack = error
    return taps(export, Here(export), TOKENS, stack)  # type: ignore[arg-type]


def reweigh(directory: Path, make: Callable[..., Any]) -> None:
    """Replace the weights of a copy of an export by ``make(size=...)``."""
    path = irtools.open_export(directory).target.path
    content = bytearray(path.with_suffix(".bin").read_bytes())
    for constant in IR(path).typed("Const"):
        data = constant.find("data")
        start, size = int(data.get("offset")), int(data.get("size"))
        if data.get("element_type") == "f32" and size > 32:
            content[start : start + size] = make(size=size // 4).astype(np.float32).tobytes()
    path.with_suffix(".bin").write_bytes(content)


def statuses(step: Step) -> dict[str, str]:
    return {check.name: check.status for check in step.checks}


def failed(step: Step) -> set[str]:
    return {check.name for check in step.checks if check.status == FAILED}


@pytest.fixture
def truth_of(fixtures: Path, truth: Callable[[str], dict[str, Any]]) -> Callable[[str], Entries]:
    """One value with the hidden state of each layer, found by comparison with PyTorch."""

    def entries(name: str) -> Entries:
        zoo = fixtures / name / "truth.json"
        layers = (json.loads(zoo.read_text()) if zoo.exists() else truth(name))["layers"]
        return [layers[str(layer)][0] for layer in range(len(layers))]

    return entries


@pytest.mark.parametrize("name", mostly_slow([*SOUND, *(f"zoo/{name}" for name in ZOO)], fast=2))
def test_true_annotation_passes(
    name: str, export_copy: Callable[..., Path], truth_of: Callable[[str], Entries]
) -> None:
    directory = export_copy(name, "export")
    if name.startswith("zoo/"):  # its weights are zeros
        reweigh(directory, partial(np.random.default_rng(0).normal, 0.0, 0.3))
    step = judge(directory, truth_of(name))
    assert statuses(step) == dict.fromkeys(("values", "head", "cut", "between", "located"), PASSED), step
    cut = next(check for check in step.checks if check.name == "cut")
    assert {role for _, _, role in cut.figures["bypasses"]} == SHARED.get(name, set())


LLAMA = "__module.model.layers"


def _shifted(true: Entries) -> Entries:
    """Each layer's input instead of its output: `hidden_states[i]` of PyTorch, not `[i + 1]`."""
    return [["__module.model.embed_tokens/aten::embedding/Gather", 0], *true[:-1]]


def _with(layer: int, producer: str) -> Callable[[Entries], Entries]:
    return lambda true: [*true[:layer], [producer, 0], *true[layer + 1 :]]


DEFECTS: dict[str, tuple[Callable[[Entries], Entries], set[str]]] = {
    "shifted by one": (_shifted, {"head", "between", "located"}),
    "after attention, all": (
        lambda true: [[f"{LLAMA}.{layer}/aten::add/Add", 0] for layer in range(len(true) - 1)] + true[-1:],
        {"between", "located"},
    ),
    "after attention, one": (_with(1, f"{LLAMA}.1/aten::add/Add"), {"between", "located"}),
    "before the final norm": (_with(3, f"{LLAMA}.3/aten::add/Add_1"), {"head", "between", "located"}),
    "inside the MLP": (_with(1, f"{LLAMA}.1.mlp.down_proj/aten::linear/MatMul"), {"cut", "between", "located"}),
    "swapped": (lambda true: [true[0], true[2], true[1], true[3]], {"cut", "between", "located"}),
    "last layer missing": (lambda true: true[:-1], {"head", "between", "located"}),
}


@pytest.mark.parametrize("defect", mostly_slow(DEFECTS, fast=2))
def test_wrong_annotation_fails_the_check_that_sees_it(
    defect: str, export_copy: Callable[..., Path], truth_of: Callable[[str], Entries]
) -> None:
    change, expected = DEFECTS[defect]
    step = judge(export_copy("llama"), change(truth_of("llama")))
    assert failed(step) == expected, step
    if defect == "inside the MLP":  # the other operand of the sum that the MLP goes into
        (why,) = (check.why for check in step.checks if check.name == "cut")
        assert "the tap of layer 1 was kept" in why
        assert f"{LLAMA}.1/aten::add/Add'" in why


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ('{"layers":{"0":{"producer":"nothing","output_index":0}}}', "no op has that name"),
        ('{"layers":{"0":"__module.model.norm/aten::mul/Multiply"}}', "early form"),
        ('{"layers":{}}', "no layers"),
    ],
)
def test_unreadable_annotation_fails(text: str, words: str, export_copy: Callable[..., Path]) -> None:
    step = judge(export_copy("llama"), None, text)
    assert statuses(step) == {"annotation": FAILED}
    assert words in step.checks[0].why


def test_without_annotation_it_does_not_apply(export_copy: Callable[..., Path]) -> None:
    step = judge(export_copy("llama"), None)
    assert (step.status, step.checks) == (NOT_APPLICABLE, ())
    assert "irtools annotate" in step.why


def test_weights_of_zeros_prove_nothing(export_copy: Callable[..., Path], truth_of: Callable[[str], Entries]) -> None:
    directory = export_copy("llama")
    reweigh(directory, lambda size: np.zeros(size))
    step = judge(directory, truth_of("llama"))
    assert (statuses(step)["head"], statuses(step)["cut"]) == (WARNING, WARNING)


def test_embeddings_are_made_up_when_their_part_is_missing(
    export_copy: Callable[..., Path], truth_of: Callable[[str], Entries]
) -> None:
    directory = export_copy("llava")
    (directory / "openvino_text_embeddings_model.xml").unlink()
    step = judge(directory, truth_of("llava"))
    assert set(statuses(step).values()) == {PASSED}
    assert "openvino_text_embeddings_model.xml" in step.checks[0].did


def test_unknown_input_is_named(export_copy: Callable[..., Path], truth_of: Callable[[str], Entries]) -> None:
    directory = export_copy("llama")
    ir = IR(directory / "openvino_model.xml")
    ir.rename_tensor("position_ids", "places")
    ir.save()
    step = judge(directory, truth_of("llama"))
    assert step.status == PASSED  # what needs only the graph was judged all the same
    numeric = [check for check in step.checks if check.status == NOT_APPLICABLE]
    assert [check.name for check in numeric] == ["values", "head", "cut"]
    assert all("'places'" in check.why for check in numeric)
