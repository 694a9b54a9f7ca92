"""Defects of MTP heads that do not change the text: edits of a copy of the trained export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import defects_mtp as mtp
import numpy as np
from ir_edit import IR

from irtools.ir.constants import Constant, iter_graphs, read_constants
from irtools.model.document import Document

Edit = Callable[[Path], object]
HEAD = "openvino_mtp_model"
FREQUENCIES = "rotary_emb/aten::to/Convert"
STD = 0.05  # what the exporter's random weights of the shared exports have


def values(change: Callable[[Any], Any], *names: str) -> Edit:
    """Change f32 constants of the head whose friendly names end in a name, or contain it if it ends in a dot."""

    def wanted(constant: Constant) -> bool:
        return any(constant.name.endswith(name) or (name.endswith(".") and name in constant.name) for name in names)

    return rewritten(wanted, lambda olds: [change(old) for old in olds])


def rewritten(wanted: Callable[[Constant], bool], change: Callable[[list[Any]], list[Any]]) -> Edit:
    """Change the bytes of constants of the head, all at once and in file order."""

    def edit(directory: Path) -> None:
        file = directory / f"{HEAD}.bin"
        stored = bytearray(file.read_bytes())
        constants = [c for c in read_constants(iter_graphs(Document(file.with_suffix(".xml")).scan)) if wanted(c)]
        assert constants
        kinds = [{"f32": np.float32, "f16": np.float16}[constant.element_type] for constant in constants]
        olds = [np.frombuffer(bytes(stored[c.offset : c.end]), k) for c, k in zip(constants, kinds, strict=True)]
        for constant, kind, new in zip(constants, kinds, change(olds), strict=True):
            stored[constant.offset : constant.end] = np.asarray(new, kind).tobytes()
        file.write_bytes(stored)

    return edit


def norms(change: Callable[[list[Any]], list[Any]]) -> Edit:
    """Change the weights of all norms; the first two are those before the fusion."""

    def wanted(constant: Constant) -> bool:
        floats = constant.element_type in ("f32", "f16")
        return floats and len(constant.shape) >= 3 and max(constant.shape) == constant.elements >= 16

    return rewritten(wanted, change)


def noise(size: float) -> Edit:
    """Add noise to the weights of the fusion, relative to their standard deviation."""
    generator = np.random.default_rng(3)
    changed = "fc.weight", "fc.weight_compressed"
    return values(lambda old: old + generator.normal(0, size * old.astype(np.float32).std(), old.size), *changed)


def drawn(*names: str) -> Edit:
    """Random values in place of some constants: the same ones each time, in whatever order the tests run."""

    def edit(directory: Path) -> None:
        generator = np.random.default_rng(5)
        values(lambda old: generator.normal(0, STD, old.size), *names)(directory)

    return edit


def without(*pairs: tuple[str, str]) -> Edit:
    """Connect the readers of an op to the op before it."""

    def edit(ir: IR) -> None:
        for op, before in pairs:
            own = ir.layer(before)
            for edge in ir.consumers(ir.output(ir.layer(op))):
                edge.set("from-layer", own.get("id"))
                edge.set("from-port", ir.output(own)[1])

    return mtp.head(edit)


def shuffled(old: Any) -> Any:
    return np.random.default_rng(5).permutation(old)


def half(old: Any) -> Any:
    """The second half of the frequencies does not rotate."""
    return np.where(np.arange(old.size) < old.size // 2, old, 0)


def shown_embeddings(ir: IR) -> None:
    """Make an input an output too, which gives it a second name."""
    source = ir.output(ir.parameter("inputs_embeds"))
    ir.add("Result", [source], name="exposed", before=ir.result("logits")).set("output_names", "last_hidden_state")


ATTENTION, MLP, ALL = "self_attn.", "mlp.", (".weight",)
FIRST_NORM = "language_model.layers.0.input_layernorm/aten::mul/Multiply_1"
Q, K = "self_attn.q_norm/aten::mul/Multiply_1", "self_attn.k_norm/aten::mul/Multiply_1"

FAILING: dict[str, tuple[Edit, set[str]]] = {
    "concat swapped": (mtp.head(mtp.swapped), {"agreement", "wiring"}),
    "hidden state unused": (mtp.head(mtp.feed_twice(0)), {"agreement", "hidden-states"}),
    "embeddings unused": (mtp.head(mtp.feed_twice(1)), {"agreement", "embeddings"}),
    "other output of that name": (mtp.target(mtp.exposed(FIRST_NORM)), {"hand-over"}),
    "embeddings under that name": (mtp.target(shown_embeddings), {"hand-over"}),
    "fusion zeroed": (
        values(lambda old: old * 0, "fc.weight"),
        {"agreement", "hidden-states", "embeddings", "positions"},
    ),
    "fusion shuffled": (values(shuffled, "fc.weight"), {"agreement", "weights"}),
    "head of another export": (drawn(*ALL), {"agreement", "weights"}),
    "head of a narrower export": (mtp.from_other("qwen3_5_vl", *mtp.MTP_FILES), {"ports"}),
    "final norm removed": (mtp.head(mtp.output_from(mtp.SUM)), {"final-norm"}),
    "output of a norm inside": (mtp.head(mtp.output_from(mtp.NORM)), {"feed-forward"}),
    "positions ignored": (values(lambda old: old * 0, FREQUENCIES), {"positions", "rotary"}),
    "half the rotary dimension": (values(half, FREQUENCIES), {"rotary"}),
    "rotary frequencies in another order": (values(lambda old: old[::-1], FREQUENCIES), {"rotary"}),
    "queries random": (drawn("q_proj.weight"), {"weights"}),
    "keys random": (drawn("k_proj.weight"), {"weights"}),
    "norm weights minus one": (norms(lambda olds: [old - 1 for old in olds]), {"agreement", "norm-weights"}),
    "attention random": (drawn(ATTENTION), {"attention", "weights"}),
    "MLP random": (drawn(MLP), {"feed-forward", "weights"}),
    "overflow": (values(lambda old: old * 1e38, "mlp.down_proj.weight"), {"values"}),
}
"""Edit, and the checks of the step ``head`` that fail."""

UNSEEN: dict[str, tuple[Edit, str, str]] = {
    "norms of the fusion exchanged": (
        norms(lambda olds: [olds[1], olds[0], *olds[2:]]),
        "fusion-norms",
        "cannot see norm weights that are exchanged",
    ),
    "norm weights plus one": (
        norms(lambda olds: [old + 1 for old in olds]),
        "norm-weights",
        "too large by one",
    ),
    "noise of 1%": (noise(0.01), "fusion-noise", "cannot see as much"),
    "noise of 5%": (noise(0.05), "fusion-noise", "cannot see as much"),
}
"""Edit, the check that says that it cannot see it, and its words."""

WARNING: dict[str, tuple[Edit, set[str]]] = {
    "norms of queries and keys removed": (
        without((Q, "self_attn/aten::view/Reshape_3"), (K, "self_attn/aten::view/Reshape_1")),
        {"layer"},
    ),
    "norm of the hidden state removed": (mtp.head(mtp.unnormed(1, "hidden_states")), {"input-norms"}),
}
"""Edit, and the checks that warn."""
