"""MTP: do the head's inputs and outputs have the names, types and shapes that the runtime feeds."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.op import DYNAMIC
from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import Head, Port, head
from irtools.model.part import Input, Output
from irtools.text import shape_text


def _judged(context: Context) -> Head | None:
    """The head, if enough of its ports are known to judge the others."""
    found = head(context)
    return found if found is not None and found.known else None


def _at(found: Head, port: Input | Output | None, message: str, hint: str, severity: Severity | None = None) -> Finding:
    document = found.part.document
    line = port.line if port is not None else document.line(document.scan.net_tag)
    return Finding(message, hint, document.path, line, port.friendly if port else None, severity)


def _inputs(found: Head) -> Iterator[tuple[Port, Input]]:
    for port in found.profile.inputs:
        there = found.input(port)
        if there is not None:
            yield port, there


def _ports(found: Head) -> Iterator[tuple[Port, Input | Output]]:
    yield from _inputs(found)
    for port in found.profile.outputs:
        there = found.output(port)
        if there is not None:
            yield port, there


@rule("MTP010", "missing-mtp-input", Severity.ERROR, "The MTP head lacks an input")
def missing_mtp_input(context: Context) -> Iterator[Finding]:
    """No input has a tensor name that the head's family has.

    What it checks
    --------------
    The tensor names of the head's inputs against its profile. The tensor name is what the runtime
    sets inputs by; a friendly name alone does not help. A warning for `attention_mask`, and for
    `beam_idx` when the input is there under another name.

    Why it matters
    --------------
    `inputs_embeds` missing: refused at load. `hidden_states` or `position_ids` missing: fails while
    generating, "Port for tensor name ... was not found". `beam_idx` missing: the states cannot be
    converted, refused at load. `attention_mask` missing or renamed: nothing happens on the paged
    path, other backends need it.

    How to fix it
    -------------
    Give the input its tensor name back: `names="..."` of the Parameter's output port.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _judged(context)
    if found is None:
        return
    for port in found.profile.inputs:
        if found.part.input(port.name) is not None:
            continue
        named = found.part.input_called(port.name)
        where = f" (an op has the friendly name, its tensor is {named.label!r})" if named is not None else ""
        if port.name == "beam_idx" and not found.part.states:
            continue  # it belongs to the states; MTP020 says that there are none
        harmless = not port.needed and (port.name != "beam_idx" or _replaced(found, port))
        yield _at(
            found,
            named,
            f"no input has the tensor name {port.name!r}{where}",
            f"the {found.profile.title} has it as {port.element_type}{_shape(port)}",
            Severity.WARNING if harmless else None,
        )


def _replaced(found: Head, port: Port) -> bool:
    """Whether an input of the same type that the profile does not have can stand for a port."""
    known = {other.name for other in found.profile.inputs}
    return any(
        there.element_type == port.element_type and not known.intersection(there.names) for there in found.part.inputs
    )


def _shape(port: Port) -> str:
    return "[" + ",".join(port.shape) + "]"


@rule("MTP011", "misnamed-mtp-input", Severity.NOTE, "An input's friendly name differs from its tensor name")
def mtp_friendly_name(context: Context) -> Iterator[Finding]:
    """An input has the right tensor name on an op with another friendly name.

    What it checks
    --------------
    The friendly names of the Parameters behind the known inputs. An error for `inputs_embeds` and
    `position_ids`, which the paged-attention conversion looks up by friendly name; a note else.

    Why it matters
    --------------
    With another friendly name the conversion passes the input by: the shapes of the two branches
    no longer fit (refused at load), or positions of the wrong rank are fed (fails while generating).

    How to fix it
    -------------
    Rename the op: `name="..."` of the `<layer>`.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _judged(context)
    if found is None:
        return
    for port, there in _inputs(found):
        if port.name in there.names and there.friendly != port.name:
            yield _at(
                found,
                there,
                f"the input {port.name!r} is an op with the friendly name {there.friendly!r}",
                f"rename the op to {port.name!r}",
                Severity.ERROR if port.friendly_matters else None,
            )


@rule("MTP012", "surplus-mtp-input", Severity.WARNING, "The MTP head has an input that the runtime does not feed")
def surplus_mtp_input(context: Context) -> Iterator[Finding]:
    """An input is in no profile of this head.

    What it checks
    --------------
    Inputs whose tensor names are not in the nearest profile, when no input of the profile is
    missing that it could stand for. Past keys and values are reported by MTP020.

    Why it matters
    --------------
    The runtime sets the inputs that it knows. Another one keeps whatever the device has there.

    How to fix it
    -------------
    Export the head again without it.

    Source
    ------
    OpenVINO GenAI 2026.4.
    """
    found = _judged(context)
    if found is None:
        return
    known = {port.name for port in found.profile.inputs}
    missing = [port for port in found.profile.inputs if found.part.input(port.name) is None]
    for there in found.part.inputs:
        if known.intersection((*there.names, there.friendly)) or _is_past(there):
            continue
        if any(port.element_type == there.element_type for port in missing):
            continue  # this is the missing one under another name
        yield _at(found, there, f"the runtime feeds no input {there.label!r}", "export the head without it")


def _is_past(port: Input | Output) -> bool:
    """Whether it carries keys or values of a stateless head, which MTP020 reports."""
    words = ("past", "present", "cache")
    return len(port.shape) == 4 and any(word in name for name in (*port.names, port.friendly) for word in words)


@rule("MTP013", "missing-mtp-output", Severity.ERROR, "The MTP head lacks an output")
def missing_mtp_output(context: Context) -> Iterator[Finding]:
    """No output has a tensor name that the head's family has.

    What it checks
    --------------
    The tensor names of the outputs, which are the `output_names` of a Result or else the names of
    the port it reads, against the profile.

    Why it matters
    --------------
    The target's head is grafted onto the output `last_hidden_state`. Without it: "Failed to locate
    `last_hidden_state` output in the MTP draft model", at load; with only the friendly name right,
    the first candidate fails. A language model in place of the head ends the same way.

    How to fix it
    -------------
    Name the output of the final norm `last_hidden_state`.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _judged(context)
    if found is None:
        return
    for port in found.profile.outputs:
        if found.output(port) is None:
            has = ", ".join(repr(output.label) for output in found.part.outputs) or "none"
            first = next(iter(found.part.outputs), None)
            yield _at(
                found,
                first,
                f"no output has the tensor name {port.name!r} (outputs: {has})",
                f"name the output of the final norm {port.name!r}; is this the head, or another model?",
            )


@rule("MTP014", "own-logits", Severity.ERROR, "The MTP head has an output that the runtime takes for its own")
def own_logits(context: Context) -> Iterator[Finding]:
    """The head gives out `logits` itself, or another output that its family does not have.

    What it checks
    --------------
    Outputs that are not in the profile. `logits` is an error, any other output a warning.

    Why it matters
    --------------
    The runtime grafts the target's head on and names that output `logits`. If there is one by that
    name already, its values are sampled: in a test no candidate of 38 was accepted, and nothing was
    said.

    How to fix it
    -------------
    Export the head without the output projection.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    found = _judged(context)
    if found is None:
        return
    known = {port.name for port in found.profile.outputs}
    for output in found.part.outputs:
        if _is_past(output) or not any(found.output(port) for port in found.profile.outputs):
            continue
        if known.isdisjoint(output.names):
            logits = "logits" in output.names
            yield _at(
                found,
                output,
                f"the head has an output {output.label!r} of its own",
                "export the head without it: the runtime grafts the target's output projection on",
                None if logits else Severity.WARNING,
            )


@rule("MTP015", "mistyped-mtp-port", Severity.ERROR, "A port of the MTP head has the wrong element type")
def mtp_port_type(context: Context) -> Iterator[Finding]:
    """An input or output has not the element type that the runtime uses.

    What it checks
    --------------
    The element types against the profile: f32 for hidden states, embeddings and output, i64 for
    positions. `attention_mask` and `beam_idx` are notes.

    Why it matters
    --------------
    f16 inputs or i32 positions: the runtime sets tensors of the other type and fails while
    generating. An f16 output: refused at load.

    How to fix it
    -------------
    Keep the ports at f32 and i64 when converting; only weights are compressed.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _judged(context)
    if found is None:
        return
    for port, there in _ports(found):
        if there.element_type in ELEMENT_BITS and there.element_type != port.element_type:
            yield _at(
                found,
                there,
                f"{port.name!r} is {there.element_type}, and the runtime uses {port.element_type}",
                "keep the ports as exported; only weights are compressed",
                None if port.type_matters else Severity.NOTE,
            )


@rule("MTP016", "mtp-port-of-wrong-rank", Severity.ERROR, "A port of the MTP head has the wrong rank")
def mtp_port_rank(context: Context) -> Iterator[Finding]:
    """An input or output has not the number of dimensions that the runtime uses.

    What it checks
    --------------
    The ranks against the profile. `position_ids` of a Qwen3.5 head has rank 2, although that of its
    language model has rank 3.

    Why it matters
    --------------
    Tensors of another rank are set: it fails while generating, or already in the conversion.

    How to fix it
    -------------
    Export the head with Optimum Intel 2.2 or later.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _judged(context)
    if found is None:
        return
    for port, there in _ports(found):
        if len(there.shape) != len(port.shape) and (there.shape or isinstance(there, Input)):
            yield _at(
                found,
                there,
                f"{port.name!r} is {shape_text(there.shape)}, and must have rank {len(port.shape)}: {_shape(port)}",
                "export the head with Optimum Intel 2.2 or later",
            )


@rule("MTP017", "static-mtp-dimension", Severity.ERROR, "A port of the MTP head has a fixed batch or length")
def static_mtp_dimension(context: Context) -> Iterator[Finding]:
    """A dimension that changes from call to call is a number.

    What it checks
    --------------
    The dimensions that are dynamic in the profile, such as batch and sequence. A width is checked
    by MTP018.

    Why it matters
    --------------
    The paged path lays tokens out along the batch: with a batch of 1 it fails while generating. A
    fixed length fails with the second prompt.

    How to fix it
    -------------
    Export with dynamic shapes, or set the dimension back to ? in the Parameter.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = _judged(context)
    if found is None:
        return
    for port, there in _inputs(found):
        if len(there.shape) == len(port.shape):
            fixed = [
                index
                for index, (wanted, dim) in enumerate(zip(port.shape, there.shape, strict=True))
                if wanted == "?" and dim != DYNAMIC
            ]
            if fixed:
                yield _at(
                    found,
                    there,
                    f"{port.name!r} is {shape_text(there.shape)}, and must be dynamic in dimension "
                    f"{', '.join(map(str, fixed))}: {_shape(port)}",
                    "export with dynamic shapes",
                    None if port.needed else Severity.WARNING,
                )
