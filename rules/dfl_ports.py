"""DFL: the draft's ports against those that the runtime sets and reads."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Fix, Severity, finding_at, rule
from irtools.graph.view import Source
from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.op import DYNAMIC
from irtools.lint.lost_names import lost_input, lost_output, name_input, name_output
from irtools.lint.pair import dflash_draft, pair
from irtools.model.part import ModelInput, ModelOutput, PartFacts
from irtools.model.ports import PORTS, TOKEN_INPUTS
from irtools.model.values import norm_input
from irtools.text import shape_text

_INPUTS = ("hidden_states", *TOKEN_INPUTS, "position_ids", "attention_mask", "beam_idx")
_FORMS = {name: PORTS[name] for name in _INPUTS}
_TYPES = {name: PORTS[name].element_type for name in (*_INPUTS, "last_hidden_state", "logits")}


@rule("DFL006", "missing-draft-port", Severity.ERROR, "The draft lacks a port, or has one too many")
def missing_draft_port(context: Context) -> Iterator[Finding]:
    """The tensor names of the inputs and outputs are not those of a DFlash draft.

    What it checks
    --------------
    The inputs `hidden_states`, `position_ids` and `attention_mask`; exactly one of the inputs
    `inputs_embeds` and `input_ids`; exactly one of the outputs `last_hidden_state` and `logits`.
    `beam_idx` is required only if an unknown input has its type and shape. Friendly names do not
    matter.

    Why it matters
    --------------
    The runtime rejects the draft at load time. With `beam_idx` under another name, generation fails.

    How to fix it
    -------------
    Restore the port's tensor name. `--unsafe-fixes` does it if only one port is possible.

    Source
    ------
    OpenVINO GenAI, `dflash_strategy.cpp`; reproduced with 2026.4.
    """
    draft = dflash_draft(context)
    if draft is None:
        return
    part = draft.part
    for name in ("hidden_states", "position_ids", "attention_mask"):
        if part.input(name) is None:
            fix = name_input(part, lost_input(part, name, _FORMS), name)
            message, hint = f"the draft has no input {name!r}", "restore its tensor name"
            yield finding_at(draft.part, part.input_called(name), message, hint, fix=fix)
    for kind, look, names in (
        ("input", part.input, ("inputs_embeds", "input_ids")),
        ("output", part.output, ("last_hidden_state", "logits")),
    ):
        present = [name for name in names if look(name) is not None]
        if len(present) != 1:
            count = "both" if present else "none"
            message = f"the draft must have exactly one of the {kind}s {names[0]!r} and {names[1]!r}, but has {count}"
            place = look(present[-1]) if present else None
            fix = None if present else _restoring(part, kind)
            hint = "restore its tensor name" if fix is not None else "export the draft again"
            yield finding_at(draft.part, place, message, hint, fix=fix)
    stand_in = next((port for port in part.inputs if (port.element_type, len(port.shape)) == ("i32", 1)), None)
    if part.input("beam_idx") is None and stand_in is not None:
        hint = "restore its tensor name"
        message = f"the input {stand_in.label!r} must be called 'beam_idx'"
        yield finding_at(draft.part, stand_in, message, hint, fix=name_input(part, stand_in, "beam_idx"))


def _restoring(part: PartFacts, kind: str) -> Fix | None:
    """Fix that restores the name of the token input or of the output, if only one port can be meant."""
    if kind == "input":
        lost = [(port, name) for name in TOKEN_INPUTS if (port := lost_input(part, name, _FORMS)) is not None]
        return name_input(part, *lost[0]) if len(lost) == 1 else None
    output = lost_output(part, PORTS["last_hidden_state"])
    normed = output is not None and norm_input(part.graph, _sliced(part, output)) is not None
    return name_output(part, output, "last_hidden_state") if normed else None


@rule("DFL007", "mistyped-draft-port", Severity.ERROR, "A port of the draft has the wrong type or shape")
def draft_port_type(context: Context) -> Iterator[Finding]:
    """The element type or shape of a port is not what the runtime sets.

    What it checks
    --------------
    f32 for hidden states, embeddings and outputs; i64 for positions, mask and token ids; i32 for
    `beam_idx`. `hidden_states` must have rank 3, a first dimension that is dynamic or 1, and a fixed
    width.

    Why it matters
    --------------
    A wrong shape of `hidden_states` is rejected at load time. A wrong element type fails in a MatMul,
    at load time or during generation.

    How to fix it
    -------------
    Keep the ports as exported. Weight compression does not change ports.

    Source
    ------
    OpenVINO GenAI, `reshape_draft_hidden_states_input_for_cb`; reproduced with 2026.4.
    """
    draft = dflash_draft(context)
    if draft is None:
        return
    ports: list[ModelInput | ModelOutput] = [*draft.part.inputs, *draft.part.outputs]
    for port in ports:
        wanted = next((_TYPES[name] for name in port.names if name in _TYPES), None)
        if wanted not in (None, port.element_type) and port.element_type in ELEMENT_BITS:
            message = f"{port.label!r} is {port.element_type}, but the runtime uses {wanted}"
            yield finding_at(draft.part, port, message, "keep the ports as exported")
    hidden = draft.part.input("hidden_states") or draft.part.input_called("hidden_states")
    if hidden is None:
        return
    shape = hidden.shape
    if len(shape) != 3 or shape[0] not in (DYNAMIC, 1) or shape[2] == DYNAMIC:
        message = f"'hidden_states' is {shape_text(shape)}, but must be [?,?,width] or [1,?,width]"
        yield finding_at(draft.part, hidden, message, "export the draft with Optimum Intel 2.2 or later")


@rule("DFL008", "hidden-width-mismatch", Severity.ERROR, "The draft's hidden_states input has the wrong width")
def hidden_width(context: Context) -> Iterator[Finding]:
    """The width of `hidden_states` is not the sum of the widths of the layers that the draft reads.

    What it checks
    --------------
    The width against the number of `target_layer_ids` times the target's hidden size. Without a target:
    that the width is divisible by the number of ids.

    Why it matters
    --------------
    The runtime concatenates the hidden states of these layers without comparing widths. Generation
    fails at the first token.

    How to fix it
    -------------
    Use the draft with the target it was trained for, or correct `target_layer_ids`.

    Source
    ------
    Reproduced with GenAI 2026.4: "the model input ... and the tensor ... are incompatible".
    """
    paired = pair(context)
    draft = dflash_draft(context)
    hidden = draft.part.input("hidden_states") if draft is not None else None
    if paired is None or draft is None or hidden is None or len(hidden.shape) != 3 or not draft.layers:
        return
    width, count = hidden.shape[2], len(draft.layers)
    if width == DYNAMIC:
        return
    if paired.target is not None and context.stack is not None:
        size = context.stack.hidden_size
        if width != count * size:
            message = f"'hidden_states' has width {width}, but {count} layers of the target have width {count * size}"
            yield finding_at(draft.part, hidden, message, "use the target that the draft was trained for")
    elif width % count:
        message = f"'hidden_states' has width {width}, which is not divisible by the number of layers ({count})"
        yield finding_at(draft.part, hidden, message, "correct `dflash/target_layer_ids`")


@rule("DFL017", "missing-draft-model", Severity.ERROR, "The draft's directory has no model")
def missing_draft_model(context: Context) -> Iterator[Finding]:
    """The directory given with `--draft` has no `openvino_model.xml`.

    What it checks
    --------------
    That the file exists, unless the directory has an MTP head.

    Why it matters
    --------------
    The runtime looks only for this name and fails with "Could not open the file".

    How to fix it
    -------------
    Pass the directory of a draft.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    if context.draft is None or context.draft.mtp is not None:
        return
    directory = context.draft.directory
    if not (directory / "openvino_model.xml").is_file():
        message, out = "the draft's directory has no openvino_model.xml", ("dflash", "eagle3", "draft")
        yield Finding(message, "pass the directory of a draft", directory, rules_out=out)


@rule("DFL018", "unused-draft-input", Severity.ERROR, "The draft does not use its hidden states or its embeddings")
def unused_draft_input(context: Context) -> Iterator[Finding]:
    """An input exists, but no output depends on its value.

    What it checks
    --------------
    That an output depends on `hidden_states` and on the embeddings or token ids. Uses of an input's
    shape do not count.

    Why it matters
    --------------
    An input without consumers is rejected at load time: "has no live consumers". If only its shape is
    used, the draft runs but predicts without this information.

    How to fix it
    -------------
    Export the draft again.

    Source
    ------
    OpenVINO GenAI, `dflash_model_transforms.cpp`.
    """
    draft = dflash_draft(context)
    if draft is None:
        return
    used = draft.part.ancestors([output.op for output in draft.part.outputs], through_shapes=False)
    for name in ("hidden_states", "inputs_embeds", "input_ids"):
        port = draft.part.input(name)
        if port is not None and port.op not in used:
            yield finding_at(draft.part, port, f"the value of the input {name!r} is not used", "export the draft again")


@rule("DFL019", "draft-output-before-norm", Severity.ERROR, "The draft's output is not taken after its final norm")
def draft_output_before_norm(context: Context) -> Iterator[Finding]:
    """`last_hidden_state` of the draft is a residual sum, not the output of a norm.

    What it checks
    --------------
    That the output is the result of a norm; ops that slice positions may follow.

    Why it matters
    --------------
    The target's output projection is grafted onto this output and expects normalised values. The pair
    runs without an error message, but the acceptance rate drops.

    How to fix it
    -------------
    Export the draft again.

    Source
    ------
    Optimum Intel 2.2, `Qwen3DFlashForCausalLM`.
    """
    draft = dflash_draft(context)
    output = draft.part.output("last_hidden_state") if draft is not None else None
    if draft is None or output is None:
        return
    graph, source = draft.part.graph, _sliced(draft.part, output)
    if norm_input(graph, source) is None:
        name = graph.op_name(source.op)
        message = f"{output.label!r} is {name!r}, not a norm"
        yield finding_at(draft.part, output, message, "export the output of the final norm")


def _sliced(part: PartFacts, output: ModelOutput) -> Source:
    """The value of an output before positions are sliced and reshaped."""
    graph, source = part.graph, output.source
    while graph.op_type(source.op) in ("Slice", "StridedSlice", "Reshape", "Convert"):
        source = graph.inputs(source.op)[0]
    return source
