"""Seeded defects of the hidden-state annotation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from defects import Defect, rewrite
from ir_edit import IR, edit
from lxml import etree

BASE = "qwen3"
X, L = "openvino_model.xml", "openvino_language_model.xml"
KEY = "hidden_states_decoder_layers"
ENTRY = f"<{KEY}[ /]"
EXPECT = {"expect_mtp": True}
NOTE, WARNING = {"severity": "note"}, {"severity": "warning"}

Layers = dict[str, Any]


def entry(ir: IR) -> Any:
    return ir.rt_info.find(KEY)


def changed(change: Callable[[Layers], object], file: str = X) -> Callable[[Path], object]:
    """Change the layers of the annotation."""

    def edited(ir: IR) -> None:
        content = json.loads(entry(ir).get("value"))
        change(content["layers"])
        entry(ir).set("value", json.dumps(content, separators=(",", ":")))

    return lambda directory: edit(directory / file, edited)


def written(text: str | None, file: str = X) -> Callable[[Path], object]:
    """Replace the value of the annotation; None removes the attribute."""

    def edited(ir: IR) -> None:
        if text is None:
            del entry(ir).attrib["value"]
        else:
            entry(ir).set("value", text)

    return lambda directory: edit(directory / file, edited)


def on(change: Callable[[IR], object], file: str = X) -> Callable[[Path], object]:
    return lambda directory: edit(directory / file, change)


def set_layer(layer: str, **members: Any) -> Callable[[Layers], object]:
    return lambda layers: layers[layer].update(members)


def tap(name: str, layer: str = "1", index: int = 0) -> Callable[[Layers], object]:
    return set_layer(layer, producer=name, output_index=index)


def raw_index(text: str) -> Callable[[Path], object]:
    """Write an output index in a spelling that Python's json does not produce."""
    index = b"&quot;output_index&quot;:"
    return rewrite(X, lambda data: data.replace(index + b"0", index + text.encode(), 1))


def shifted(layers: Layers) -> None:
    """Replace the output of each block with its input."""
    for layer in ("3", "2", "1"):
        layers[layer] = layers[str(int(layer) - 1)]
    layers["0"] = {"producer": "__module.model.embed_tokens/aten::embedding/Gather", "output_index": 0}


def early(layers: Layers) -> None:
    for key, value in layers.items():
        layers[key] = value["producer"]


def another(name: str, layer: str = "1") -> Callable[[IR], None]:
    """Give another live op the name of a layer's producer."""

    def change(ir: IR) -> None:
        producer = json.loads(entry(ir).get("value"))["layers"][layer]["producer"]
        ir.layer(name).set("name", producer)

    return change


def dead(ir: IR) -> None:
    """Let the annotation name a copy of a residual sum that nothing reads."""
    original = ir.layer(SUM_1)
    sources = [ir.source(original, index) for index in (0, 1)]
    ir.add("Add", sources, name="copy", data={"auto_broadcast": "numpy"}, outputs=[("f32", (-1, -1, 32))])
    content = json.loads(entry(ir).get("value"))
    content["layers"]["1"]["producer"] = "copy"
    entry(ir).set("value", json.dumps(content))


def cut_off(ir: IR) -> None:
    """Bypass the feed-forward sum of layer 2, so that the op in its annotation is dead."""
    attention = ir.layer("__module.model.layers.2/aten::add/Add")
    ir.feed(ir.consumers(ir.output(ir.layer("__module.model.layers.2/aten::add/Add_1"))), ir.output(attention))


def moved_below(ir: IR) -> None:
    """Move the entry below another key of the same rt_info."""
    ir.rt_info.find("optimum").append(entry(ir))


def second_container(ir: IR) -> None:
    etree.SubElement(ir.net, "rt_info").append(entry(ir))


def empty_first_container(ir: IR) -> None:
    ir.rt_info.addprevious(etree.Element("rt_info"))


def twice(spelling: str) -> Callable[[Path], object]:
    """Repeat the entry in another spelling, after the first."""

    def change(data: bytes) -> bytes:
        start = data.index(f"<{KEY} ".encode())
        end = data.index(b"/>", start) + 2
        value = data[data.index(b'value="', start) : end - 2].rstrip()
        again = f"<{spelling} ".encode() + value + b" />"
        return data[:end] + again + data[end:]

    return rewrite(X, change)


def seed(name: str, change: Callable[[Layers], object], code: str, **more: Any) -> Defect:
    return Defect(name, BASE, changed(change), code, X, ENTRY, **more)


MID, LAST = "__module.model.layers.1/aten::add/Add", "__module.model.layers.3/aten::add/Add_1"
SUM_1 = "__module.model.layers.1/aten::add/Add_1"
EMBEDDING = "__module.model.embed_tokens/aten::embedding/Gather"
ATTENTION = "__module.model.layers.1.self_attn/aten::scaled_dot_product_attention/ScaledDotProductAttention"

PRESENCE = (
    Defect("hid-missing", "llama", lambda directory: None, "HID001", X, "<net ", **NOTE),
    Defect(
        "hid-missing-under-expectation",
        "qwen3_5_vl",
        on(lambda ir: ir.rt_info.remove(entry(ir)), L),
        "HID001",
        L,
        "<net ",
        options=EXPECT,
    ),
    Defect("hid-below-another-key", BASE, on(moved_below), "HID002", X, ENTRY),
    Defect("hid-in-second-rt-info", BASE, on(second_container), "HID002", X, ENTRY),
    Defect("hid-behind-empty-rt-info", BASE, on(empty_first_container), "HID002", X, ENTRY),
    Defect("hid-twice", BASE, twice(KEY), "HID003", X, ENTRY, **WARNING),
    Defect("hid-twice-as-info", BASE, twice(f'info name="{KEY}"'), "HID003", X, ENTRY, **WARNING),
)

FORM = (
    Defect("hid-not-json", BASE, written('{"layers":{"0":'), "HID004", X, ENTRY),
    Defect("hid-nan", BASE, written('{"layers":{"0":NaN}}'), "HID004", X, ENTRY),
    Defect("hid-a-list", BASE, written("[]"), "HID004", X, ENTRY),
    Defect("hid-no-layers", BASE, written('{"version":1}'), "HID004", X, ENTRY),
    Defect("hid-layers-a-list", BASE, written('{"layers":[]}'), "HID004", X, ENTRY),
    Defect("hid-empty", BASE, written(""), "HID004", X, ENTRY),
    Defect("hid-no-value", BASE, written(None), "HID004", X, ENTRY),
    Defect(
        "hid-lone-surrogate",
        BASE,
        written('{"layers":{"0":{"producer":"\\ud800","output_index":0}}}'),
        "HID004",
        X,
        ENTRY,
    ),
    seed("hid-early-form", early, "HID005"),
    Defect("hid-early-form-one-layer", BASE, written('{"version":1,"layers":{"0":"name"}}'), "HID005", X, ENTRY),
    seed("hid-gap", lambda layers: layers.pop("1"), "HID006"),
    seed("hid-last-missing", lambda layers: layers.pop("3"), "HID006"),
    seed("hid-no-layer", lambda layers: layers.clear(), "HID006"),
    seed("hid-padded-key", lambda layers: layers.update({"01": layers.pop("1")}), "HID006"),
    seed("hid-extra-layer", lambda layers: layers.update({"4": layers["3"]}), "HID007", causes=("HID015",), **WARNING),
    seed(
        "hid-extra-layer-under-expectation",
        lambda layers: layers.update({"9": {"producer": LAST, "output_index": 0}}),
        "HID007",
        options=EXPECT,
    ),
    seed("hid-word-key", lambda layers: layers.update(last=layers["3"]), "HID007", **WARNING),
    seed("hid-index-negative", set_layer("1", output_index=-1), "HID008"),
    seed("hid-index-float", set_layer("1", output_index=0.0), "HID008"),
    seed("hid-index-string", set_layer("1", output_index="0"), "HID008"),
    seed("hid-index-bool", set_layer("1", output_index=False), "HID008"),
    seed("hid-index-null", set_layer("1", output_index=None), "HID008"),
    Defect("hid-index-minus-zero", BASE, raw_index("-0"), "HID008", X, ENTRY),
    Defect("hid-index-huge", BASE, raw_index("18446744073709551616"), "HID008", X, ENTRY),
    seed("hid-index-missing", lambda layers: layers["1"].pop("output_index"), "HID008"),
    seed("hid-producer-number", set_layer("1", producer=7), "HID008"),
    seed("hid-locator-a-name", lambda layers: layers.update({"1": layers["1"]["producer"]}), "HID008"),
)

PRODUCERS = (
    seed("hid-producer-unknown", tap("__module.model.layers.1/aten::add/Add_7"), "HID009"),
    seed("hid-producer-empty", tap(""), "HID009"),
    Defect(
        "hid-producer-renamed",
        BASE,
        on(lambda ir: ir.layer(LAST.replace("3", "1")).set("name", "sum")),
        "HID009",
        X,
        ENTRY,
    ),
    Defect("hid-producer-dead", BASE, on(dead), "HID010", X, ENTRY),
    Defect("hid-producer-cut-off", BASE, on(cut_off), "HID010", X, ENTRY),
    Defect("hid-producer-named-twice", BASE, on(another(MID)), "HID011", X, ENTRY),
    Defect("hid-producer-like-an-input", BASE, on(another("beam_idx")), "HID011", X, ENTRY, causes=("RUN006",)),
    seed("hid-index-one", set_layer("1", output_index=1), "HID012"),
    seed("hid-index-port-id", set_layer("2", output_index=2), "HID012"),
    seed("hid-rank-4", tap(ATTENTION), "HID013"),
    seed("hid-rank-2", tap("attention_mask"), "HID013"),
    seed("hid-other-width", tap("__module.model.layers.1.mlp/aten::mul/Multiply"), "HID014"),
    seed("hid-logits", tap("__module.lm_head/aten::linear/MatMul", "3"), "HID014"),
    seed("hid-shared", lambda layers: layers.update({"2": layers["1"]}), "HID015"),
    seed("hid-all-the-same", lambda layers: layers.update(dict.fromkeys(layers, layers["0"])), "HID015"),
)

LOCATIONS = (
    seed("hid-embedding", tap(EMBEDDING, "0"), "HID016"),
    seed("hid-embedding-for-last", tap(EMBEDDING, "3"), "HID016"),
    seed("hid-shifted", shifted, "HID017", causes=("HID016",)),
    seed("hid-two-exchanged", lambda layers: layers.update({"1": layers["2"], "2": layers["1"]}), "HID017"),
    seed("hid-after-attention", tap(MID), "HID018"),
    seed("hid-norm-of-next-block", tap("__module.model.layers.2.input_layernorm/aten::mul/Multiply"), "HID018"),
    seed("hid-before-final-norm", tap(LAST, "3"), "HID019"),
    Defect(
        "hid-before-final-norm-vl",
        "qwen3_5_vl",
        changed(tap("__module.model.model.language_model.layers.3/aten::add/Add_1", "3"), L),
        "HID019",
        L,
        ENTRY,
    ),
)

UNVERIFIED = tuple(
    Defect(
        f"hid-not-to-be-compared-{base}",
        base,
        on(lambda ir: ir.rename_tensor("logits", "scores"), file),
        "HID020",
        file,
        ENTRY,
        causes=("RUN001", "MTP050"),
        **NOTE,
    )
    for base, file in ((BASE, X), ("qwen3_5_vl", L))
)

DEFECTS = (*UNVERIFIED, *PRESENCE, *FORM, *PRODUCERS, *LOCATIONS)
