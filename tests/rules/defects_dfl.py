"""Seeded defects of DFlash pairs: in the draft, in the target, and between them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from defects import Defect
from defects_mtp import FIXTURES, MTP_FILES, NET, NOTE, WARNING, layer, renamed, set_inputs
from defects_run import scaled_logits
from ir_edit import IR, edit

DRAFT, BASE = "qwen3_dflash", "qwen3"
X, L = "openvino_model.xml", "openvino_language_model.xml"
RESULT = '<layer [^>]*type="Result"'
ENTRY = "<dflash>"
PAIR = {"draft": DRAFT}


def seed(name: str, change: Callable[[IR], object], code: str, at: str, **more: Any) -> Defect:
    """A defect of the draft's IR; the draft is verified without a target."""
    return Defect(name, DRAFT, lambda directory: edit(directory / X, change), code, X, at, **more)


def rt(value: str | None, *path: str) -> Callable[[IR], object]:
    return lambda ir: ir.set_rt(value, *path)


def ids(value: str | None) -> Callable[[IR], object]:
    return rt(value, "dflash", "target_layer_ids")


def mask(value: str | None) -> Callable[[IR], object]:
    return rt(value, "dflash", "mask_token_id")


def second_input(ir: IR) -> None:
    data = {"shape": "?,?", "element_type": "i64"}
    before = ir.typed("Const")[0]
    made = ir.add("Parameter", [], name="input_ids", data=data, outputs=[("i64", (-1, -1))], before=before)
    made.find("output/port").set("names", "input_ids")


def second_output(ir: IR) -> None:
    source = ir.source(ir.typed("Result")[0], 0)
    ir.add("Result", [source], name="second").set("output_names", "logits")


def unused(name: str) -> Callable[[IR], None]:
    """Replace an input with zeros of its shape for all its consumers."""

    def change(ir: IR) -> None:
        source = ir.output(ir.parameter(name))
        readers = [edge for edge in ir.consumers(source) if ir.by_id(edge.get("to-layer")).get("type") != "ShapeOf"]
        zero = next(c for c in ir.typed("Const") if c.find("data").get("element_type") == "f32")
        dims = [int(dim.text) for dim in ir.port_of(source).findall("dim")]
        shape = ir.add(
            "Const",
            [],
            name="one_row",
            data={"element_type": "i64", "shape": "3", "offset": "0", "size": "24"},
            outputs=[("i64", (3,))],
        )
        made = ir.add(
            "Broadcast",
            [ir.output(zero), ir.output(shape)],
            name="nothing",
            opset="opset3",
            data={"mode": "numpy"},
            outputs=[("f32", dims)],
        )
        ir.feed(readers, ir.output(made))

    return change


def before_norm(name: str) -> Callable[[IR], None]:
    """Let the output read a residual sum instead; the output keeps its tensor names."""

    def change(ir: IR) -> None:
        result = ir.typed("Result")[0]
        result.set("output_names", "last_hidden_state")
        cut = ir.producer(result, 0)
        ir.rewire(cut if cut.get("type") == "Slice" else result, 0, ir.output(ir.layer(name)))

    return change


def model_gone(directory: Path) -> None:
    for suffix in ("xml", "bin"):
        (directory.parent / "draft" / f"openvino_model.{suffix}").unlink()


def pair(name: str, base: str, change: Callable[[Path], object], code: str, file: str, at: str, **more: Any) -> Defect:
    """A defect of the pair that is reported at the target."""
    return Defect(name, base, change, code, file, at, options=PAIR, **more)


def target(change: Callable[[IR], object], file: str = X) -> Callable[[Path], object]:
    return lambda directory: edit(directory / file, change)


def in_draft(change: Callable[[IR], object]) -> Callable[[Path], object]:
    """Change the draft, which is beside the copy."""
    return lambda directory: edit(directory.parent / "draft" / X, change)


def nothing(directory: Path) -> None:
    """No edit, because the pair of fixtures does not fit."""


def renamed_table(ir: IR) -> None:
    ir.layer("self.model.embed_tokens.weight").set("name", "table")


def unannotated(ir: IR) -> None:
    ir.set_rt(None, "hidden_states_decoder_layers")


def scope_renamed(ir: IR) -> None:
    """No annotation, and scopes that the runtime's guess does not recognise."""
    unannotated(ir)
    for op in ir.layers:
        op.set("name", op.get("name").replace("layers.", "blocks."))


def operands_swapped(ir: IR) -> None:
    """No annotation, and the residual sum of layer 1 has the skip connection as its second operand."""
    unannotated(ir)
    ir.swap(ir.layer("layers.1/aten::add/Add_1"), 0, 1)


def gated_attention(ir: IR) -> None:
    """No annotation, and the attention output is scaled before its projection."""
    unannotated(ir)
    scale = next(c for c in ir.typed("Const") if c.find("data").get("shape") == "1, 1, 1")
    projection = ir.producer(ir.layer("layers.1/aten::add/Add"), 1)
    ir.between(
        projection,
        0,
        lambda source: ir.add(
            "Multiply",
            [source, ir.output(scale)],
            name="gated",
            data={"auto_broadcast": "numpy"},
            outputs=[("f32", (-1, -1, 32))],
        ),
    )


def other_tokenizer(directory: Path) -> None:
    path = directory.parent / "draft" / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    first, second = list(vocabulary)[:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(content))


def head_in_draft(name: str) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        for file in MTP_FILES:
            shutil.copy(FIXTURES / name / file, directory.parent / "draft" / file)

    return change


def token_renamed(directory: Path) -> None:
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text())
    content["added_tokens"][-1]["content"] = "<|other|>"
    path.write_text(json.dumps(content))


def without_embeddings(directory: Path) -> None:
    for suffix in ("xml", "bin"):
        (directory / f"openvino_text_embeddings_model.{suffix}").unlink()


RT_INFO = (
    seed("dfl-mode-missing", rt(None, "dflash_mode"), "DFL001", NET),
    seed("dfl-mode-false", rt("False", "dflash_mode"), "DFL001", "<dflash_mode "),
    seed("dfl-mode-maybe", rt("maybe", "dflash_mode"), "DFL001", "<dflash_mode "),
    seed("dfl-mask-missing", mask(None), "DFL002", ENTRY),
    seed("dfl-mask-abc", mask("abc"), "DFL002", ENTRY),
    seed("dfl-mask-empty", mask(""), "DFL002", ENTRY),
    seed("dfl-mask-with-rest", mask("258.5"), "DFL002", ENTRY, **WARNING),
    seed("dfl-mask-negative", mask("-1"), "DFL003", ENTRY),
    seed("dfl-mask-too-big", mask("99999"), "DFL003", ENTRY),
    seed("dfl-ids-missing", ids(None), "DFL004", ENTRY),
    seed("dfl-ids-empty", ids(""), "DFL004", ENTRY),
    seed("dfl-ids-spaces", ids("0 1 2"), "DFL004", ENTRY),
    seed("dfl-ids-brackets", ids("[0,1,2]"), "DFL004", ENTRY),
    seed("dfl-ids-blank-item", ids("0,1,2, "), "DFL004", ENTRY),
    seed("dfl-ids-twice", ids("0,1,1"), "DFL004", ENTRY),
    seed("dfl-ids-negative", ids("0,1,-1"), "DFL005", ENTRY),
)

PORTS = (
    seed("dfl-hidden-states-renamed", renamed("hidden_states", friendly=False), "DFL006", layer("hidden_states")),
    seed("dfl-position-ids-renamed", renamed("position_ids"), "DFL006", NET),
    seed("dfl-attention-mask-renamed", renamed("attention_mask"), "DFL006", NET),
    seed("dfl-inputs-embeds-renamed", renamed("inputs_embeds"), "DFL006", NET),
    seed("dfl-beam-idx-renamed", renamed("beam_idx"), "DFL006", layer("beam_idx_x")),
    seed("dfl-both-inputs", second_input, "DFL006", layer("input_ids"), causes=("DFL018",)),
    seed("dfl-both-outputs", second_output, "DFL006", layer("second"), causes=("DFL003",)),
    seed("dfl-output-renamed", lambda ir: ir.rename_tensor("last_hidden_state", "hidden"), "DFL006", NET),
    seed("dfl-hidden-states-rank-2", set_inputs("hidden_states", shape="?,96"), "DFL007", layer("hidden_states")),
    seed("dfl-hidden-states-batch-2", set_inputs("hidden_states", shape="2,?,96"), "DFL007", layer("hidden_states")),
    seed("dfl-position-ids-i32", set_inputs("position_ids", element_type="i32"), "DFL007", layer("position_ids")),
    seed("dfl-mask-f32", set_inputs("attention_mask", element_type="f32"), "DFL007", layer("attention_mask")),
    seed("dfl-beam-idx-i64", set_inputs("beam_idx", element_type="i64"), "DFL007", layer("beam_idx")),
    seed("dfl-indivisible-width", set_inputs("hidden_states", shape="?,?,100"), "DFL008", layer("hidden_states")),
    seed("dfl-hidden-states-unused", unused("hidden_states"), "DFL018", layer("hidden_states"), causes=("IR025",)),
    seed("dfl-embeddings-unused", unused("inputs_embeds"), "DFL018", layer("inputs_embeds"), causes=("IR025",)),
    seed("dfl-output-before-norm", before_norm("layers.1/aten::add/Add_1"), "DFL019", RESULT),
    seed("dfl-output-of-layer-0", before_norm("layers.0/aten::add/Add_1"), "DFL019", RESULT),
)


def at_draft(name: str, change: Callable[[IR], object], code: str, at: str, **more: Any) -> Defect:
    """A defect of the pair that is reported at the draft."""
    return Defect(name, BASE, in_draft(change), code, f"../draft/{X}", at, options=PAIR, **more)


PAIRS = (
    at_draft("dfl-ids-out-of-range", ids("0,1,4"), "DFL005", ENTRY),
    at_draft("dfl-two-ids", ids("0,1"), "DFL008", layer("hidden_states")),
    at_draft("dfl-mask-beyond-target", mask("512"), "DFL003", ENTRY),
    Defect(
        "dfl-target-twice-as-wide",
        "qwen3_5_vl_trained",
        nothing,
        "DFL009",
        f"../draft/{X}",
        layer("inputs_embeds"),
        options=PAIR,
    ),
    pair("dfl-logits-scaled", BASE, target(scaled_logits), "DFL010", X, '<layer [^>]*output_names="logits"'),
    pair(
        "dfl-logits-renamed",
        BASE,
        target(lambda ir: ir.rename_tensor("logits", "scores")),
        "DFL010",
        X,
        NET,
        causes=("RUN001",),
    ),
    pair("dfl-embedding-renamed", BASE, target(renamed_table), "DFL011", X, NET),
    pair("dfl-embedding-of-gpt2", "gpt2", nothing, "DFL011", X, NET),
    pair("dfl-vl-without-embeddings", "qwen3_5_vl", without_embeddings, "DFL012", L, NET, causes=("EXP004", "MTP006")),
    Defect(
        "dfl-draft-of-ids-for-vl",
        "qwen3_5_vl",
        in_draft(lambda ir: ir.rename_tensor("inputs_embeds", "input_ids")),
        "DFL012",
        f"../draft/{X}",
        ENTRY,
        options=PAIR,
        causes=("DFL007",),
    ),
    pair("dfl-nothing-to-guess", "falcon", nothing, "DFL013", X, NET),
    pair("dfl-scopes-renamed", BASE, target(scope_renamed), "DFL013", X, NET),
    pair("dfl-guess-without-layer-1", BASE, target(operands_swapped), "DFL013", X, NET),
    pair(
        "dfl-guess-inside-layer-1",
        BASE,
        target(gated_attention),
        "DFL013",
        X,
        layer("__module.model.layers.1/aten::add/Add"),
        **WARNING,
    ),
    Defect("dfl-other-tokenizer", BASE, other_tokenizer, "DFL014", "../draft/tokenizer.json", options=PAIR, **WARNING),
    Defect("dfl-plain-draft-for-vl", "qwen3_5_vl", nothing, "DFL015", f"../draft/{X}", NET, options={"draft": "llama"}),
    Defect(
        "dfl-plain-draft-for-gemma", "gemma4_vl", nothing, "DFL015", f"../draft/{X}", NET, options={"draft": "qwen3"}
    ),
    Defect(
        "dfl-head-in-draft",
        BASE,
        head_in_draft("qwen3_5_vl"),
        "DFL016",
        "../draft/openvino_mtp_model.xml",
        options=PAIR,
    ),
    Defect(
        "dfl-moe-head-in-draft",
        "llama",
        head_in_draft("qwen3_5_moe_vl"),
        "DFL016",
        "../draft/openvino_mtp_model.xml",
        options=PAIR,
    ),
    Defect("dfl-no-model-in-draft", BASE, model_gone, "DFL017", "../draft", options=PAIR),
    Defect("dfl-no-model-in-draft-of-vl", "qwen3_5_vl", model_gone, "DFL017", "../draft", options=PAIR),
    Defect("dfl-other-added-token", BASE, token_renamed, "DFL014", "../draft/tokenizer.json", options=PAIR, **WARNING),
    at_draft("dfl-draft-widened", set_inputs("inputs_embeds", shape="?,?,64"), "DFL009", layer("inputs_embeds")),
)

GUESSES = (
    Defect("dfl-guess-of-falcon", "falcon", nothing, "DFL020", X, NET, **NOTE),
    Defect("dfl-guess-of-mixtral", "mixtral", nothing, "DFL020", X, NET, **NOTE),
    Defect("dfl-guess-misses-one", BASE, target(operands_swapped), "DFL020", X, NET, **NOTE),
)

DEFECTS = (*RT_INFO, *PORTS, *PAIRS, *GUESSES)
