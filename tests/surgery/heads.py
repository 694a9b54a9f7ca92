"""Tiny targets whose lm_head has a drawn layout of weights, for tests of what reads or copies a head.

:func:`layouts` is a hypothesis strategy of :class:`HeadLayout`. :func:`save_target` writes the ``.xml`` and ``.bin`` of
one, :func:`inputs_for` gives inputs to run it with, and :func:`decoded_weights` computes its weights with numpy. A test
looks like this::

    @given(layout=layouts(), data=st.data())
    def test_the_head_of_any_layout(layout: HeadLayout, data: st.DataObject) -> None:
        with TemporaryDirectory() as directory:
            path = save_target(layout, Path(directory))
            rows = data.draw(st.integers(1, layout.vocabulary - 1))
            before = run(path, inputs_for(layout))["logits"]
            ...

The forms are those of NNCF 3.4 and of ``openvino.save_model``. For 4-bit weights, neither groups of an odd size are
drawn nor one scale per token with an odd width above 15: the CPU plugin of OpenVINO 2026.4.1 reads past such rows, and
its results differ from run to run, in both orientations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from hypothesis import strategies as st
from openvino import opset13 as ops

__all__ = ["FOUR_BITS", "HeadLayout", "build_target", "decoded_weights", "inputs_for", "layouts", "run", "save_target"]

FLOATS = ("f32", "f16", "bf16")
SIGNED = ("i8", "i4", "nf4")
UNSIGNED = ("u8", "u4")
FOUR_BITS = ("i4", "u4", "nf4")
TYPES = {name: getattr(ov.Type, name) for name in (*FLOATS, *SIGNED, *UNSIGNED)}
# QLoRA, appendix E; OpenVINO's `nf4` is the same table.
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)


@dataclass(frozen=True)
class HeadLayout:
    """Layout of the weights of an lm_head.

    Attributes
    ----------
    element_type : str
        Of the stored weights: ``f32``, ``f16``, ``bf16``, ``u8``, ``i8``, ``u4``, ``i4`` or ``nf4``.
    vocabulary, hidden : int
        V and H; both may be odd.
    groups : int
        Scales of each token; 0 for one scale per token without a Reshape, or for a float type. The group size is
        ``hidden // groups``.
    zero_point : str
        ``none``; ``each`` for one per scale; ``one`` for a single one (u8 and u4 of older NNCF versions).
    transposed : bool
        True for weights ``[V, H]`` (``transpose_b``), False for ``[H, V]``.
    half : bool
        True if compressed weights are decompressed in f16, with a Convert to f32 at the end, as NNCF does for an
        export; False for f32 without it.
    tied : str
        ``none``: the target reads ``inputs_embeds``; ``ops``: it reads ``input_ids``, and a Gather reads the same ops
        as the head; ``bytes``: the Gather has constants of its own over the same bytes.
    tail : str
        Ops between head and logits: ``none``, ``bias``, ``softcap``, ``multiply`` or ``divide``.
    save_as_f16 : bool
        True if ``save_model`` compresses f32 constants, so that a Convert follows each of them.
    named : bool
        True if the Result has the friendly name ``logits``.
    seed : int
        Of the numbers.
    """

    element_type: str = "f32"
    vocabulary: int = 8
    hidden: int = 4
    groups: int = 0
    zero_point: str = "none"
    transposed: bool = True
    half: bool = False
    tied: str = "none"
    tail: str = "none"
    save_as_f16: bool = False
    named: bool = True
    seed: int = 0

    @property
    def compressed(self) -> bool:
        """True if the weights have scales."""
        return self.element_type not in FLOATS

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the stored weights."""
        if not self.groups:
            return (self.vocabulary, self.hidden) if self.transposed else (self.hidden, self.vocabulary)
        grouped = (self.groups, self.hidden // self.groups)
        return (self.vocabulary, *grouped) if self.transposed else (*grouped, self.vocabulary)

    @property
    def scale_shape(self) -> tuple[int, ...]:
        """Shape of the scales, with 1 for the dimension of a group or token."""
        axis = len(self.stored_shape) - (1 if self.transposed else 2)
        return tuple(1 if number == axis else size for number, size in enumerate(self.stored_shape))


def layouts(*, largest: int = 70, tails: bool = True, tied: bool = True) -> st.SearchStrategy[HeadLayout]:
    """Strategy of layouts.

    Parameters
    ----------
    largest : int
        Largest vocabulary.
    tails : bool
        False for a head whose output is the logits, as MTP needs it without a graft.
    tied : bool
        False for targets that read ``inputs_embeds``, as in a decomposed export.
    """

    @st.composite
    def draw_layout(draw: st.DrawFn) -> HeadLayout:
        element_type = draw(st.sampled_from((*FLOATS, *SIGNED, *UNSIGNED)))
        compressed = element_type not in FLOATS
        groups = draw(st.sampled_from((0, 2, 3, 4))) if compressed and element_type not in ("i8", "u8") else 0
        hidden = 2 * draw(st.integers(1, 4)) * groups if groups else draw(st.integers(2, 33))
        if element_type in FOUR_BITS and hidden > 15:
            hidden -= hidden % 2
        zero_point = draw(st.sampled_from(("none", "each", "one"))) if element_type in UNSIGNED else "none"
        transposed = draw(st.booleans())
        ties = ("none", "none", "ops", "bytes") if tied and transposed else ("none",)
        return HeadLayout(
            element_type=element_type,
            vocabulary=draw(st.integers(2, largest)),
            hidden=hidden,
            groups=groups,
            zero_point=zero_point,
            transposed=transposed,
            half=compressed and draw(st.booleans()),
            tied=draw(st.sampled_from(ties)),
            tail=draw(st.sampled_from(("none", "none", "bias", "softcap", "multiply", "divide"))) if tails else "none",
            save_as_f16=draw(st.booleans()),
            named=draw(st.booleans()),
            seed=draw(st.integers(0, 2**16)),
        )

    return draw_layout()


# -- numbers ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Numbers:
    """Stored numbers: the weights as integers (bits of a float, codes of nf4), scales and zero points."""

    weights: np.ndarray[Any, Any]
    scale: np.ndarray[Any, Any]
    zero: np.ndarray[Any, Any] | None


def _numbers(layout: HeadLayout) -> _Numbers:
    random = np.random.default_rng(layout.seed)
    shape = layout.stored_shape
    if not layout.compressed:
        values = random.normal(0, 1, shape).astype(np.float32)
        if layout.element_type == "f16":
            return _Numbers(values.astype(np.float16), np.ones(()), None)
        bits = values.view(np.uint32)
        if layout.element_type == "bf16":
            return _Numbers((bits >> 16).astype(np.uint16), np.ones(()), None)
        return _Numbers(values, np.ones(()), None)
    low, high = {"i8": (-127, 128), "u8": (0, 256), "i4": (-8, 8), "u4": (0, 16), "nf4": (0, 16)}[layout.element_type]
    scale = random.uniform(0.01, 0.1, layout.scale_shape).astype(np.float16 if layout.half else np.float32)
    zero = None
    if layout.zero_point != "none":
        zero_shape = layout.scale_shape if layout.zero_point == "each" else (1,) * len(shape)
        zero = random.integers(low, high, zero_shape)
    return _Numbers(random.integers(low, high, shape), scale, zero)


def decoded_weights(layout: HeadLayout) -> np.ndarray[Any, Any]:
    """The weights ``[V, H]`` as numbers of 64 bits; exact up to the roundings of the ops (f16 if ``half``)."""
    numbers = _numbers(layout)
    if layout.element_type == "bf16":
        values = (numbers.weights.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    elif layout.element_type == "nf4":
        values = np.array(NF4)[numbers.weights]
    else:
        values = numbers.weights.astype(np.float64)
    if numbers.zero is not None:
        values = values - numbers.zero
    values = values * numbers.scale.astype(np.float64)
    matrix = (layout.vocabulary, layout.hidden) if layout.transposed else (layout.hidden, layout.vocabulary)
    values = values.reshape(matrix)
    return values if layout.transposed else values.T


def _constant(values: np.ndarray[Any, Any], element_type: str, name: str) -> Any:
    """A constant of any element type; 4-bit numbers are packed, the first in the lower half of a byte."""
    kind = TYPES[element_type]
    if element_type in FOUR_BITS:
        codes = (values.astype(np.int64) & 15).astype(np.uint8).ravel()
        codes = np.append(codes, np.zeros(len(codes) % 2, np.uint8))
        stored = codes[::2] | (codes[1::2] << 4)
    else:
        stored = values.astype(np.uint16 if element_type == "bf16" else kind.to_dtype())
    # A tensor that is made from an array does not keep it.
    tensor = ov.Tensor(kind, list(values.shape))
    tensor.data.reshape(-1).view(np.uint8)[:] = np.frombuffer(stored.tobytes(), np.uint8)
    return _named(ops.constant(tensor), name)


# -- graph -----------------------------------------------------------------------------


def _weights(layout: HeadLayout, name: str) -> Any:
    """The ops from the stored weights to the matrix of the MatMul, in f32."""
    numbers = _numbers(layout)
    node = _constant(numbers.weights, layout.element_type, name)
    if not layout.compressed:
        return (
            node if layout.element_type == "f32" else _named(ops.convert(node, "f32"), f"{name}/fq_weights_0/convert")
        )
    kind = "f16" if layout.half else "f32"
    node = _named(ops.convert(node, kind), f"{name}/convert")
    if numbers.zero is not None:
        zero = _constant(numbers.zero, layout.element_type, f"{name}/zero_point")
        zero = _named(ops.convert(zero, kind), f"{name}/zero_point/convert")
        node = _named(ops.subtract(node, zero), f"{name}/zero_point/subtract")
    scale = _constant(numbers.scale, kind, f"{name}/scale")
    node = _named(ops.multiply(node, scale), f"{name}/fq_weights_1")
    if layout.groups:
        matrix = (layout.vocabulary, layout.hidden) if layout.transposed else (layout.hidden, layout.vocabulary)
        node = _named(ops.reshape(node, np.array(matrix, np.int64), False), f"{name}/fq_weights_1/reshape")
    return _named(ops.convert(node, "f32"), f"{name}/fq_weights_1/convert") if layout.half else node


def _named(node: Any, name: str) -> Any:
    node.set_friendly_name(name)
    return node


def build_target(layout: HeadLayout) -> ov.Model:
    """A model from tokens or embeddings through a scale and a shift to the head and the logits."""
    weights = _weights(layout, "lm_head.weight")
    if layout.tied == "none":
        tokens = _named(ops.parameter([-1, -1, layout.hidden], np.float32), "inputs_embeds")
        value = tokens
    else:
        tokens = _named(ops.parameter([-1, -1], np.int64), "input_ids")
        table = weights if layout.tied == "ops" else _weights(layout, "embed_tokens.weight")
        value = _named(ops.gather(table, tokens, np.int64(0)), "embed_tokens/Gather")
    tokens.output(0).set_names({tokens.get_friendly_name()})
    random = np.random.default_rng(layout.seed + 1)
    factor, shift = (random.normal(1, 0.1, (1, 1, layout.hidden)).astype(np.float32) for _ in range(2))
    value = _named(ops.multiply(value, _constant(factor, "f32", "norm.weight")), "norm/Multiply")
    value = _named(ops.add(value, _constant(shift, "f32", "norm.bias")), "norm/Add")
    logits = _named(ops.matmul(value, weights, False, layout.transposed), "lm_head/MatMul")
    if layout.tail == "bias":
        bias = random.normal(0, 1, layout.vocabulary).astype(np.float32)
        logits = _named(ops.add(logits, _constant(bias, "f32", "lm_head.bias")), "lm_head/Add")
    elif layout.tail == "softcap":
        cap = np.float32(30)
        logits = ops.multiply(ops.tanh(ops.divide(logits, ops.constant(cap))), ops.constant(cap))
    elif layout.tail in ("multiply", "divide"):
        logits = getattr(ops, layout.tail)(logits, ops.constant(np.float32(2)))
    logits.output(0).set_names({"logits"})
    result = ops.result(logits)
    if layout.named:
        result.set_friendly_name("logits")
    return ov.Model([result], [tokens], "target")


def save_target(layout: HeadLayout, directory: Path, name: str = "openvino_language_model") -> Path:
    """Write the target with OpenVINO; returns the path of its ``.xml``."""
    path = directory / f"{name}.xml"
    ov.save_model(build_target(layout), path, compress_to_fp16=layout.save_as_f16)
    return path


def inputs_for(layout: HeadLayout, *, batch: int = 2, tokens: int = 3) -> Mapping[str, np.ndarray[Any, Any]]:
    """Inputs to run the target with, by tensor name; token ids cover the ends of the vocabulary."""
    random = np.random.default_rng(layout.seed + 2)
    if layout.tied == "none":
        return {"inputs_embeds": random.normal(0, 1, (batch, tokens, layout.hidden)).astype(np.float32)}
    ids = random.integers(0, layout.vocabulary, (batch, tokens))
    ids[0, 0], ids[-1, -1] = 0, layout.vocabulary - 1
    return {"input_ids": ids}


def run(
    path: Path, inputs: Mapping[str, np.ndarray[Any, Any]], *, exact: bool = True
) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs of a model on the CPU, by tensor name (an output with several names has each of them).

    Parameters
    ----------
    exact : bool
        Run in f32 without requantising the activations, so that equal weights give equal bits.
    """
    config = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"} if exact else {}
    compiled = ov.Core().compile_model(path, "CPU", config)
    given = {port.get_any_name(): inputs[port.get_any_name()] for port in compiled.inputs}
    results = compiled(given)
    return {name: np.array(results[port]) for port in compiled.outputs for name in port.get_names()}
