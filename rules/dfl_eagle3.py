"""DFL: what the runtime reads of an EAGLE-3 draft, its rt_info and its ports."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.errors import IrtoolsError
from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.op import DYNAMIC
from irtools.lint.json_files import json_line
from irtools.lint.pair import eagle3_draft, pair
from irtools.model.directory import ModelDirectory
from irtools.model.draft import hidden_layers, truthy
from irtools.model.part import ModelInput, ModelOutput, PartFacts
from irtools.model.ports import PORTS
from irtools.model.special_tokens import UNSET, UnreadableTokensError, special_tokens
from irtools.text import shape_text

_EAGLE3 = ("eagle3",)
_RESTORE = "restore its tensor name and its friendly name"
_KEEP = "keep the ports as exported"
_LIST_HINT = "list three layers with spaces, as in 2 16 29"
_THREE = 3


@rule(
    "DFL022",
    "eagle3-mode-off",
    Severity.ERROR,
    "The draft is not marked as an EAGLE-3 draft",
    rules_out=_EAGLE3,
)
def eagle3_mode_off(context: Context) -> Iterator[Finding]:
    """The draft has the form of an EAGLE-3 draft, but its rt_info has no true `eagle3_mode`.

    What it checks
    --------------
    The model-level rt_info key `eagle3_mode` of a draft with an output `d2t`, or with an input
    `hidden_states` and an output `logits`.

    Why it matters
    --------------
    The runtime recognises an EAGLE-3 draft by this key. Without it, the draft is loaded as an ordinary
    language model. It gets no hidden states, and generation fails. A value that is not a boolean is
    rejected at load time.

    How to fix it
    -------------
    Export the draft again with Optimum Intel, or add `<eagle3_mode value="True" />`.

    Source
    ------
    OpenVINO GenAI, `apply_eagle3_rt_info`; reproduced with 2026.4.1.
    """
    draft = eagle3_draft(context)
    if draft is None or truthy(draft.eagle3_mode):
        return
    state = "is missing" if draft.eagle3_mode is None else f"is {draft.eagle3_mode!r}"
    if draft.eagle3_mode is not None and truthy(draft.eagle3_mode) is None:
        state += ", which is not a boolean"
    message = f"`eagle3_mode` {state}, so the runtime takes this EAGLE-3 draft for an ordinary language model"
    yield finding_at(draft.part, "eagle3_mode", message, 'add `<eagle3_mode value="True" />` to the rt_info')


@rule(
    "DFL023",
    "malformed-hidden-layers-list",
    Severity.ERROR,
    "The draft's hidden_layers_list is not read as three layers",
    rules_out=_EAGLE3,
)
def malformed_hidden_layers_list(context: Context) -> Iterator[Finding]:
    """`hidden_layers_list` of an EAGLE-3 draft is not read as three different layers.

    What it checks
    --------------
    The list as the runtime parses it: words between spaces, of which the leading number counts. `2 16 29`
    and `2, 16, 29` are three layers. `2,16,29` is one word, so only layer 2 is read. Brackets, and a
    space at the end, are rejected. The key is optional; DFL021 checks the default.

    Why it matters
    --------------
    The runtime rejects the draft at load time.

    How to fix it
    -------------
    Write three numbers with spaces between them.

    Source
    ------
    OpenVINO, `Read<std::vector>` in `any.hpp`; OpenVINO GenAI, `extract_eagle3_info_from_config`.
    Reproduced with 2026.4.1: "Could not convert", "exactly three layers", "Number of extracted hidden
    states does not match".
    """
    draft = eagle3_draft(context)
    text = draft.hidden_layers_list if draft is not None else None
    if draft is None or text is None:
        return
    layers = hidden_layers(text)
    fault = ""
    if layers is None:
        fault = "which the runtime refuses"
    elif len(layers) != _THREE:
        read = ", ".join(map(str, layers)) or "no layer"
        fault = f"which the runtime reads as {read}, but EAGLE-3 reads three layers"
    elif len(set(layers)) != _THREE:
        fault = "which names a layer twice"
    if fault:
        message = f"`hidden_layers_list` is {text!r}, {fault}"
        yield finding_at(draft.part, "hidden_layers_list", message, _LIST_HINT)


def _tokens(context: Context, part: PartFacts) -> str:
    """Name of the input for tokens: as in the target, whose values the draft gets; else the draft's own."""
    paired = pair(context)
    holder = paired.target if paired is not None and paired.target is not None else part
    return "inputs_embeds" if holder.input("inputs_embeds") is not None else "input_ids"


@rule(
    "DFL024",
    "missing-eagle3-port",
    Severity.ERROR,
    "The EAGLE-3 draft lacks a port",
    rules_out=_EAGLE3,
)
def missing_eagle3_port(context: Context) -> Iterator[Finding]:
    """An input or output that the runtime sets, reads or looks for is missing, or has lost one of its names.

    What it checks
    --------------
    The inputs `hidden_states`, `position_ids` and `input_ids`, by tensor name and by friendly name, and
    the tensor name of the output `logits`. For a target that takes embeddings, the draft needs
    `inputs_embeds` in place of `input_ids`. `attention_mask` and `beam_idx` are not needed, because the
    runtime removes them.

    Why it matters
    --------------
    The runtime finds ports by tensor name when it runs the draft, and by friendly name when it converts
    it. With one of the two names lost, loading or generation fails. Without `position_ids`, the draft
    runs with wrong positions.

    How to fix it
    -------------
    Restore the names of the port.

    Source
    ------
    OpenVINO GenAI, `move_fc_from_draft_to_main`; reproduced with 2026.4.1: "Port for tensor name
    hidden_states was not found", "Failed to locate FC weights", "doesn't contain input_ids".
    """
    draft = eagle3_draft(context)
    if draft is None:
        return
    part = draft.part
    for name in ("hidden_states", _tokens(context, part), "position_ids"):
        port, called = part.input(name), _called(part, name)
        if port is None:
            yield finding_at(part, called, f"the EAGLE-3 draft has no input {name!r}", _RESTORE)
        elif called is None:
            message = f"the friendly name of the input {name!r} is {port.friendly!r}"
            yield finding_at(part, port, message, _RESTORE)
    if part.output("logits") is None:
        yield finding_at(part, None, "the EAGLE-3 draft has no output 'logits'", "restore its tensor name")


def _called(part: PartFacts, name: str) -> ModelInput | None:
    """The input with a friendly name; that of the hidden states may be longer."""
    if name != "hidden_states":
        return part.input_called(name)
    return next((port for port in part.inputs if name in port.friendly), None)


@rule(
    "DFL025",
    "mistyped-eagle3-port",
    Severity.ERROR,
    "A port of the EAGLE-3 draft has the wrong type or shape",
    rules_out=_EAGLE3,
)
def mistyped_eagle3_port(context: Context) -> Iterator[Finding]:
    """The element type or shape of a port is not what the runtime sets or reads.

    What it checks
    --------------
    f32 for `hidden_states`, embeddings and logits; i64 for token ids and positions. `hidden_states` must
    have three dynamic dimensions: it first has the width of three hidden states, and the width of one
    after the runtime has moved the projection to the target.

    Why it matters
    --------------
    A fixed width is rejected at load time; the rest fails during generation.

    How to fix it
    -------------
    Keep the ports as exported. Weight compression does not change ports.

    Source
    ------
    Reproduced with GenAI 2026.4.1: "is not representable as pointer", "Argument shapes are
    inconsistent", "the model input (shape=[1,?,?]) and the tensor ... are incompatible".
    """
    draft = eagle3_draft(context)
    if draft is None:
        return
    part = draft.part
    ports: list[ModelInput | ModelOutput] = [*part.inputs, *part.outputs]
    for port in ports:
        read = [name for name in port.names if name in ("hidden_states", "input_ids", "inputs_embeds", "position_ids")]
        if port is part.output("logits"):
            read = ["logits"]
        wanted = PORTS[read[0]].element_type if read else port.element_type
        if wanted != port.element_type and port.element_type in ELEMENT_BITS:
            message = f"{port.label!r} is {port.element_type}, but the runtime uses {wanted}"
            yield finding_at(part, port, message, _KEEP)
    hidden = part.input("hidden_states")
    if hidden is not None and hidden.shape != (DYNAMIC,) * 3:
        message = f"'hidden_states' is {shape_text(hidden.shape)}, but must be [?,?,?]"
        yield finding_at(part, hidden, message, _KEEP)


@rule("DFL035", "eagle3-without-end-token", Severity.ERROR, "The EAGLE-3 draft has no end token", rules_out=_EAGLE3)
def eagle3_without_end_token(context: Context) -> Iterator[Finding]:
    """No file of an EAGLE-3 draft gives the id of the end token.

    What it checks
    --------------
    For a draft of `--draft`: `eos_token_id` in its `generation_config.json`, and the id that the runtime reads for
    its tokenizer from `config.json`, `tokenizer_config.json` and the rt_info of `openvino_tokenizer.xml`.

    Why it matters
    --------------
    The draft needs no tokenizer, but the runtime gives it generation settings of its own. The pair loads, and the
    first call of `generate` fails: "'stop_token_ids' must be non-negative, but it contains a value -1".

    How to fix it
    -------------
    Copy the `eos_token_id` of the target into the draft's `config.json`, as one number.

    Source
    ------
    OpenVINO GenAI, `GenerationConfig::validate`; reproduced with 2026.4.1.
    """
    draft = eagle3_draft(context)
    if draft is None or context.draft is None or _has_end_token(context.draft):
        return
    message = "neither the tokenizer nor a configuration file of the EAGLE-3 draft gives an id of the end token"
    path = context.draft.directory / "config.json"
    line = json_line(path, "eos_token_id", None)
    yield Finding(message, "copy the `eos_token_id` of the target into the draft's config.json", path, line)


def _has_end_token(directory: ModelDirectory) -> bool:
    if directory.generation_config.get("eos_token_id") not in (None, UNSET, []):
        return True
    try:
        return any(token.name == "eos" and token.id != UNSET for token in special_tokens(directory))
    except (UnreadableTokensError, IrtoolsError):
        return True  # another fault
