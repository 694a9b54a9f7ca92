"""Seeded defects of MTP heads, their targets and text embeddings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from defects import Defect
from ir_edit import IR, edit

BASE = "qwen3_5_vl_trained"
M, L, E = "openvino_mtp_model.xml", "openvino_language_model.xml", "openvino_text_embeddings_model.xml"
NET = "<net "
RESULT = '<layer [^>]*type="Result"'
LOGITS = '<layer [^>]*output_names="logits"'
ATTENTION = '<layer [^>]*type="ScaledDotProductAttention"'
READ = '<layer [^>]*type="ReadValue"'
SECOND_READ = f"{READ}(?!.*{READ})"
READ_KEYS = READ + '[^>]*>\\s*<data variable_id="[^"]*[.]keypresent'
FUSION = "aten::cat/Concat"
EXPECT = {"expect_mtp": True}
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def layer(name: str) -> str:
    """Pattern for the op with a friendly name."""
    return f'<layer id="[0-9]+" name="{name}"'


def on(file: str, change: Callable[[IR], object]) -> Callable[[Path], object]:
    return lambda directory: edit(directory / file, change)


def head(change: Callable[[IR], object]) -> Callable[[Path], object]:
    return on(M, change)


def target(change: Callable[[IR], object]) -> Callable[[Path], object]:
    return on(L, change)


def configured(**values: Any) -> Callable[[Path], object]:
    """Set keys of text_config; None removes a key."""

    def change(directory: Path) -> None:
        path = directory / "config.json"
        config = json.loads(path.read_text())
        for key, value in values.items():
            config["text_config"].pop(key, None)
            if value is not None:
                config["text_config"][key] = value
        path.write_text(json.dumps(config, indent=2))

    return change


def removed(*names: str) -> Callable[[Path], object]:
    return lambda directory: [(directory / name).unlink() for name in names]


def renamed(old: str, new: str | None = None, *, tensor: bool = True, friendly: bool = True) -> Callable[[IR], None]:
    def change(ir: IR) -> None:
        if friendly:
            ir.parameter(old).set("name", new or f"{old}_x")
        if tensor:
            ir.rename_tensor(old, new or f"{old}_x")

    return change


def swap_names(ir: IR) -> None:
    one, other = ir.parameter("hidden_states"), ir.parameter("inputs_embeds")
    for op, name in ((one, "inputs_embeds"), (other, "hidden_states")):
        op.set("name", name)
        op.find("output/port").set("names", name)


def feed_twice(kept: int) -> Callable[[IR], None]:
    """Let both operands of the fusion read the same value."""

    def change(ir: IR) -> None:
        concat = ir.layer(FUSION)
        ir.rewire(concat, 1 - kept, ir.source(concat, kept))

    return change


def output_from(name: str, *, result: str = "last_hidden_state") -> Callable[[IR], None]:
    def change(ir: IR) -> None:
        op = ir.result(result)
        op.set("output_names", result)
        ir.rewire(op, 0, ir.output(ir.layer(name)))

    return change


def projection_in_head(output: str) -> Callable[[IR], None]:
    """Add an output that projects the final norm to 512 tokens, with arbitrary bytes of the file as weights."""

    def change(ir: IR) -> None:
        norm = ir.source(ir.typed("Result")[0], 0)
        size = {"element_type": "f32", "shape": "512, 64", "offset": "0", "size": "131072"}
        weights = ir.add("Const", [], name="vocabulary", data=size, outputs=[("f32", (512, 64))])
        wide = ir.add(
            "MatMul",
            [norm, ir.output(weights)],
            name="lm_head_inside",
            data={"transpose_a": "false", "transpose_b": "true"},
            outputs=[("f32", (-1, -1, 512))],
        )
        ir.add("Result", [ir.output(wide)], name="own").set("output_names", output)

    return change


class OwnHead:
    """A projection to logits of its own in the head, with rows of the target's lm_head by default.

    Parameters
    ----------
    rows : int
        The first so many rows.
    tokens : tuple of int
        Token ids of the rows in place of the first ones; their scores are scattered over the whole vocabulary.
    change : callable, optional
        Changes the weights, of shape [rows, 64].
    kind : str
        Element type in which the weights are stored.
    """

    def __init__(
        self,
        rows: int = 512,
        tokens: tuple[int, ...] = (),
        change: Callable[[Any], Any] = lambda weights: weights,
        kind: str = "f32",
    ) -> None:
        self.tokens, self.kind, self.change = tokens, kind, change
        self.rows = tokens or tuple(range(rows))

    def __call__(self, directory: Path) -> None:
        data = IR(directory / L).layer("self.model.lm_head.weight").find("data")
        blob, start = (directory / L).with_suffix(".bin").read_bytes(), int(data.get("offset"))
        table = np.frombuffer(blob[start : start + int(data.get("size"))], "f4").reshape(512, 64)
        chosen = [row % 512 for row in self.rows]
        self.blob = (directory / M).with_suffix(".bin")
        weights = self.change(table[chosen].copy()).astype({"f32": "f4", "f16": "f2", "i8": "i1"}[self.kind])
        edit(directory / M, lambda ir: self.add(ir, weights))

    def constant(self, ir: IR, name: str, values: Any, kind: str) -> tuple[str, str]:
        offset = self.blob.stat().st_size
        with self.blob.open("ab") as file:
            file.write(values.tobytes())
        shape = ", ".join(map(str, values.shape))
        data = {"element_type": kind, "shape": shape, "offset": str(offset), "size": str(values.nbytes)}
        output: tuple[str, str] = ir.output(ir.add("Const", [], name=name, data=data, outputs=[(kind, values.shape)]))
        return output

    def projected(self, ir: IR, name: str, weights: Any, kind: str = "f32") -> tuple[str, str]:
        source = self.constant(ir, f"{name}_weights", weights, kind)
        if kind != "f32":
            wide = {"destination_type": "f32"}
            source = ir.output(
                ir.add("Convert", [source], name=f"{name}_wide", data=wide, outputs=[("f32", weights.shape)])
            )
        data = {"transpose_a": "false", "transpose_b": "true"}
        sources = [ir.source(ir.typed("Result")[0], 0), source]
        output: tuple[str, str] = ir.output(
            ir.add("MatMul", sources, name=name, data=data, outputs=[("f32", (-1, -1, len(weights)))])
        )
        return output

    def add(self, ir: IR, weights: Any) -> None:
        logits = self.projected(ir, "own_head", weights, self.kind)
        if self.tokens:
            nothing = self.projected(ir, "nothing", np.zeros((512, 64), "f4"))
            low = self.constant(ir, "low", np.full((1, 1, 1), -1e4, "f4"), "f32")
            wide = [("f32", (-1, -1, 512))]
            broadcast = {"auto_broadcast": "numpy"}
            lowered = ir.output(ir.add("Add", [nothing, low], name="lowered", data=broadcast, outputs=wide))
            ids = self.constant(ir, "ids", np.array(self.tokens, "i8"), "i64")
            axis = self.constant(ir, "axis", np.array(2, "i8"), "i64")
            sources = [lowered, ids, logits, axis]
            logits = ir.output(ir.add("ScatterUpdate", sources, name="scattered", opset="opset3", outputs=wide))
        ir.add("Result", [logits], name="own").set("output_names", "logits")


def eight_bits(weights: Any) -> Any:
    """Integers in proportion to the weights, without a scale: the same best token."""
    return np.round(weights * (127 / np.abs(weights).max()))


def random_weights(weights: Any) -> Any:
    return np.random.default_rng(7).normal(0, weights.std(), weights.shape)


SCATTERED = tuple(range(510, -1, -2))
"""Token ids in another order than in the vocabulary."""


def language_model_as_head(directory: Path) -> None:
    for suffix in (".xml", ".bin"):
        shutil.copy((directory / L).with_suffix(suffix), (directory / M).with_suffix(suffix))


def converted(layer: Any, index: int, ir: IR, through: str = "bf16") -> None:
    """Put a pair of conversions before an input."""
    rank = len(ir.port_of(ir.source(layer, index)).findall("dim"))
    shape = (-1,) * rank

    def make(source: tuple[str, str]) -> Any:
        data = {"destination_type": through}
        down = ir.add("Convert", [source], name="to_narrow", data=data, outputs=[(through, shape)])
        back = {"destination_type": "f32"}
        return ir.add("Convert", [ir.output(down)], name="to_wide", data=back, outputs=[("f32", shape)])

    ir.between(layer, index, make)


def converted_keys(ir: IR) -> None:
    converted(ir.typed("ScaledDotProductAttention")[0], 1, ir)


def converted_past(ir: IR) -> None:
    converted(ir.producer(ir.typed("Assign")[0], 0), 0, ir, "f16")


def without_states(ir: IR) -> None:
    """Turn past keys and values into inputs and present ones into outputs."""
    for assign in ir.typed("Assign"):
        ir.add("Result", [ir.source(assign, 0)], name="present").set("output_names", "present_" + assign.get("name"))
        ir.remove(assign)
    for read in ir.typed("ReadValue"):
        shape = read.find("data").get("variable_shape")
        dims = [int(dim) if dim.isdecimal() else -1 for dim in shape.split(",")]
        name = "past_" + read.get("name")
        past = ir.add("Parameter", [], name=name, data={"shape": shape, "element_type": "f32"}, outputs=[("f32", dims)])
        past.find("output/port").set("names", name)
        ir.feed(ir.consumers(ir.output(read)), ir.output(past))
        ir.remove(read)


def third_state(ir: IR) -> None:
    value = ir.source(ir.result("last_hidden_state"), 0)
    data = {"variable_id": "more", "variable_type": "f32", "variable_shape": "?,?,64"}
    read = ir.add("ReadValue", [value], name="more_read", opset="opset6", data=data, outputs=[("f32", (-1, -1, 64))])
    ir.rewire(ir.result("last_hidden_state"), 0, ir.output(read))
    ir.add("Assign", [value], name="more_write", opset="opset6", data={"variable_id": "more"})
    ir.typed("Result")[0].set("output_names", "last_hidden_state")


def second_attention(ir: IR) -> None:
    """Add a second attention over the same keys and values."""
    first = ir.typed("ScaledDotProductAttention")[0]
    sources = [ir.source(first, index) for index in range(len(first.findall("input/port")))]
    sources[0] = ir.output(first)
    second = ir.add(
        "ScaledDotProductAttention",
        sources,
        name="again",
        opset="opset13",
        data={"causal": "false"},
        outputs=[("f32", [int(dim.text) for dim in first.findall("output/port/dim")])],
    )
    readers = [edge for edge in ir.consumers(ir.output(first)) if edge.get("to-layer") != second.get("id")]
    ir.feed(readers, ir.output(second))


def unfused_attention(ir: IR) -> None:
    """Replace the attention with its query."""
    attention = ir.typed("ScaledDotProductAttention")[0]
    query = ir.source(attention, 0)
    ir.feed(ir.consumers(ir.output(attention)), query)
    ir.remove(attention)


def embedding_in_head(ir: IR) -> None:
    """Add rows of a table, indexed by position, to the output of the fusion."""
    size = {"element_type": "f32", "shape": "512, 64", "offset": "0", "size": "131072"}
    table = ir.add("Const", [], name="table", data=size, outputs=[("f32", (512, 64))])
    axis = next(c for c in ir.typed("Const") if c.find("data").get("shape") == "")
    rows = ir.add(
        "Gather",
        [ir.output(table), ir.output(ir.parameter("position_ids")), ir.output(axis)],
        name="table_lookup",
        opset="opset8",
        data={"batch_dims": "0"},
        outputs=[("f32", (-1, -1, 64))],
    )
    sum_ = ir.layer("layers.0/aten::add/Add")
    ir.between(
        sum_,
        0,
        lambda source: ir.add(
            "Add",
            [source, ir.output(rows)],
            name="with_rows",
            data={"auto_broadcast": "numpy"},
            outputs=[("f32", (-1, -1, 64))],
        ),
    )


def behind_logits(kind: str) -> Callable[[IR], None]:
    def change(ir: IR) -> None:
        result = ir.result("logits")
        if kind == "Convert":
            ir.between(
                result,
                0,
                lambda s: ir.add(
                    "Convert", [s], name="tail", data={"destination_type": "f32"}, outputs=[("f32", (-1, -1, 512))]
                ),
            )
        else:
            scale = next(c for c in ir.typed("Const") if c.find("data").get("shape") == "1, 1, 1")
            ir.between(
                result,
                0,
                lambda s: ir.add(
                    kind,
                    [s, ir.output(scale)],
                    name="tail",
                    data={"auto_broadcast": "numpy"},
                    outputs=[("f32", (-1, -1, 512))],
                ),
            )
        result.set("output_names", "logits")

    return change


def exposed(name: str) -> Callable[[IR], None]:
    """Add an output ``last_hidden_state`` with the value of an op, before the other outputs of the target."""

    def change(ir: IR) -> None:
        made = ir.add("Result", [ir.output(ir.layer(name))], name="exposed", before=ir.result("logits"))
        made.set("output_names", "last_hidden_state")

    return change


def from_other(name: str, *files: str) -> Callable[[Path], object]:
    """Replace files with those of another fixture."""

    def change(directory: Path) -> None:
        for file in files:
            shutil.copy(FIXTURES / name / file, directory / file)

    return change


MTP_FILES = (M, "openvino_mtp_model.bin")
MANY = ("MTP010", "MTP014", "MTP016", "MTP018", "MTP021", "MTP024", "MTP033", "MTP035", "MTP037", "MTP052")


def without_beam(ir: IR) -> None:
    """Remove the reordering of states by beam, and the input beam_idx."""
    beam = ir.parameter("beam_idx")
    for edge in ir.consumers(ir.output(beam)):
        gather = ir.by_id(edge.get("to-layer"))
        past = ir.source(gather, 0)
        ir.feed(ir.consumers(ir.output(gather)), past)
        ir.remove(gather)
    ir.remove(beam)


def surplus_input(ir: IR) -> None:
    data = {"shape": "?,?,8", "element_type": "f32"}
    first = ir.typed("Const")[0]
    ir.add("Parameter", [], name="foo", data=data, outputs=[("f32", (-1, -1, 8))], before=first)


def surplus_output(ir: IR) -> None:
    ir.add("Result", [ir.output(ir.layer(FUSION))], name="more").set("output_names", "fused")


def self_contained(ir: IR) -> None:
    """Ports of a head that receives embeddings and hidden state already joined, and outputs its own logits."""
    concat = ir.layer(FUSION)
    ir.set_input("inputs_embeds", shape="?,?,128")
    projection = ir.by_id(ir.consumers(ir.output(concat))[0].get("to-layer"))
    ir.rewire(projection, 0, ir.output(ir.parameter("inputs_embeds")))
    shapes = [ir.by_id(e.get("to-layer")) for e in ir.consumers(ir.output(ir.parameter("hidden_states")))]
    for op in shapes:
        ir.rewire(op, 0, ir.output(ir.parameter("inputs_embeds")))
    ir.remove(ir.parameter("hidden_states"))
    ir.rename_tensor("last_hidden_state", "logits")


def half_inputs(ir: IR) -> None:
    """f16 inputs followed by a Convert to f32."""
    for name in ("hidden_states", "inputs_embeds"):
        ir.set_input(name, element_type="f16")
        source = ir.output(ir.parameter(name))
        readers = ir.consumers(source)
        data = {"destination_type": "f32"}
        wide = ir.add("Convert", [source], name=f"{name}_wide", data=data, outputs=[("f32", (-1, -1, 64))])
        ir.feed(readers, ir.output(wide))


def half_output(ir: IR) -> None:
    result = ir.typed("Result")[0]
    data = {"destination_type": "f16"}
    outputs = [("f16", (-1, -1, 64))]
    ir.between(result, 0, lambda source: ir.add("Convert", [source], name="half", data=data, outputs=outputs))
    result.set("output_names", "last_hidden_state")


def share_state(ir: IR) -> None:
    first = ir.typed("ReadValue")[0].find("data").get("variable_id")
    for op in (*ir.typed("ReadValue"), *ir.typed("Assign")):
        op.find("data").set("variable_id", first)


def bypass_fusion(ir: IR) -> None:
    """Remove the fusion: the layer reads only the normalised embeddings."""
    concat = ir.layer(FUSION)
    projection = ir.by_id(ir.consumers(ir.output(concat))[0].get("to-layer"))
    embeds = ir.source(concat, 0)
    ir.feed(ir.consumers(ir.output(projection)), embeds)
    ir.remove(projection)
    ir.remove(concat)


def zero_operand(index: int) -> Callable[[IR], None]:
    """Replace an operand of the fusion with a constant of its shape."""

    def change(ir: IR) -> None:
        concat = ir.layer(FUSION)
        kept = ir.source(concat, index)
        zero = next(c for c in ir.typed("Const") if c.find("data").get("element_type") == "f32")
        shape = ir.add(
            "ShapeOf", [kept], name="kept_shape", opset="opset3", data={"output_type": "i64"}, outputs=[("i64", (3,))]
        )
        made = ir.add(
            "Broadcast",
            [ir.output(zero), ir.output(shape)],
            name="filled",
            opset="opset3",
            data={"mode": "numpy"},
            outputs=[("f32", (-1, -1, 64))],
        )
        ir.rewire(concat, index, ir.output(made))

    return change


def other_heads(ir: IR) -> None:
    dims = ir.typed("ScaledDotProductAttention")[0].findall("input/port")[0].findall("dim")
    dims[1].text, dims[3].text = "2", "32"


def fewer_frequencies(ir: IR) -> None:
    """Halve the number of rotary frequencies: keep the first half of the bytes."""
    constant = ir.layer("__module.rotary_emb/aten::to/Convert")
    data = constant.find("data")
    count = int(data.get("shape").split(",")[2])
    data.set("shape", data.get("shape").replace(f" {count},", f" {count // 2},"))
    data.set("size", str(int(data.get("size")) // 2))
    dims = constant.findall("output/port/dim")
    dims[2].text = str(count // 2)


KINDS = [f"{kind}_attention_{what}" for kind in ("full", "sliding") for what in ("key", "value")]


def gemma_assistant(ir: IR) -> None:
    """Ports of a Gemma 4 assistant on a Qwen3.5 head."""
    ir.set_input("inputs_embeds", shape="?,?,128")
    ir.set_input("hidden_states", shape="?,2,?,16")
    ir.parameter("hidden_states").find("output/port").set("names", KINDS[0])
    before = ir.typed("Const")[0]
    for kind in KINDS[1:]:
        data = {"shape": "?,2,?,16", "element_type": "f32"}
        made = ir.add("Parameter", [], name=kind, data=data, outputs=[("f32", (-1, 2, -1, 16))], before=before)
        made.find("output/port").set("names", kind)
    ir.add("Result", [ir.source(ir.typed("Result")[0], 0)], name="own").set("output_names", "logits")


def gemma_outputs(ir: IR, missing: int = 1) -> None:
    """Add the outputs that the assistant needs, without the last ``missing`` ones."""
    attention = ir.typed("ScaledDotProductAttention")[0]
    for kind in KINDS[: len(KINDS) - missing]:
        made = ir.add("Result", [ir.source(attention, 1)], name=kind)
        made.set("output_names", f"mtp_{kind}")
    norm = ir.source(ir.producer(ir.result("logits"), 0), 0)
    ir.add("Result", [norm], name="hidden").set("output_names", "mtp_last_hidden_state")


def seed(
    name: str, change: Callable[[IR], object], code: str, at: str, *, base: str = BASE, file: str = M, **more: Any
) -> Defect:
    """A defect of one file that is reported in the same file."""
    return Defect(name, base, on(file, change), code, file, at, **more)


FILLED = ("IR027",)
BLANK = ("IR026",)  # zeros up to the end of the file
"""The added weights read bytes of other constants."""


def swapped(ir: IR) -> None:
    ir.swap(ir.layer(FUSION), 0, 1)


def unnormed(index: int, name: str) -> Callable[[IR], None]:
    return lambda ir: ir.rewire(ir.layer(FUSION), index, ir.output(ir.parameter(name)))


def set_inputs(*names: str, **change: str) -> Callable[[IR], object]:
    return lambda ir: [ir.set_input(name, **change) for name in names]


def cache(shape: str, *which: int) -> Callable[[IR], object]:
    """Give some states another shape."""
    return lambda ir: [ir.typed("ReadValue")[index].find("data").set("variable_shape", shape) for index in which]


def tokenizer_as_head(directory: Path) -> None:
    for suffix in (".xml", ".bin"):
        shutil.copy(directory / f"openvino_tokenizer{suffix}", directory / f"openvino_mtp_model{suffix}")


def nameless(ir: IR) -> None:
    for number, parameter in enumerate(ir.typed("Parameter")):
        parameter.find("output/port").set("names", f"p{number}")


WARNING = {"severity": "warning"}
NOTE = {"severity": "note"}
PLAIN = configured(mtp_num_hidden_layers=None)

PRESENCE = (
    Defect("mtp-not-exported", BASE, removed(*MTP_FILES), "MTP001", "config.json", options=EXPECT),
    Defect("mtp-not-exported-plain", BASE, removed(*MTP_FILES), "MTP001", "config.json", **WARNING),
    Defect("mtp-config-zero", BASE, configured(mtp_num_hidden_layers=0), "MTP002", "config.json", options=EXPECT),
    Defect("mtp-config-none", BASE, PLAIN, "MTP002", "config.json", **WARNING),
    Defect("mtp-config-three", BASE, configured(mtp_num_hidden_layers=3), "MTP003", "config.json", options=EXPECT),
    Defect(
        "mtp-config-two-other-key",
        BASE,
        configured(mtp_num_hidden_layers=None, num_nextn_predict_layers=2),
        "MTP003",
        "config.json",
        **WARNING,
    ),
    Defect("mtp-unwanted", BASE, lambda directory: None, "MTP004", M, options={"expect_mtp": False}),
    Defect("mtp-unwanted-moe", "qwen3_5_moe_vl", lambda directory: None, "MTP004", M, options={"expect_mtp": False}),
    Defect("mtp-expected-of-llama", "llama", lambda directory: None, "MTP005", None, options=EXPECT),
    Defect(
        "mtp-removed-and-undeclared",
        BASE,
        lambda directory: [removed(*MTP_FILES)(directory), PLAIN(directory)],
        "MTP005",
        None,
        options=EXPECT,
    ),
    Defect(
        "mtp-without-text-embeddings",
        BASE,
        removed(E, "openvino_text_embeddings_model.bin"),
        "MTP006",
        M,
        causes=("EXP004", "EXP005"),
    ),
    Defect("mtp-in-text-only", "qwen3", from_other(BASE, *MTP_FILES), "MTP006", M),
    Defect("mtp-in-dflash-draft", "qwen3_dflash", from_other("qwen3_5_vl", *MTP_FILES), "MTP006", M),
    Defect("mtp-tokenizer-in-its-place", BASE, tokenizer_as_head, "MTP007", M, NET, causes=("IR022",)),
    seed("mtp-all-ports-renamed", nameless, "MTP007", NET),
    seed("mtp-self-contained", self_contained, "MTP007", NET, **WARNING),
    seed("mtp-self-contained-expected", self_contained, "MTP007", NET, options=EXPECT),
)

PORTS = (
    seed("mtp-hidden-states-tensor", renamed("hidden_states", friendly=False), "MTP010", layer("hidden_states")),
    seed("mtp-hidden-states-both", renamed("hidden_states"), "MTP010", NET),
    seed(
        "mtp-hidden-states-friendly", renamed("hidden_states", tensor=False), "MTP011", layer("hidden_states_x"), **NOTE
    ),
    seed("mtp-inputs-embeds-tensor", renamed("inputs_embeds", friendly=False), "MTP010", layer("inputs_embeds")),
    seed("mtp-inputs-embeds-friendly", renamed("inputs_embeds", tensor=False), "MTP011", layer("inputs_embeds_x")),
    seed("mtp-position-ids-tensor", renamed("position_ids", friendly=False), "MTP010", layer("position_ids")),
    seed("mtp-position-ids-friendly", renamed("position_ids", tensor=False), "MTP011", layer("position_ids_x")),
    seed("mtp-position-ids-both", renamed("position_ids"), "MTP010", NET),
    seed("mtp-attention-mask-renamed", renamed("attention_mask"), "MTP010", NET, **WARNING),
    seed("mtp-beam-idx-renamed", renamed("beam_idx"), "MTP010", NET, **WARNING),
    seed("mtp-beam-idx-friendly", renamed("beam_idx", tensor=False), "MTP011", layer("beam_idx_x"), **NOTE),
    seed("mtp-beam-idx-removed", without_beam, "MTP010", NET),
    seed("mtp-surplus-input", surplus_input, "MTP012", layer("foo"), **WARNING),
    seed("mtp-surplus-input-moe", surplus_input, "MTP012", layer("foo"), base="qwen3_5_moe_vl", **WARNING),
    seed("mtp-output-renamed", lambda ir: ir.rename_tensor("last_hidden_state", "hidden"), "MTP013", RESULT),
    seed("mtp-output-own-name-only", lambda ir: ir.typed("Result")[0].set("output_names", "hidden"), "MTP013", RESULT),
    Defect("mtp-language-model-in-place", BASE, language_model_as_head, "MTP013", M, LOGITS, causes=MANY),
    seed("mtp-own-logits", projection_in_head("logits"), "MTP014", layer("own"), causes=FILLED),
    Defect("mtp-own-logits-of-target", BASE, OwnHead(), "MTP014", M, layer("own"), severity="note"),
    Defect("mtp-own-logits-first-rows", BASE, OwnHead(128), "MTP014", M, layer("own"), severity="note"),
    Defect("mtp-own-logits-f16", BASE, OwnHead(kind="f16"), "MTP014", M, layer("own"), severity="note"),
    Defect(
        "mtp-own-logits-scattered",
        BASE,
        OwnHead(tokens=SCATTERED),
        "MTP014",
        M,
        layer("own"),
        severity="note",
        causes=BLANK,
    ),
    Defect(
        "mtp-own-logits-i8",
        BASE,
        OwnHead(change=eight_bits, kind="i8"),
        "MTP014",
        M,
        layer("own"),
        severity="note",
        causes=("QNT013",),
    ),
    Defect("mtp-own-logits-zero", BASE, OwnHead(change=np.zeros_like), "MTP014", M, layer("own"), causes=BLANK),
    Defect("mtp-own-logits-random", BASE, OwnHead(change=random_weights), "MTP014", M, layer("own")),
    Defect("mtp-own-logits-shifted", BASE, OwnHead(change=lambda w: np.roll(w, 1, 0)), "MTP014", M, layer("own")),
    Defect("mtp-own-logits-too-many", BASE, OwnHead(600), "MTP014", M, layer("own"), severity="warning"),
    seed("mtp-surplus-output", surplus_output, "MTP014", layer("more"), **WARNING),
    seed("mtp-position-ids-i32", set_inputs("position_ids", element_type="i32"), "MTP015", layer("position_ids")),
    seed("mtp-inputs-f16", half_inputs, "MTP015", layer("hidden_states")),
    seed("mtp-output-f16", half_output, "MTP015", RESULT),
    seed(
        "mtp-attention-mask-f32",
        set_inputs("attention_mask", element_type="f32"),
        "MTP015",
        layer("attention_mask"),
        **NOTE,
    ),
    seed("mtp-beam-idx-i64", set_inputs("beam_idx", element_type="i64"), "MTP015", layer("beam_idx"), **NOTE),
    seed("mtp-position-ids-rank-3", set_inputs("position_ids", shape="4,?,?"), "MTP016", layer("position_ids")),
    seed("mtp-hidden-states-rank-2", set_inputs("hidden_states", shape="?,64"), "MTP016", layer("hidden_states")),
    seed("mtp-static-batch", set_inputs("hidden_states", shape="1,?,64"), "MTP017", layer("hidden_states")),
    seed("mtp-static-length", set_inputs("position_ids", shape="?,16"), "MTP017", layer("position_ids")),
    seed("mtp-hidden-width", set_inputs("hidden_states", shape="?,?,48"), "MTP018", layer("hidden_states")),
    Defect(
        "mtp-of-narrower-model",
        BASE,
        from_other("qwen3_5_vl", *MTP_FILES),
        "MTP018",
        M,
        layer("hidden_states"),
        causes=("MTP024", "MTP052"),
    ),
    Defect(
        "mtp-embeddings-of-narrower-model",
        BASE,
        from_other("qwen3_5_vl", E, "openvino_text_embeddings_model.bin"),
        "MTP018",
        E,
        RESULT,
        causes=("EXP023",),
    ),
)

STATES = (
    seed("mtp-stateless", without_states, "MTP020", NET),
    seed("mtp-stateless-moe", without_states, "MTP020", NET, base="qwen3_5_moe_vl"),
    seed("mtp-third-state", third_state, "MTP021", layer("more_read"), causes=("MTP037",)),
    seed("mtp-state-of-rank-3", cache("?,2,16", 0), "MTP021", READ, causes=("IR010",)),
    seed("mtp-states-of-other-heads", cache("?,4,?,8", 0, 1), "MTP024", READ),
    seed("mtp-states-of-other-size", cache("?,2,?,64", 0, 1), "MTP024", READ, base="qwen3_5_vl_int4"),
    seed("mtp-assign-missing", lambda ir: ir.remove(ir.typed("Assign")[0]), "IR017", READ_KEYS, **WARNING),
    seed("mtp-state-shared", share_state, "IR018", SECOND_READ),
)

ATTENTIONS = (
    seed("mtp-unfused", unfused_attention, "MTP030", NET),
    seed("mtp-unfused-moe", unfused_attention, "MTP030", NET, base="qwen3_5_moe_vl"),
    seed("mtp-second-attention", second_attention, "MTP031", layer("again"), options=EXPECT),
    seed("mtp-second-attention-plain", second_attention, "MTP031", layer("again"), **WARNING),
    seed("mtp-converted-keys", converted_keys, "MTP032", layer("to_narrow")),
    seed("mtp-converted-past", converted_past, "MTP032", layer("to_narrow")),
)

FUSIONS = (
    seed("mtp-no-fusion", bypass_fusion, "MTP033", NET, causes=("MTP035",)),
    seed("mtp-no-fusion-moe", bypass_fusion, "MTP033", NET, base="qwen3_5_moe_vl", causes=("MTP035",)),
    seed("mtp-concat-swapped", swapped, "MTP034", layer(FUSION)),
    seed("mtp-concat-swapped-moe", swapped, "MTP034", layer(FUSION), base="qwen3_5_moe_vl"),
    seed("mtp-concat-swapped-int4", swapped, "MTP034", layer(FUSION), base="qwen3_5_vl_int4"),
    seed("mtp-input-names-swapped", swap_names, "MTP034", layer(FUSION)),
    seed("mtp-hidden-state-unused", feed_twice(0), "MTP035", layer("hidden_states")),
    seed("mtp-embeddings-unused", feed_twice(1), "MTP035", layer("inputs_embeds")),
    seed("mtp-hidden-state-zeroed", zero_operand(1), "MTP035", layer("hidden_states")),
    seed("mtp-hidden-norm-missing", unnormed(1, "hidden_states"), "MTP036", layer(FUSION), options=EXPECT),
    seed("mtp-embedding-norm-missing", unnormed(0, "inputs_embeds"), "MTP036", layer(FUSION), **WARNING),
)

SUM, NORM = "layers.0/aten::add/Add_1", "layers.0.post_attention_layernorm/aten::mul/Multiply_1"

CONTENTS = (
    seed("mtp-output-before-norm", output_from(SUM), "MTP037", layer(f"__module.{SUM}")),
    seed("mtp-output-mid-layer-norm", output_from(NORM), "MTP037", layer(f"__module.{NORM}")),
    seed("mtp-embedding-inside", embedding_in_head, "MTP038", layer("table_lookup"), options=EXPECT, causes=FILLED),
    seed("mtp-embedding-inside-plain", embedding_in_head, "MTP038", layer("table_lookup"), **WARNING, causes=FILLED),
    seed(
        "mtp-head-inside",
        projection_in_head("scores"),
        "MTP039",
        layer("lm_head_inside"),
        options=EXPECT,
        causes=FILLED,
    ),
    seed(
        "mtp-head-inside-plain",
        projection_in_head("scores"),
        "MTP039",
        layer("lm_head_inside"),
        **WARNING,
        causes=FILLED,
    ),
)

LAYER_1, LAST_SUM = "language_model.layers.1/aten::add/Add_1", "language_model.layers.3/aten::add/Add_1"
FROM_2_1 = ("2.1.0", "optimum", "optimum_intel_version")

TARGET = (
    seed("mtp-logits-scaled", behind_logits("Multiply"), "MTP050", LOGITS, file=L),
    seed("mtp-logits-biased", behind_logits("Add"), "MTP050", LOGITS, file=L),
    seed("mtp-logits-converted", behind_logits("Convert"), "MTP050", LOGITS, file=L),
    seed(
        "mtp-logits-renamed", lambda ir: ir.rename_tensor("logits", "scores"), "MTP050", NET, file=L, causes=("RUN001",)
    ),
    seed("mtp-exposed-hidden-state", exposed(LAYER_1), "MTP051", layer("exposed"), file=L),
    seed("mtp-exposed-before-norm", exposed(LAST_SUM), "MTP051", layer("exposed"), file=L, base="qwen3_5_vl"),
    seed("mtp-of-other-heads", other_heads, "MTP052", ATTENTION),
    seed("mtp-rotary-size", fewer_frequencies, "MTP052", NET),
    seed("mtp-from-other-exporter", lambda ir: ir.set_rt(*FROM_2_1), "MTP053", NET, options=EXPECT),
    seed("mtp-from-other-runtime", lambda ir: ir.set_rt("2026.3.0-1-abc", "Runtime_version"), "MTP053", NET, **WARNING),
    Defect(
        "mtp-dense-head-of-moe",
        "qwen3_5_moe_vl",
        from_other("qwen3_5_vl", *MTP_FILES),
        "MTP054",
        M,
        NET,
        options=EXPECT,
    ),
    Defect(
        "mtp-moe-head-of-dense", "qwen3_5_vl", from_other("qwen3_5_moe_vl", *MTP_FILES), "MTP054", M, NET, **WARNING
    ),
    Defect("mtp-gemma-pair", BASE, head(gemma_assistant), "MTP055", L, NET),
    Defect(
        "mtp-gemma-pair-one-output-missing",
        BASE,
        lambda directory: [head(gemma_assistant)(directory), target(gemma_outputs)(directory)],
        "MTP055",
        L,
        NET,
    ),
)

DEFECTS = (*PRESENCE, *PORTS, *STATES, *ATTENTIONS, *FUSIONS, *CONTENTS, *TARGET)
