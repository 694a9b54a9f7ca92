"""DFL: does the draft have the ports that the runtime feeds and reads."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.op import DYNAMIC
from irtools.lint.draft import Draft, pair
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.model.part import Input, Output
from irtools.model.values import norm_input
from irtools.text import shape_text

_TYPES = {
    "hidden_states": "f32",
    "inputs_embeds": "f32",
    "input_ids": "i64",
    "position_ids": "i64",
    "attention_mask": "i64",
    "beam_idx": "i32",
    "last_hidden_state": "f32",
    "logits": "f32",
}


def _dflash(context: Context) -> Draft | None:
    judged = pair(context)
    return judged.draft if judged is not None and judged.draft.kind == "dflash" else None


def _at(found: Draft, port: Input | Output | None, message: str, hint: str) -> Finding:
    document = found.part.document
    line = port.line if port is not None else document.line(document.scan.net_tag)
    return Finding(message, hint, document.path, line, port.friendly if port is not None else None)


@rule("DFL006", "missing-draft-port", Severity.ERROR, "The draft lacks a port, or has one too many")
def missing_draft_port(context: Context) -> Iterator[Finding]:
    """The tensor names of inputs and outputs are not those of a DFlash draft.

    What it checks
    --------------
    Inputs `hidden_states`, `position_ids` and `attention_mask`; exactly one of `inputs_embeds` and
    `input_ids`; exactly one of the outputs `last_hidden_state` and `logits`; and `beam_idx` if an
    unknown input is there in its place. Friendly names do not matter.

    Why it matters
    --------------
    The draft is refused at load; with `beam_idx` under another name it fails while generating.

    How to fix it
    -------------
    Give the port its tensor name back.

    Source
    ------
    OpenVINO GenAI, `dflash_strategy.cpp`; reproduced with 2026.4.
    """
    found = _dflash(context)
    if found is None:
        return
    part = found.part
    for name in ("hidden_states", "position_ids", "attention_mask"):
        if part.input(name) is None:
            yield _at(found, part.input_called(name), f"the draft has no input {name!r}", "give it its name back")
    for kind, look, names in (
        ("input", part.input, ("inputs_embeds", "input_ids")),
        ("output", part.output, ("last_hidden_state", "logits")),
    ):
        there = [name for name in names if look(name) is not None]
        if len(there) != 1:
            count = "none" if not there else "both"
            message = f"the draft must have exactly one of the {kind}s {names[0]!r} and {names[1]!r}, and has {count}"
            yield _at(found, look(there[-1]) if there else None, message, "a DFlash draft has one of each")
    stand_in = next((port for port in part.inputs if (port.element_type, len(port.shape)) == ("i32", 1)), None)
    if part.input("beam_idx") is None and stand_in is not None:
        yield _at(found, stand_in, f"the input {stand_in.label!r} must be called 'beam_idx'", "give it its name back")


@rule("DFL007", "mistyped-draft-port", Severity.ERROR, "A port of the draft has the wrong type or shape")
def draft_port_type(context: Context) -> Iterator[Finding]:
    """The element type or the shape of a port is not what the runtime sets.

    What it checks
    --------------
    f32 for hidden states, embeddings and outputs, i64 for positions, mask and ids, i32 for
    `beam_idx`; rank 3 for `hidden_states`, with a first dimension that is dynamic or 1 and a fixed
    width.

    Why it matters
    --------------
    `hidden_states` of another form is refused at load; another element type fails in a MatMul at
    load, or while generating.

    How to fix it
    -------------
    Keep the ports as exported; only weights are compressed.

    Source
    ------
    OpenVINO GenAI, `reshape_draft_hidden_states_input_for_cb`; reproduced with 2026.4.
    """
    found = _dflash(context)
    if found is None:
        return
    ports: list[Input | Output] = [*found.part.inputs, *found.part.outputs]
    for port in ports:
        wanted = next((_TYPES[name] for name in port.names if name in _TYPES), None)
        if wanted not in (None, port.element_type) and port.element_type in ELEMENT_BITS:
            message = f"{port.label!r} is {port.element_type}, and the runtime uses {wanted}"
            yield _at(found, port, message, "keep the ports as exported")
    hidden = found.part.input("hidden_states") or found.part.input_called("hidden_states")
    if hidden is None:
        return
    shape = hidden.shape
    if len(shape) != 3 or shape[0] not in (DYNAMIC, 1) or shape[2] == DYNAMIC:
        message = f"'hidden_states' is {shape_text(shape)}, and must be [?,?,width] or [1,?,width]"
        yield _at(found, hidden, message, "export the draft with Optimum Intel 2.2 or later")


@rule("DFL008", "hidden-width-mismatch", Severity.ERROR, "The draft's hidden_states are not as wide as what it gets")
def hidden_width(context: Context) -> Iterator[Finding]:
    """The width of `hidden_states` is not the sum of the widths of the layers that the draft reads.

    What it checks
    --------------
    The width against the number of `target_layer_ids` times the target's hidden size; without a
    target, whether it can be divided by the number of ids.

    Why it matters
    --------------
    The runtime concatenates the hidden states of these layers and does not compare: it fails with
    the first token.

    How to fix it
    -------------
    Use the draft with the target that it was trained for; correct `target_layer_ids`.

    Source
    ------
    Reproduced with GenAI 2026.4: "the model input ... and the tensor ... are incompatible".
    """
    judged = pair(context)
    found = _dflash(context)
    hidden = found.part.input("hidden_states") if found is not None else None
    if judged is None or found is None or hidden is None or len(hidden.shape) != 3 or not found.layers:
        return
    width, count = hidden.shape[2], len(found.layers)
    if width == DYNAMIC:
        return
    if judged.target is not None and context.stack is not None:
        size = context.stack.hidden_size
        if width != count * size:
            message = f"'hidden_states' is {width} wide, and {count} layers of the target are {count * size}"
            yield _at(found, hidden, message, "is this the target that the draft was trained for?")
    elif width % count:
        message = f"'hidden_states' is {width} wide, which {count} layers of one width cannot be"
        yield _at(found, hidden, message, "correct `dflash/target_layer_ids`")


@rule("DFL017", "missing-draft-model", Severity.ERROR, "There is no model in the draft's directory")
def missing_draft_model(context: Context) -> Iterator[Finding]:
    """The directory given with `--draft` has no `openvino_model.xml`.

    What it checks
    --------------
    Whether the file is there, when the directory has no MTP head either.

    Why it matters
    --------------
    The runtime looks for this name only, and fails with "Could not open the file".

    How to fix it
    -------------
    Give the directory of a draft.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    if context.draft is None or context.draft.mtp is not None:
        return
    if not (context.draft.directory / "openvino_model.xml").is_file():
        yield Finding(
            "the draft's directory has no openvino_model.xml",
            "give the directory of a draft",
            file=context.draft.directory,
        )


@rule("DFL018", "unused-draft-input", Severity.ERROR, "The draft does not use its hidden states or its embeddings")
def unused_draft_input(context: Context) -> Iterator[Finding]:
    """An input that carries values is there, but no output depends on its value.

    What it checks
    --------------
    Whether `hidden_states` and the embeddings or ids are above the output, not counting uses of their
    shapes.

    Why it matters
    --------------
    An input that nothing reads is refused at load: "has no live consumers". One of which only the shape
    is read runs, and the draft guesses blindly.

    How to fix it
    -------------
    Export the draft again.

    Source
    ------
    OpenVINO GenAI, `dflash_model_transforms.cpp`.
    """
    found = _dflash(context)
    if found is None:
        return
    used = found.part.ancestors([output.op for output in found.part.outputs], through_shapes=False)
    for name in ("hidden_states", "inputs_embeds", "input_ids"):
        port = found.part.input(name)
        if port is not None and port.op not in used:
            yield _at(found, port, f"the value of the input {name!r} is not used", "export the draft again")


@rule("DFL019", "draft-output-before-norm", Severity.ERROR, "The draft's output is not that of its final norm")
def draft_output_before_norm(context: Context) -> Iterator[Finding]:
    """`last_hidden_state` of the draft is a residual sum, not the output of a norm.

    What it checks
    --------------
    Whether the output is a norm, perhaps with positions cut off.

    Why it matters
    --------------
    The target's output projection is put on this output and expects normalised values. It runs all
    the same, fewer candidates are accepted, and nothing is said.

    How to fix it
    -------------
    Export the draft again.

    Source
    ------
    Optimum Intel 2.2, `Qwen3DFlashForCausalLM`.
    """
    found = _dflash(context)
    output = found.part.output("last_hidden_state") if found is not None else None
    if found is None or output is None:
        return
    graph, source = found.part.graph, output.source
    while graph.op_type(source.op) in ("Slice", "StridedSlice", "Reshape", "Convert"):
        source = graph.inputs(source.op)[0]
    if norm_input(graph, source) is None:
        name = graph.op_name(source.op)
        yield _at(found, output, f"{output.label!r} is {name!r}, not a norm", "give out the final norm")
