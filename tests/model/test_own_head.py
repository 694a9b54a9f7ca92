"""A head's own projection against the target's lm_head, in the forms in which NNCF stores weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino
import openvino.opset13 as ops
import pytest

import irtools
from irtools.ir.pread import Allowance, WeightsReader
from irtools.model.own_head import Likeness, find_own_head, like_lm_head
from irtools.model.part import PartFacts

ROWS, WIDTH, GROUP = 256, 64, 32
VALUES = np.random.default_rng(3).integers(0, 15, (ROWS, WIDTH), dtype="u1")


def reader(document: irtools.Document) -> WeightsReader:
    return WeightsReader(document.weights_path, Allowance(100_000))


def stored(form: str, values: np.ndarray) -> openvino.Output:
    """Weights of shape [rows, 64] in one of the forms of NNCF 3.4."""
    rows = len(values)
    if form in ("f32", "f16", "bf16"):
        constant = ops.constant(values.astype("f4"), getattr(openvino.Type, form))
        return constant.output(0) if form == "f32" else ops.convert(constant, "f32").output(0)
    shape = [rows, WIDTH // GROUP, GROUP] if "grouped" in form else [rows, WIDTH]
    kind = openvino.Type.u4 if form.startswith("u4") else openvino.Type.u8
    wide = ops.convert(ops.constant(values.reshape(shape), kind), "f32")
    scale = (1 + values.reshape(shape)[..., :1]).astype("f4")
    if "asymmetric" in form:
        wide = ops.subtract(wide, ops.convert(ops.constant(values.reshape(shape)[..., :1] // 2, kind), "f32"))
    value = ops.multiply(wide, ops.constant(scale))
    return (ops.reshape(value, ops.constant([0, WIDTH]), special_zero=True) if "grouped" in form else value).output(0)


def part(path: Path, form: str, values: np.ndarray, tokens: np.ndarray | None = None) -> PartFacts:
    """A file whose output ``logits`` is a projection of its input."""
    hidden = ops.parameter([-1, -1, WIDTH], openvino.Type.f32)
    logits = ops.matmul(hidden, stored(form, values), False, True)
    if tokens is not None:
        low = ops.broadcast(ops.constant(np.float32(-1e4)), ops.constant([1, 1, ROWS]))
        shape = ops.concat([ops.gather(ops.shape_of(hidden), [0, 1], 0), ops.constant([ROWS])], 0)
        low = ops.broadcast(low, shape)
        logits = ops.scatter_update(low, ops.constant(tokens), logits, ops.constant(2))
    result = ops.result(logits)
    result.output(0).set_names({"logits"})
    openvino.save_model(openvino.Model([result], [hidden]), path, compress_to_fp16=False)
    return PartFacts(irtools.Document(path))


FORMS = ("f32", "f16", "bf16", "u8", "u8 asymmetric", "u4 grouped", "u4 asymmetric grouped")
CHANGES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Likeness]] = {
    "all rows": (lambda values: values, Likeness.SAME),
    "first rows": (lambda values: values[:96], Likeness.SAME),
    "zeros": (np.zeros_like, Likeness.ZERO),
    "other rows": (lambda values: values[::-1], Likeness.OTHER),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_compared_in_every_form(form: str, change: str, tmp_path: Path) -> None:
    make, wanted = CHANGES[change]
    target, draft = part(tmp_path / "t.xml", form, VALUES), part(tmp_path / "d.xml", form, make(VALUES))
    own = find_own_head(draft)
    assert own is not None
    assert own.rows == len(make(VALUES))

    assert like_lm_head(own, draft, target, reader) is wanted


@pytest.mark.parametrize("shift", [0, 1])
def test_chosen_rows_are_compared_with_those_of_their_tokens(shift: int, tmp_path: Path) -> None:
    tokens = np.array([200, 3, 77, 41, 9])
    target = part(tmp_path / "t.xml", "u8", VALUES)
    draft = part(tmp_path / "d.xml", "u8", VALUES[tokens], tokens + shift)
    own = find_own_head(draft)
    assert own is not None

    assert like_lm_head(own, draft, target, reader) is (Likeness.OTHER if shift else Likeness.SAME)


@pytest.mark.parametrize("form", ["f16", "bf16"])
def test_floats_of_other_types_are_compared_by_value(form: str, tmp_path: Path) -> None:
    target = part(tmp_path / "t.xml", "f32", VALUES)
    same, other = part(tmp_path / "d.xml", form, VALUES), part(tmp_path / "o.xml", form, VALUES[::-1])
    for draft, wanted in ((same, Likeness.SAME), (other, Likeness.OTHER)):
        own = find_own_head(draft)
        assert own is not None
        assert like_lm_head(own, draft, target, reader) is wanted


def test_other_forms_are_not_guessed(tmp_path: Path) -> None:
    target = part(tmp_path / "t.xml", "u8", VALUES)
    floats, grouped = (part(tmp_path / f"{n}.xml", form, VALUES) for n, form in enumerate(("f16", "u4 grouped")))
    for draft in (floats, grouped):
        own = find_own_head(draft)
        assert own is not None
        assert like_lm_head(own, draft, target, reader) is Likeness.UNKNOWN
    own = find_own_head(floats)
    assert own is not None
    floats.document.weights_path.unlink()
    assert like_lm_head(own, floats, target, reader) is Likeness.UNKNOWN


def test_a_used_up_allowance_is_not_exceeded(tmp_path: Path) -> None:
    target, draft = (part(tmp_path / name, "u8 asymmetric", VALUES) for name in ("t.xml", "d.xml"))
    own, allowance = find_own_head(draft), Allowance(1000)
    assert own is not None

    found = like_lm_head(own, draft, target, lambda document: WeightsReader(document.weights_path, allowance))

    assert found is Likeness.UNKNOWN
    assert 0 <= allowance.left < 1000
