"""Seeded defects of a target that the runtime rejects or runs differently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from defects import Defect
from defects_mtp import NET, NOTE, WARNING, converted, layer, on, renamed, set_inputs, without_beam, without_states
from ir_edit import IR

BASE, VL = "qwen3", "qwen3_5_vl"
X, L = "openvino_model.xml", "openvino_language_model.xml"
LOGITS = '<layer [^>]*type="Result"[^>]*output_names="(?!present)'
CONVOLUTION = '<layer [^>]*type="ReadValue"[^>]*>\\s*<data [^>]*conv'


def seed(
    name: str, change: Callable[[IR], object], code: str, at: str, *, base: str = BASE, file: str = X, **more: Any
) -> Defect:
    return Defect(name, base, on(file, change), code, file, at, **more)


def nothing(directory: Path) -> None:
    """No edit, because the fixture has the defect."""


def unfused(which: int | None = None) -> Callable[[IR], None]:
    """Replace one attention, or all of them, with its query."""

    def change(ir: IR) -> None:
        attentions = ir.typed("ScaledDotProductAttention")
        for attention in attentions if which is None else attentions[which : which + 1]:
            query = ir.source(attention, 0)
            ir.feed(ir.consumers(ir.output(attention)), query)
            ir.remove(attention)

    return change


def own_state(ir: IR) -> None:
    """Add a state between two layers."""
    sum_ = ir.layer("layers.0/aten::add/Add_1")
    source = ir.output(sum_)
    data = {"variable_id": "own", "variable_type": "f32", "variable_shape": "?,?,32"}
    read = ir.add("ReadValue", [source], name="own_read", opset="opset6", data=data, outputs=[("f32", (-1, -1, 32))])
    ir.rewire(ir.layer("layers.1/aten::add/Add"), 0, ir.output(read))
    ir.add("Assign", [source], name="own_write", opset="opset6", data={"variable_id": "own"})


def unused_input(ir: IR) -> None:
    data = {"shape": "?,?", "element_type": "i64"}
    ir.add("Parameter", [], name="foo", data=data, outputs=[("i64", (-1, -1))], before=ir.typed("Const")[0])


def scaled_logits(ir: IR) -> None:
    result = ir.result("logits")
    scale = next(c for c in ir.typed("Const") if c.find("data").get("shape") == "1, 1, 1")
    ir.between(
        result,
        0,
        lambda source: ir.add(
            "Divide",
            [source, ir.output(scale)],
            name="scaled",
            data={"auto_broadcast": "numpy", "m_pythondiv": "true"},
            outputs=[("f32", (-1, -1, 512))],
        ),
    )
    result.set("output_names", "logits")


def retyped(name: str, narrow: str, wide: str) -> Callable[[IR], None]:
    """Change the type of an input, followed by a Convert to the old type."""

    def change(ir: IR) -> None:
        ir.set_input(name, element_type=narrow)
        source = ir.output(ir.parameter(name))
        readers = ir.consumers(source)
        dims = [int(dim.text) for dim in ir.port_of(source).findall("dim")]
        data = {"destination_type": wide}
        back = ir.add("Convert", [source], name=f"{name}_back", data=data, outputs=[(wide, dims)])
        ir.feed(readers, ir.output(back))

    return change


def half_logits(ir: IR) -> None:
    result = ir.result("logits")
    data, outputs = {"destination_type": "f16"}, [("f16", (-1, -1, 512))]
    ir.between(result, 0, lambda source: ir.add("Convert", [source], name="half", data=data, outputs=outputs))
    result.set("output_names", "logits")


def keys(ir: IR) -> None:
    converted(ir.typed("ScaledDotProductAttention")[0], 1, ir)


def values(ir: IR) -> None:
    converted(ir.typed("ScaledDotProductAttention")[2], 2, ir, "f16")


ATTENTION_3 = "ReadValue_188594"  # the key cache of the last layer of qwen3

DEFECTS = (
    seed("run-logits-renamed", lambda ir: ir.rename_tensor("logits", "scores"), "RUN001", LOGITS),
    Defect("run-encoder", "bert", nothing, "RUN001", X, LOGITS),
    seed("run-stateless", without_states, "RUN002", NET),
    seed("run-stateless-llama", without_states, "RUN002", NET, base="llama"),
    seed("run-unfused", unfused(), "RUN003", NET, **WARNING),
    seed("run-unfused-falcon", unfused(), "RUN003", NET, base="falcon", **WARNING),
    seed("run-one-layer-unfused", unfused(3), "RUN004", layer(ATTENTION_3), **WARNING),
    seed("run-state-of-its-own", own_state, "RUN004", layer("own_read"), **WARNING),
    seed("run-keys-converted", keys, "RUN005", layer("to_narrow")),
    seed("run-values-converted", values, "RUN005", layer("to_narrow")),
    seed("run-input-ids-friendly", renamed("input_ids", tensor=False), "RUN006", layer("input_ids_x")),
    seed("run-position-ids-friendly", renamed("position_ids", tensor=False), "RUN006", layer("position_ids_x")),
    seed(
        "run-inputs-embeds-friendly",
        renamed("inputs_embeds", tensor=False),
        "RUN006",
        layer("inputs_embeds_x"),
        base=VL,
        file=L,
    ),
    seed("run-mask-friendly", renamed("attention_mask", tensor=False), "RUN006", layer("attention_mask_x"), **NOTE),
    seed("run-position-ids-tensor", renamed("position_ids", friendly=False), "RUN007", layer("position_ids")),
    seed("run-position-ids-both", renamed("position_ids"), "RUN007", layer("position_ids_x")),
    seed("run-position-ids-other-name", renamed("position_ids", "places"), "RUN007", layer("places")),
    seed("run-position-ids-vl", renamed("position_ids"), "RUN007", layer("position_ids_x"), base=VL, file=L),
    seed("run-unused-input", unused_input, "RUN007", layer("foo"), **WARNING),
    seed(
        "run-input-ids-tensor", renamed("input_ids", friendly=False), "RUN008", layer("input_ids"), causes=("RUN007",)
    ),
    seed("run-inputs-embeds-both", renamed("inputs_embeds"), "RUN008", NET, base=VL, file=L, causes=("RUN007",)),
    seed("run-beam-idx-removed", without_beam, "RUN008", NET),
    seed("run-beam-idx-renamed", renamed("beam_idx"), "RUN008", NET, **WARNING),
    seed("run-mask-renamed", renamed("attention_mask"), "RUN008", NET, **WARNING),
    Defect("run-linear-attention", VL, nothing, "RUN009", L, CONVOLUTION, **NOTE),
    Defect("run-linear-attention-moe", "qwen3_5_moe_vl", nothing, "RUN009", L, CONVOLUTION, **NOTE),
    seed("run-logits-scaled", scaled_logits, "RUN010", LOGITS, **NOTE),
    seed("run-logits-scaled-llama", scaled_logits, "RUN010", LOGITS, base="llama", **NOTE),
    Defect("run-embedding-of-gpt2", "gpt2", nothing, "RUN011", X, NET, **NOTE),
    seed(
        "run-embedding-renamed",
        lambda ir: ir.layer("self.model.embed_tokens.weight").set("name", "table"),
        "RUN011",
        NET,
        **NOTE,
    ),
    seed("run-ids-i32", retyped("input_ids", "i32", "i64"), "RUN012", layer("input_ids")),
    seed("run-mask-i32", retyped("attention_mask", "i32", "i64"), "RUN012", layer("attention_mask"), **WARNING),
    seed(
        "run-embeddings-f16", retyped("inputs_embeds", "f16", "f32"), "RUN012", layer("inputs_embeds"), base=VL, file=L
    ),
    seed("run-logits-f16", half_logits, "RUN012", LOGITS),
    seed("run-fixed-batch", set_inputs("input_ids", shape="1,?"), "RUN013", layer("input_ids"), **WARNING),
    seed("run-fixed-length", set_inputs("input_ids", shape="?,7"), "RUN013", layer("input_ids"), **WARNING),
    seed(
        "run-positions-of-rank-2",
        set_inputs("position_ids", shape="?,?"),
        "RUN014",
        layer("position_ids"),
        base=VL,
        file=L,
    ),
    seed(
        "run-positions-of-rank-3",
        set_inputs("position_ids", shape="3,?,?"),
        "RUN014",
        layer("position_ids"),
        base="llava",
        file=L,
    ),
    seed("run-text-positions-of-rank-3", set_inputs("position_ids", shape="3,?,?"), "RUN015", layer("position_ids")),
    seed("run-text-positions-of-rank-1", set_inputs("position_ids", shape="?"), "RUN015", layer("position_ids")),
)
