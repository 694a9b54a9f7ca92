"""The step state: valid exports pass, and miswired state fails the expected check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ir_edit import IR

import irtools
from irtools.prove.drive import Session, UndrivableError
from irtools.prove.files import Files
from irtools.prove.measure_state import measure
from irtools.prove.state import state
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, Step
from irtools.prove.worker import Measured
from tests.marks import mostly_slow

TOKENS = [5, 9, 33, 7, 10, 42, 3]
CHECKS = ("continuation", "causality", "reset", "growth", "reorder")


class Here:
    """Worker that measures in this process."""

    def __init__(self, export: irtools.Export) -> None:
        self.session = Session(Files.of(export))

    def measure(self, step: str, request: dict[str, Any], progress: object = None) -> Measured:
        assert step == "state"
        try:
            return Measured(measure(self.session, request))
        except UndrivableError as error:
            return Measured({}, inapplicable=str(error))
        except RuntimeError as error:
            return Measured({}, broken=str(error))


def judge(directory: Path) -> Step:
    export = irtools.open_export(directory)
    return state(export, Here(export), TOKENS)  # type: ignore[arg-type]


def statuses(step: Step) -> dict[str, str]:
    return {check.name: check.status for check in step.checks}


@pytest.mark.parametrize("name", ["gemma4_vl"])
def test_sound_target_passes(name: str, fixtures: Path) -> None:
    assert statuses(judge(fixtures / name)) == dict.fromkeys(CHECKS, PASSED)


def test_sound_head_passes_with_its_target(fixtures: Path) -> None:
    step = judge(fixtures / "qwen3_5_vl")
    assert statuses(step) == dict.fromkeys((*CHECKS, *(f"mtp-{name}" for name in CHECKS)), PASSED)
    growth = {check.name: check.figures for check in step.checks if check.name.endswith("growth")}
    # One layer of four attends, with a key and a value; the others keep a convolution and a matrix.
    assert growth["growth"] == {"growing": 2, "fixed": 6}
    assert growth["mtp-growth"] == {"growing": 2, "fixed": 0}


def _keep_only_the_last(ir: IR) -> None:
    """Write a key state without its past."""
    assign = ir.typed("Assign")[0]
    joined = ir.producer(assign, 0)
    assert joined.get("type") == "Concat"
    ir.rewire(assign, 0, ir.source(joined, 1))


def _cross(ir: IR) -> None:
    """Swap the written values of two states."""
    first, _, second = ir.typed("Assign")[:3]
    one, other = ir.source(first, 0), ir.source(second, 0)
    ir.rewire(first, 0, other)
    ir.rewire(second, 0, one)


def _forget_beams(ir: IR) -> None:
    """Read a state without reordering it."""
    beam = ir.parameter("beam_idx")
    gather = next(ir.by_id(edge.get("to-layer")) for edge in ir.consumers(ir.output(beam)))
    assert gather.get("type") == "Gather"
    for edge in ir.consumers(ir.output(gather)):
        edge.set("from-layer", ir.source(gather, 0)[0])
        edge.set("from-port", ir.source(gather, 0)[1])
    ir.remove(gather)


def _show_the_future(ir: IR) -> None:
    """Unmask all tokens in attention."""
    attention = ir.typed("ScaledDotProductAttention")[0]
    mask = ir.source(attention, 3)
    dims = [int(dim.text) for dim in ir.port_of(mask).findall("dim")]
    how = {"auto_broadcast": "numpy"}
    nothing = ir.add("Subtract", [mask, mask], name="nothing", data=how, outputs=[("f32", dims)])
    ir.rewire(attention, 3, ir.output(nothing))


LLAMA = ("llama", "openvino_model.xml", "")
HEAD = ("qwen3_5_vl", "openvino_mtp_model.xml", "mtp-")


@pytest.mark.parametrize(
    ("change", "part", "expected"),
    mostly_slow(
        [
            (_keep_only_the_last, LLAMA, {"continuation", "growth"}),
            (_forget_beams, LLAMA, {"reorder"}),
            (_show_the_future, LLAMA, {"causality", "continuation"}),
            (_cross, LLAMA, {"continuation"}),
            (_forget_beams, HEAD, {"reorder"}),
            (_show_the_future, HEAD, {"causality"}),
        ],
        names=3,
    ),
)
def test_miswired_state_fails_the_check_that_sees_it(
    change: Callable[[IR], None], part: tuple[str, str, str], expected: set[str], export_copy: Callable[..., Path]
) -> None:
    name, file, prefix = part
    directory = export_copy(name)
    ir = IR(directory / file)
    change(ir)
    ir.save()
    found = {check for check, status in statuses(judge(directory)).items() if status == FAILED}
    assert found == {prefix + check for check in expected}


def test_a_head_that_cannot_be_read_does_not_hide_the_target(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("qwen3_5_vl")
    (directory / "openvino_mtp_model.bin").unlink()

    step = judge(directory)

    assert step.broken
    assert statuses(step) == dict.fromkeys(CHECKS, PASSED)


def test_without_beam_idx_nothing_is_reordered(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    ir = IR(directory / "openvino_model.xml")
    while ir.consumers(ir.output(ir.parameter("beam_idx"))):
        _forget_beams(ir)
    ir.remove(ir.parameter("beam_idx"))
    ir.save()
    step = judge(directory)
    assert statuses(step) == dict.fromkeys(CHECKS, PASSED) | {"reorder": NOT_APPLICABLE}
    assert "beam_idx" in step.checks[-1].why


def test_a_model_without_state_is_not_judged(fixtures: Path) -> None:
    step = judge(fixtures / "zoo" / "llama_stateless")
    assert step.status == NOT_APPLICABLE
    assert "text-generation-with-past" in step.checks[0].why
