"""MTP: names, types and shapes of the head's inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.op import DYNAMIC
from irtools.lint.lost_names import lost_input, lost_output, name_input, name_output
from irtools.lint.mtp import head, own_target
from irtools.model.mtp import MtpHead, ProfilePort
from irtools.model.own_head import Likeness, find_own_head, like_lm_head
from irtools.model.part import ModelInput, ModelOutput, PartFacts
from irtools.model.ports import CACHE_WORDS, PortForm
from irtools.model.values import carries
from irtools.text import plural, shape_text


def _compared(context: Context) -> MtpHead | None:
    """The head, if enough of its ports match a profile."""
    mtp = head(context)
    return mtp if mtp is not None and mtp.comparable else None


def _inputs(context: Context) -> Iterator[tuple[MtpHead, ProfilePort, ModelInput]]:
    if (mtp := _compared(context)) is not None:
        pairs = ((port, mtp.input(port)) for port in mtp.profile.inputs)
        yield from ((mtp, port, actual) for port, actual in pairs if actual is not None)


def _ports(context: Context) -> Iterator[tuple[MtpHead, ProfilePort, ModelInput | ModelOutput]]:
    yield from _inputs(context)
    if (mtp := _compared(context)) is not None:
        pairs = ((port, mtp.output(port)) for port in mtp.profile.outputs)
        yield from ((mtp, port, actual) for port, actual in pairs if actual is not None)


@rule("MTP010", "missing-mtp-input", Severity.ERROR, "The MTP head lacks an input")
def missing_mtp_input(context: Context) -> Iterator[Finding]:
    """No input has a tensor name that heads of this family have.

    What it checks
    --------------
    The tensor names of the head's inputs against its profile. The runtime sets inputs by tensor name; a
    matching friendly name alone does not help. A missing `attention_mask` is a warning, and so is
    `beam_idx` under another name.

    Why it matters
    --------------
    Missing `inputs_embeds`: rejected at load time. Missing `hidden_states` or `position_ids`:
    generation fails with "Port for tensor name ... was not found". Missing `beam_idx`: the states
    cannot be converted, and loading fails. Missing or renamed `attention_mask`: the paged path is not
    affected, but other backends need it.

    How to fix it
    -------------
    Restore the input's tensor name: `names="..."` of the Parameter's output port. `--unsafe-fixes` does it if
    only one input is possible.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    mtp = _compared(context)
    if mtp is None:
        return
    for port in mtp.profile.inputs:
        if mtp.part.input(port.name) is not None:
            continue
        named = mtp.part.input_called(port.name)
        where = f" (an op has this friendly name, but its tensor is {named.label!r})" if named is not None else ""
        if port.name == "beam_idx" and not mtp.part.states:
            continue  # beam_idx only reorders states; MTP020 reports that there are none
        harmless = not port.needed and (port.name != "beam_idx" or _replaced(mtp, port))
        message = f"no input has the tensor name {port.name!r}{where}"
        hint = f"in the {mtp.profile.title}, it is {port.element_type}{_shape(port)}"
        fix = name_input(mtp.part, lost_input(mtp.part, port.name, _forms(mtp, mtp.profile.inputs)), port.name)
        yield finding_at(mtp.part, named, message, hint, Severity.WARNING if harmless else None, fix=fix)


def _forms(mtp: MtpHead, ports: Iterable[ProfilePort]) -> dict[str, PortForm]:
    """Forms of ports of the profile; hidden states and embeddings are as wide as those that the head has."""
    found = ((port, mtp.input(port)) for port in mtp.profile.inputs)
    widths = {
        port.shape[-1]: actual.shape[-1] for port, actual in found if actual and actual.shape and port.shape[-1] != "?"
    }
    return {port.name: PortForm(port.element_type, (len(port.shape),), widths.get(port.shape[-1])) for port in ports}


def _replaced(mtp: MtpHead, port: ProfilePort) -> bool:
    """True if an input outside the profile has the element type of a port."""
    names = {other.name for other in mtp.profile.inputs}
    return any(
        actual.element_type == port.element_type and not names.intersection(actual.names) for actual in mtp.part.inputs
    )


def _shape(port: ProfilePort) -> str:
    return "[" + ",".join(port.shape) + "]"


@rule("MTP011", "misnamed-mtp-input", Severity.NOTE, "An input's friendly name differs from its tensor name")
def mtp_friendly_name(context: Context) -> Iterator[Finding]:
    """An input has the right tensor name, but its op has another friendly name.

    What it checks
    --------------
    The friendly names of the Parameters of the known inputs. An error for `inputs_embeds` and
    `position_ids`, which the paged-attention conversion looks up by friendly name; otherwise a note.

    Why it matters
    --------------
    The conversion skips an input with another friendly name. Then either the shapes of the two branches
    do not match (rejected at load time), or positions of the wrong rank are fed (generation fails).

    How to fix it
    -------------
    Rename the op: `name="..."` of the `<layer>`. `--unsafe-fixes` does it.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    for mtp, port, actual in _inputs(context):
        if port.name in actual.names and actual.friendly != port.name:
            message = f"the input {port.name!r} has the friendly name {actual.friendly!r}"
            hint = f"rename the op to {port.name!r}"
            severity = Severity.ERROR if port.friendly_matters else None
            yield finding_at(mtp.part, actual, message, hint, severity, fix=name_input(mtp.part, actual, port.name))


@rule("MTP012", "surplus-mtp-input", Severity.WARNING, "The MTP head has an input that the runtime does not feed")
def surplus_mtp_input(context: Context) -> Iterator[Finding]:
    """An input is not in the profile of this head.

    What it checks
    --------------
    Inputs whose tensor names are not in the nearest profile. An input that can stand for a missing
    input of the profile is not reported. MTP020 reports past keys and values.

    Why it matters
    --------------
    The runtime sets only the inputs that it knows. Any other input keeps undefined data.

    How to fix it
    -------------
    Export the head again without this input.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    mtp = _compared(context)
    if mtp is None:
        return
    names = {port.name for port in mtp.profile.inputs}
    missing = [port for port in mtp.profile.inputs if mtp.part.input(port.name) is None]
    for actual in mtp.part.inputs:
        if names.intersection((*actual.names, actual.friendly)) or _is_past(actual):
            continue
        if any(port.element_type == actual.element_type for port in missing):
            continue  # a missing input under another name (MTP010)
        message = f"the runtime does not feed the input {actual.label!r}"
        yield finding_at(mtp.part, actual, message, "export the head without it")


def _is_past(port: ModelInput | ModelOutput) -> bool:
    """True if the port carries keys or values of a stateless head, which MTP020 reports."""
    words = (*CACHE_WORDS, "present")
    return len(port.shape) == 4 and any(word in name for name in (*port.names, port.friendly) for word in words)


@rule("MTP013", "missing-mtp-output", Severity.ERROR, "The MTP head lacks an output")
def missing_mtp_output(context: Context) -> Iterator[Finding]:
    """No output has a tensor name that heads of this family have.

    What it checks
    --------------
    The tensor names of the outputs against the profile. They are the `output_names` of the Result, or
    else the names of the port that it reads.

    Why it matters
    --------------
    The target's output projection is grafted onto the output `last_hidden_state`. Without it, loading
    fails: "Failed to locate `last_hidden_state` output in the MTP draft model". If only the friendly
    name is right, the first candidate fails. A language model in place of the head fails in the same
    way.

    How to fix it
    -------------
    Name the output of the final norm `last_hidden_state`. `--unsafe-fixes` does it if only one output can be
    meant.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    mtp = _compared(context)
    if mtp is None:
        return
    for port in mtp.profile.outputs:
        if mtp.output(port) is None:
            has = ", ".join(repr(output.label) for output in mtp.part.outputs) or "none"
            first = next(iter(mtp.part.outputs), None)
            hint = f"name the output of the final norm {port.name!r}, and check that this is an MTP head"
            fix = name_output(mtp.part, lost_output(mtp.part, _forms(mtp, [port])[port.name]), port.name)
            message = f"no output has the tensor name {port.name!r} (outputs: {has})"
            yield finding_at(mtp.part, first, message, hint, fix=fix)


@rule("MTP014", "own-logits", Severity.ERROR, "The MTP head has its own logits, or an output that nothing reads")
def own_logits(context: Context) -> Iterator[Finding]:
    """The head outputs `logits` itself, or a value that heads of its family do not output.

    What it checks
    --------------
    For an output `logits`: that it is a projection of `last_hidden_state` with the weights of the target's
    output projection, for the first tokens or for chosen ones. A few rows of both weights are compared. The
    same weights are a note, other weights an error, and more tokens than the target has a warning. Weights
    that cannot be compared, because they are stored in different forms, are a note. Other outputs that are
    not in the profile are a warning.

    Why it matters
    --------------
    The runtime grafts the target's output projection onto the head and names the new output `logits`. If
    the head already has an output of this name, the runtime samples from that. With the weights of the
    target, it drafts as well: in tests, 11 of 11 candidates were accepted. With other weights, 0 of 38
    were, without an error message.

    How to fix it
    -------------
    Export the head without its output projection. If its weights were trained for the head, measure the
    acceptance rate: `irtools prove --steps runtime`.

    Source
    ------
    OpenVINO GenAI 2026.4, `graft_lm_head_on_mtp`; reproduced: no error message.
    """
    mtp = _compared(context)
    if mtp is None or mtp.profile.own_directory:
        return
    if mtp.profile.usable and not any(mtp.output(port) for port in mtp.profile.outputs):
        return  # MTP013 reports it
    read = {port.name for port in mtp.profile.outputs} | {"logits", "last_hidden_state"}
    for output in mtp.part.outputs:
        empty = output.friendly == "last_hidden_state" and output.shape[:1] == (0,)  # `irtools graft --own-head`
        if read.isdisjoint(output.names) and not _is_past(output) and not empty:
            message, hint = f"the runtime does not read the output {output.label!r}", "export the head without it"
            yield finding_at(mtp.part, output, message, hint, Severity.WARNING)
    logits = mtp.part.output("logits")
    if logits is not None:
        finding = _about_logits(context, mtp.part, logits)
        # The runtime does not get as far as the logits of a head that it does not run.
        yield finding if mtp.profile.usable else replace(finding, severity=finding.severity or Severity.WARNING)


def _about_logits(context: Context, part: PartFacts, logits: ModelOutput) -> Finding:
    """The finding about logits of a head; the severity is None for a head that cannot draft."""
    target, own = own_target(context), find_own_head(part)
    likeness = Likeness.UNKNOWN
    if own is not None and target is not None:
        likeness = like_lm_head(own, part, target, context.weights_reader)
    hidden = part.output("last_hidden_state")
    note, measured = Severity.NOTE, "`irtools prove --steps runtime` measures their acceptance rate"
    message = "the head has its own logits, which replace the target's output projection"
    if own is not None and hidden is not None and not carries(part.graph, own.hidden, hidden.source):
        message = "the head's own logits are not computed from last_hidden_state"
        return finding_at(part, logits, message, measured, Severity.WARNING)
    if likeness is Likeness.UNKNOWN or own is None:
        return finding_at(part, logits, f"{message}; their projection {Likeness.UNKNOWN.value}", measured, note)
    message = f"{message}; their projection {likeness.value}"
    if likeness is Likeness.SAME:
        return finding_at(part, logits, f"{message}, for {plural(own.rows, 'token')}", "", note)
    severity = Severity.WARNING if likeness is Likeness.WIDER else None  # it runs: the target rejects such tokens
    return finding_at(part, logits, message, "export the head without its output projection", severity)


@rule("MTP015", "mistyped-mtp-port", Severity.ERROR, "A port of the MTP head has the wrong element type")
def mtp_port_type(context: Context) -> Iterator[Finding]:
    """An input or output does not have the element type that the runtime uses.

    What it checks
    --------------
    The element types against the profile: f32 for hidden states, embeddings and output, i64 for
    positions. A wrong type of `attention_mask` or `beam_idx` is a note.

    Why it matters
    --------------
    With f16 inputs or i32 positions, the runtime sets tensors of another type, and generation fails. An
    f16 output is rejected at load time.

    How to fix it
    -------------
    Keep f32 and i64 ports when you convert the model. Weight compression does not change ports.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    for mtp, port, actual in _ports(context):
        if actual.element_type in ELEMENT_BITS and actual.element_type != port.element_type:
            message = f"{port.name!r} is {actual.element_type}, but the runtime uses {port.element_type}"
            hint = "keep the ports as exported; only weights are compressed"
            yield finding_at(mtp.part, actual, message, hint, None if port.type_matters else Severity.NOTE)


@rule("MTP016", "mtp-port-of-wrong-rank", Severity.ERROR, "A port of the MTP head has the wrong rank")
def mtp_port_rank(context: Context) -> Iterator[Finding]:
    """An input or output does not have the number of dimensions that the runtime uses.

    What it checks
    --------------
    The ranks against the profile. `position_ids` of a Qwen3.5 head has rank 2, although its language
    model has rank 3.

    Why it matters
    --------------
    The runtime sets tensors of another rank. The conversion or generation fails.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    for mtp, port, actual in _ports(context):
        if len(actual.shape) != len(port.shape) and (actual.shape or isinstance(actual, ModelInput)):
            yield finding_at(
                mtp.part,
                actual,
                f"{port.name!r} is {shape_text(actual.shape)}, but must have rank {len(port.shape)}: {_shape(port)}",
                "export the head with Optimum Intel 2.2 or later",
            )


@rule("MTP017", "static-mtp-dimension", Severity.ERROR, "A port of the MTP head has a fixed batch or length")
def static_mtp_dimension(context: Context) -> Iterator[Finding]:
    """A dimension that varies from call to call is fixed.

    What it checks
    --------------
    The dimensions that are dynamic in the profile, such as batch and sequence. MTP018 checks widths.

    Why it matters
    --------------
    The paged path puts tokens along the batch dimension, so generation fails with a fixed batch. With a
    fixed length, the second prompt fails.

    How to fix it
    -------------
    Export with dynamic shapes, or set the dimension of the Parameter to `?`.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    for mtp, port, actual in _inputs(context):
        if len(actual.shape) != len(port.shape):
            continue  # MTP016 reports it
        dims = enumerate(zip(port.shape, actual.shape, strict=True))
        fixed = [str(index) for index, (wanted, dim) in dims if wanted == "?" and dim != DYNAMIC]
        if fixed:
            yield finding_at(
                mtp.part,
                actual,
                f"{port.name!r} is {shape_text(actual.shape)}, but must be dynamic in dimension "
                f"{', '.join(fixed)}: {_shape(port)}",
                "export with dynamic shapes",
                None if port.needed else Severity.WARNING,
            )
