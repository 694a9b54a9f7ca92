"""RUN: does the target have the inputs that the runtime feeds, under the names it looks for."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.run import FED, target_part
from irtools.model.part import Input, Part

_EMBEDDED = ("input_ids", "inputs_embeds")
_FRIENDLY = ("input_ids", "inputs_embeds", "position_ids")


def _at(part: Part, port: Input | None, message: str, hint: str, severity: Severity | None = None) -> Finding:
    line = port.line if port is not None else part.document.line(part.document.scan.net_tag)
    return Finding(message, hint, part.document.path, line, port.friendly if port is not None else None, severity)


def _generating(context: Context) -> Part | None:
    """The target, if it is a stateful language model: what else there is to say is said elsewhere."""
    part = target_part(context)
    return part if part is not None and part.states and part.output("logits") is not None else None


def _used(part: Part, port: Input) -> bool:
    types = part.graph.by_type
    return port.op in part.ancestors([*types.get("Result", ()), *types.get("Assign", ())])


@rule("RUN006", "misnamed-input", Severity.NOTE, "An input's friendly name differs from its tensor name")
def friendly_name(context: Context) -> Iterator[Finding]:
    """An input of the target has the right tensor name on an op with another friendly name.

    What it checks
    --------------
    The friendly names of the Parameters behind the inputs that the runtime sets. An error for
    `input_ids`, `inputs_embeds` and `position_ids`, a note for the others.

    Why it matters
    --------------
    The paged-attention conversion looks these up by friendly name and passes others by: refused at
    load, or "Can not clone with new dims" while generating. The stateful path does not mind.

    How to fix it
    -------------
    Rename the op: `name="..."` of the `<layer>`.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = _generating(context)
    if part is None:
        return
    for port in part.inputs:
        known = [name for name in port.names if name in FED]
        if known and port.friendly != known[0]:
            yield _at(
                part,
                port,
                f"the input {known[0]!r} is an op with the friendly name {port.friendly!r}",
                f"rename the op to {known[0]!r}",
                Severity.ERROR if known[0] in _FRIENDLY and part.attentions else None,
            )


@rule("RUN007", "unfed-input", Severity.ERROR, "The target has an input that the runtime does not feed")
def unfed_input(context: Context) -> Iterator[Finding]:
    """The tensor name of an input is none that the runtime sets.

    What it checks
    --------------
    The tensor names of the target's inputs. A warning for an input that nothing uses, and for
    vision-language models, whose inputs differ from family to family.

    Why it matters
    --------------
    The input keeps what the device has there. Positions under another name, tensor and friendly, are
    the worst case: the paged path runs, says nothing, and writes wrong text. The stateful path
    refuses: "Model should have 3 or 4 inputs".

    How to fix it
    -------------
    Give the input its name back, or export again.

    Source
    ------
    Reproduced with GenAI 2026.4: silent, wrong text.
    """
    part = _generating(context)
    if part is None:
        return
    text_only = part.input("input_ids") is not None
    missing = [name for name in (*_EMBEDDED, "attention_mask", "position_ids", "beam_idx") if not part.input(name)]
    for port in part.inputs:
        if FED.isdisjoint(port.names):
            used = _used(part, port)
            stands = next((name for name in missing if name in port.label or port.friendly == name), None)
            guess = f"; is it {stands!r}?" if stands else ""
            mild = port.label != "position_ids" and (not used or (not text_only and stands is None))
            harmless = stands in ("attention_mask", "beam_idx")
            yield _at(
                part,
                port,
                f"the runtime feeds no input {port.label!r}{guess}",
                "give the input its name back, or export again without it",
                Severity.WARNING if mild or harmless else None,
            )


@rule("RUN008", "missing-input", Severity.ERROR, "The target lacks an input that the runtime sets")
def missing_input(context: Context) -> Iterator[Finding]:
    """No input of the target has a tensor name that the runtime needs.

    What it checks
    --------------
    That there is `input_ids` or `inputs_embeds`, and `attention_mask` and `beam_idx`. Some families
    have no `position_ids`, and need none.

    Why it matters
    --------------
    Without embeddings or ids: refused at load. Without `beam_idx`: the states cannot be converted,
    refused at load. `attention_mask` or `beam_idx` under another name: a warning, because the paged
    path replaces them; the stateful path fails.

    How to fix it
    -------------
    Export with `--task text-generation-with-past`, or give the input its tensor name back.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = _generating(context)
    if part is None:
        return
    for names in (_EMBEDDED, ("attention_mask",), ("beam_idx",)):
        if any(part.input(name) for name in names):
            continue
        named = next((port for name in names if (port := part.input_called(name)) is not None), None)
        stand_in = named or _stand_in(part, names[0])
        yield _at(
            part,
            named,
            f"no input has the tensor name {' or '.join(map(repr, names))}",
            "give the input its tensor name back" if stand_in else "export with --task text-generation-with-past",
            Severity.WARNING if names != _EMBEDDED and stand_in is not None else None,
        )


def _stand_in(part: Part, name: str) -> Input | None:
    """An input that the runtime does not know and that has the type and rank of a missing one."""
    wanted = {"beam_idx": ("i32", 1), "attention_mask": ("i64", 2)}.get(name)
    return next(
        (port for port in part.inputs if FED.isdisjoint(port.names) and (port.element_type, len(port.shape)) == wanted),
        None,
    )
