"""RUN: the target's inputs against those that the runtime sets, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.lost_names import lost_input, name_input
from irtools.model.part import ModelInput, PartFacts
from irtools.model.ports import PORTS, TOKEN_INPUTS

_FRIENDLY = (*TOKEN_INPUTS, "position_ids")


_FED = frozenset(
    {
        *TOKEN_INPUTS,
        "attention_mask",
        "position_ids",
        "beam_idx",
        "token_type_ids",
        "per_layer_inputs",
        "visual_pos_masks",
        "deepstack_visual_embeds",
    }
)
"""Tensor names of the inputs that GenAI 2026.4 sets on a target."""


_NEEDED = (TOKEN_INPUTS, ("attention_mask",), ("beam_idx",))
"""Tensor names of which a target needs one each."""


def _generating(context: Context) -> PartFacts | None:
    """The target, if it is a stateful language model; RUN001 and RUN002 report other targets."""
    part = context.target_facts
    return part if part is not None and part.states and part.output("logits") is not None else None


def _used(part: PartFacts, port: ModelInput) -> bool:
    types = part.graph.by_type
    return port.op in part.ancestors([*types.get("Result", ()), *types.get("Assign", ())])


@rule("RUN006", "misnamed-input", Severity.NOTE, "An input's friendly name differs from its tensor name")
def friendly_name(context: Context) -> Iterator[Finding]:
    """An input of the target has the right tensor name, but its op has another friendly name.

    What it checks
    --------------
    The friendly names of the Parameters of the inputs that the runtime sets. An error for `input_ids`,
    `inputs_embeds` and `position_ids`, a note for the others.

    Why it matters
    --------------
    The paged-attention conversion looks these inputs up by friendly name and skips others. The target
    is rejected at load time, or generation fails with "Can not clone with new dims". The stateful path
    is not affected.

    How to fix it
    -------------
    Rename the op: `name="..."` of the `<layer>`. `--unsafe-fixes` does it.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = _generating(context)
    if part is None:
        return
    for port in part.inputs:
        names = [name for name in port.names if name in _FED]
        if names and port.friendly != names[0]:
            message = f"the input {names[0]!r} has the friendly name {port.friendly!r}"
            hint = f"rename the op to {names[0]!r}"
            fix = name_input(part, port, names[0])
            if names[0] in _FRIENDLY and part.attentions:
                yield finding_at(part, port, message, hint, Severity.ERROR, fix=fix).stateful_only()
            else:
                yield finding_at(part, port, message, hint, fix=fix)


@rule("RUN007", "unfed-input", Severity.ERROR, "The target has an input that the runtime does not feed")
def unfed_input(context: Context) -> Iterator[Finding]:
    """The runtime does not set an input with this tensor name.

    What it checks
    --------------
    The tensor names of the target's inputs. A warning for an unused input, and for vision-language
    models, whose inputs differ between families.

    Why it matters
    --------------
    The input keeps undefined data. The worst case is `position_ids` with a wrong tensor name and a
    wrong friendly name: the paged path runs without an error message and generates wrong text. The
    stateful path rejects the model: "Model should have 3 or 4 inputs".

    How to fix it
    -------------
    Restore the input's name, or export again. `--unsafe-fixes` restores it if only one name is possible.

    Source
    ------
    Reproduced with GenAI 2026.4: wrong text without an error message.
    """
    part = _generating(context)
    if part is None:
        return
    text_only = part.input("input_ids") is not None
    lost = {found[0][0] for names in _NEEDED if len(found := _lost(part, names)) == 1}  # RUN008 reports them
    missing = [name for name in (*TOKEN_INPUTS, "attention_mask", "position_ids", "beam_idx") if not part.input(name)]
    for port in part.inputs:
        if _FED.isdisjoint(port.names) and port not in lost:
            used = _used(part, port)
            stands = next((name for name in missing if name in port.label or port.friendly == name), None)
            only = next((name for name in missing if used and lost_input(part, name) == port), None)
            guess = f", which can only be {only!r}" if only else f" (is it {stands!r}?)" if stands else ""
            mild = port.label != "position_ids" and (not used or (not text_only and stands is None))
            harmless = stands in ("attention_mask", "beam_idx")
            message = f"the runtime does not feed the input {port.label!r}{guess}"
            fix = name_input(part, port, only) if only else None
            hint = "restore the input's name" + (", or export again without it" if fix is None else "")
            yield finding_at(part, port, message, hint, Severity.WARNING if mild or harmless else None, fix=fix)


@rule("RUN008", "missing-input", Severity.ERROR, "The target lacks an input that the runtime sets")
def missing_input(context: Context) -> Iterator[Finding]:
    """No input of the target has a tensor name that the runtime needs.

    What it checks
    --------------
    That the target has `input_ids` or `inputs_embeds`, and `attention_mask` and `beam_idx`.
    `position_ids` is not required, because some families have none.

    Why it matters
    --------------
    Without token ids or embeddings, loading fails. Without `beam_idx`, the states cannot be converted,
    and loading fails. `attention_mask` or `beam_idx` under another name is a warning: the paged path
    replaces them, but the stateful path fails.

    How to fix it
    -------------
    Export with `--task text-generation-with-past`, or restore the input's tensor name. `--unsafe-fixes` does it
    if only one input is possible.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    part = _generating(context)
    if part is None:
        return
    for names in _NEEDED:
        if any(part.input(name) for name in names):
            continue
        named = next((port for name in names if (port := part.input_called(name)) is not None), None)
        lost = _lost(part, names)
        stand_in = named or (lost[0][0] if lost else _stand_in(part, names[0]))
        hint = "restore the input's tensor name" if stand_in else "export with --task text-generation-with-past"
        severity = Severity.WARNING if names != TOKEN_INPUTS and stand_in is not None else None
        message = f"no input has the tensor name {' or '.join(map(repr, names))}"
        if len(lost) == 1:
            message += f"; the input {lost[0][0].label!r} can only be {lost[0][1]!r}"
        fix = name_input(part, *lost[0]) if len(lost) == 1 else None
        yield finding_at(part, named, message, hint, severity, fix=fix)


def _lost(part: PartFacts, names: Iterable[str]) -> list[tuple[ModelInput, str]]:
    """Inputs that have lost one of several names, if none of these is there."""
    if any(part.input(name) for name in names):
        return []
    return [(port, name) for name in names if (port := lost_input(part, name)) is not None]


def _stand_in(part: PartFacts, name: str) -> ModelInput | None:
    """An unknown input with the type and rank of a missing one."""
    if name in TOKEN_INPUTS:
        return None
    form = PORTS[name]
    unknown = (port for port in part.inputs if _FED.isdisjoint(port.names))
    return next(
        (port for port in unknown if port.element_type == form.element_type and len(port.shape) in form.ranks), None
    )
