"""Seeded defects of EAGLE-3 pairs, and of other drafts that are judged in the same rules."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eagle3
from defects import Defect
from defects_dfl import ENTRY, PAIR, at_draft, operands_swapped, rt, scope_renamed, target
from defects_mtp import NET, NOTE, WARNING, layer
from ir_edit import IR

X, DRAFT, CONFIG = "openvino_model.xml", "../draft/openvino_model.xml", "../draft/config.json"
ANNOTATION = "<hidden_states_decoder_layers "
HIDDEN = '<layer [^>]*output_names="last_hidden_state"'
PLACE = "<hidden_layers_list "
TABLE = layer("self.model.d2t")


def pair(name: str, change: Callable[[IR], object] | None, code: str, at: str, **more: Any) -> Defect:
    """A defect of an EAGLE-3 draft for the target ``llama``, reported at the draft."""
    base, variant = more.pop("base", "llama"), more.pop("variant", {})
    seeded = more.pop("seeded", None)

    def edit(directory: Path) -> None:
        eagle3.write(directory.parent / "draft", change, **variant)
        if seeded is not None:
            seeded(directory)

    return Defect(name, base, edit, code, more.pop("file", DRAFT), at, options={"draft": "llama"}, **more)


def tensor(old: str) -> Callable[[IR], object]:
    return lambda ir: ir.rename_tensor(old, f"{old}_x")


def friendly(old: str) -> Callable[[IR], object]:
    return lambda ir: ir.rename_friendly(old, old[:5])


def shape(text: str) -> Callable[[IR], object]:
    return lambda ir: ir.set_input("hidden_states", shape=text)


def scope(ir: IR) -> None:
    for op in ir.layers:
        op.set("name", op.get("name").replace("midlayer", "layers.0"))


def swapped(ir: IR) -> None:
    """The residual sum has the skip connection as its second operand."""
    ir.swap(ir.layer("midlayer/aten::add/Add_1"), 0, 1)


def unnamed_table(ir: IR) -> None:
    ir.layer("self.model.d2t").set("name", "Constant_1")


def without_table(ir: IR) -> None:
    ir.remove(next(op for op in ir.typed("Result") if ir.producer(op, 0).get("name") == "self.model.d2t"))


def without_end(directory: Path, end: object = None) -> None:
    """Leave a draft without tokenizer and without generation settings, with this end token in its config.json."""
    draft = directory.parent / "draft"
    for path in (*draft.glob("openvino_tokenizer.*"), draft / "generation_config.json"):
        path.unlink()
    content = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps(content | {"eos_token_id": end}, indent=2))


def several_ends(directory: Path) -> None:
    without_end(directory, [2, 3])


def listed(name: str, value: str, code: str = "DFL023", at: str = PLACE, **more: Any) -> Defect:
    return pair(f"eagle3-layers-{name}", rt(value, "hidden_layers_list"), code, at, **more)


def own_head(tokens: int, width: int = 32) -> Callable[[IR], object]:
    """Give a DFlash draft logits of its own; the weights are other bytes of its .bin."""

    def change(ir: IR) -> None:
        result = ir.typed("Result")[0]
        data = {"element_type": "f32", "shape": f"{tokens}, {width}", "offset": "0", "size": str(4 * tokens * width)}
        weights = ir.add("Const", [], name="own_head", data=data, outputs=[("f32", (tokens, width))])
        made = ir.add(
            "MatMul",
            [ir.source(result, 0), ir.output(weights)],
            name="own_logits",
            data={"transpose_a": "false", "transpose_b": "true"},
            outputs=[("f32", (-1, -1, tokens))],
        )
        ir.rewire(result, 0, ir.output(made))
        result.set("output_names", "logits")

    return change


def assistant_tokens(number: int) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        path = directory / "generation_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "num_assistant_tokens": number}, indent=2))

    return change


def draft_config(**values: object) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        path = directory.parent / "draft" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}, indent=2))

    return change


def selector(directory: Path) -> None:
    for suffix in ("xml", "bin"):
        draft = directory.parent / "draft"
        shutil.copy(draft / f"openvino_model.{suffix}", draft / f"openvino_selector_model.{suffix}")


def hidden_output(ir: IR) -> None:
    """The target returns the input of its output projection under the name that the runtime uses."""
    projection = ir.producer(ir.typed("Result")[0], 0)
    ir.add("Result", [ir.source(projection, 0)], name="mine").set("output_names", "last_hidden_state")


def locator_gone(number: int) -> Callable[[IR], object]:
    """The annotation names an unknown op for one layer."""

    def change(ir: IR) -> None:
        entry = ir.rt_info.find("hidden_states_decoder_layers")
        content = json.loads(entry.get("value"))
        content["layers"][str(number)]["producer"] = "gone"
        entry.set("value", json.dumps(content))

    return change


EAGLE3 = (
    pair("eagle3-mode-missing", rt(None, "eagle3_mode"), "DFL022", NET),
    pair("eagle3-mode-false", rt("False", "eagle3_mode"), "DFL022", "<eagle3_mode "),
    pair("eagle3-mode-maybe", rt("maybe", "eagle3_mode"), "DFL022", "<eagle3_mode "),
    listed("with-commas", "0,1,2"),
    listed("in-brackets", "[0, 1, 2]"),
    listed("with-a-space-after", "0 1 2 "),
    listed("of-two", "0 1"),
    listed("of-four", "0 1 2 3"),
    listed("empty", ""),
    listed("twice", "0 1 1"),
    listed("out-of-range", "0 1 9", "DFL005"),
    listed("negative", "0 1 -1", "DFL005"),
    pair("eagle3-without-layers", rt(None, "hidden_layers_list"), "DFL021", NET),
    pair("eagle3-unfound", None, "DFL021", NET, file=X, base="qwen3", seeded=target(scope_renamed)),
    pair("eagle3-unfound-layer", None, "DFL021", NET, file=X, base="qwen3", seeded=target(operands_swapped)),
    pair("eagle3-hidden-states-tensor", tensor("hidden_states"), "DFL024", layer("hidden_states")),
    pair("eagle3-hidden-states-friendly", friendly("hidden_states"), "DFL024", layer("hidde")),
    pair("eagle3-input-ids-tensor", tensor("input_ids"), "DFL024", layer("input_ids")),
    pair("eagle3-input-ids-friendly", friendly("input_ids"), "DFL024", layer("input")),
    pair("eagle3-position-ids-tensor", tensor("position_ids"), "DFL024", layer("position_ids")),
    pair("eagle3-logits-renamed", tensor("logits"), "DFL024", NET),
    pair("eagle3-fixed-width", shape("?,?,96"), "DFL025", layer("hidden_states")),
    pair("eagle3-batch-1", shape("1,?,?"), "DFL025", layer("hidden_states")),
    pair(
        "eagle3-position-ids-i32",
        lambda ir: ir.set_input("position_ids", element_type="i32"),
        "DFL025",
        layer("position_ids"),
    ),
    pair("eagle3-converted", None, "DFL026", layer("hidden_states"), variant={"projection": "converted"}),
    pair(
        "eagle3-projection-of-another-input",
        lambda ir: ir.swap(ir.layer("fc/aten::linear/MatMul"), 0, 1),
        "DFL026",
        layer("hidden_states"),
    ),
    pair(
        "eagle3-not-transposed",
        None,
        "DFL027",
        layer("__module.model.fc/aten::linear/MatMul"),
        variant={"projection": "not transposed"},
    ),
    pair(
        "eagle3-other-width",
        None,
        "DFL027",
        layer("__module.model.fc/aten::linear/MatMul"),
        variant={"projection": "narrow"},
    ),
    pair("eagle3-scope-renamed", scope, "DFL028", NET),
    pair("eagle3-operands-swapped", swapped, "DFL028", NET),
    pair("eagle3-d2t-i32", None, "DFL029", TABLE, variant={"kind": "int32"}),
    pair("eagle3-d2t-beyond", None, "DFL029", TABLE, variant={"offset": 1}),
    pair("eagle3-d2t-negative", None, "DFL029", TABLE, variant={"offset": -1}),
    pair(
        "eagle3-d2t-unnamed",
        unnamed_table,
        "DFL029",
        '<layer [^>]*output_names="d2t"',
        variant={"tokens": 256, "offset": 9},
        **WARNING,
    ),
    pair("eagle3-d2t-lost", without_table, "DFL029", NET, variant={"tokens": 256}, **WARNING),
    pair(
        "eagle3-fewer-tokens",
        None,
        "DFL030",
        '<layer [^>]*output_names="logits"',
        variant={"tokens": 256, "offset": 9},
        **NOTE,
    ),
    pair("eagle3-stateless", None, "DFL033", NET, variant={"lacking": "state"}),
    pair("eagle3-unfused", None, "DFL033", NET, variant={"lacking": "attention"}),
    pair("eagle3-no-end-token", None, "DFL035", '"eos_token_id"', file=CONFIG, seeded=without_end),
    pair("eagle3-several-end-tokens", None, "DFL035", '"eos_token_id"', file=CONFIG, seeded=several_ends),
    pair("eagle3-taken-output", None, "DFL034", HIDDEN, file=X, seeded=target(hidden_output)),
    pair("eagle3-later-entry", rt("1", "eagle3_later"), "DFL032", "<eagle3_later ", **NOTE),
)

DFLASH = (
    Defect("dfl-taken-output", "qwen3", target(hidden_output), "DFL034", X, HIDDEN, options=PAIR),
    Defect("dfl-taken-output-without-draft", "qwen3", target(hidden_output), "DFL034", X, HIDDEN, **NOTE),
    at_draft("dfl-own-head-of-fewer-tokens", own_head(64), "DFL030", '<layer [^>]*output_names="logits"', **NOTE),
    at_draft("dfl-own-head-of-more-tokens", own_head(600), "DFL009", '<layer [^>]*output_names="logits"'),
    Defect(
        "dfl-more-tokens-than-a-block",
        "qwen3",
        assistant_tokens(4),
        "DFL031",
        "generation_config.json",
        '"num_assistant_tokens"',
        options=PAIR,
        **WARNING,
    ),
    Defect(
        "dfl-block-of-1",
        "qwen3",
        draft_config(block_size=1),
        "DFL031",
        "../draft/config.json",
        '"block_size"',
        options=PAIR,
        **WARNING,
    ),
    at_draft("dfl-two-block-sizes", rt("8", "dflash", "block_size"), "DFL031", ENTRY, **WARNING),
    at_draft("dfl-block-size-in-rt-info", rt("4", "dflash", "block_size"), "DFL032", ENTRY, **NOTE),
    Defect("dfl-selector", "qwen3", selector, "DFL032", "../draft/openvino_selector_model.xml", options=PAIR, **NOTE),
    at_draft("dfl-annotated-draft", rt('{"layers":{}}', "hidden_states_decoder_layers"), "HID021", ANNOTATION, **NOTE),
    Defect(
        "dfl-annotation-in-draft-alone",
        "qwen3_dflash",
        target(rt("no JSON", "hidden_states_decoder_layers")),
        "HID021",
        X,
        ANNOTATION,
        **NOTE,
    ),
    Defect("hid-gone-where-the-draft-reads", "qwen3", target(locator_gone(2)), "HID009", X, ANNOTATION, options=PAIR),
    Defect(
        "hid-gone-where-no-draft-reads",
        "qwen3",
        target(locator_gone(3)),
        "HID009",
        X,
        ANNOTATION,
        options=PAIR,
        **WARNING,
    ),
)

DEFECTS = (*EAGLE3, *DFLASH)
