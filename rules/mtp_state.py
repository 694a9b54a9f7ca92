"""MTP: the head's key and value states."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.mtp import own_target, runnable_head
from irtools.model.part import State
from irtools.model.target import attention_states
from irtools.text import shape_text


def _op(state: State) -> int:
    return (*state.reads, *state.writes)[0]


@rule("MTP020", "stateless-mtp", Severity.ERROR, "The MTP head has no states")
def stateless_mtp(context: Context) -> Iterator[Finding]:
    """The head has its keys and values as inputs and outputs, or has no cache.

    What it checks
    --------------
    That the head has a ReadValue or Assign.

    Why it matters
    --------------
    The paged-attention conversion needs a stateful model. The runtime rejects the head at load time.

    How to fix it
    -------------
    Export a stateful head, which is the exporter's default (no `--disable-stateful`).

    Source
    ------
    Reproduced with GenAI 2026.4: "Model is supposed to be stateful".
    """
    head = runnable_head(context)
    if head is not None and not head.part.states:
        yield finding_at(head.part, None, "the head has no state variables", "export without `--disable-stateful`")


@rule("MTP021", "wrong-mtp-states", Severity.ERROR, "The MTP head does not have one key and one value state")
def mtp_state_count(context: Context) -> Iterator[Finding]:
    """The number of state variables is not the number for one attention layer.

    What it checks
    --------------
    The number of distinct variables against the profile: two of rank 4 for one attention layer.

    Why it matters
    --------------
    The conversion leaves a state that it does not recognise as a key or value cache. The runtime does
    not rewind such a state when candidates are rejected.

    How to fix it
    -------------
    Export the head again.

    Source
    ------
    OpenVINO, `sdpa_to_paged_attention`.
    """
    head = runnable_head(context)
    if head is None or not head.part.states or any(len(state.reads) > 1 for state in head.part.states):
        return
    wanted = head.profile.states
    if len(head.part.states) != wanted:
        names = ", ".join(state.variable for state in head.part.states)
        message = f"the head has {len(head.part.states)} state variables ({names}), but must have {wanted}"
        yield finding_at(head.part, _op(head.part.states[-1]), message, "export the head again")
        return
    for state in head.part.states:
        if state.shape and len(state.shape) != 4:
            message = f"the state {state.variable!r} is {shape_text(state.shape)}, which is not a key or value cache"
            yield finding_at(head.part, _op(state), message, "export the head again")


@rule("MTP024", "mtp-cache-mismatch", Severity.ERROR, "The MTP head's cache does not match the target's attention")
def mtp_state_shape(context: Context) -> Iterator[Finding]:
    """The key and value states have different head counts or head sizes from the target's full attention.

    What it checks
    --------------
    The fixed dimensions of the head's rank-4 states against the target's key and value states.
    Linear-attention states of the target are not compared.

    Why it matters
    --------------
    An MTP layer has the form of a full-attention layer of its target. Different sizes mean that the head
    belongs to another model.

    How to fix it
    -------------
    Take the head and the target from the same export.

    Source
    ------
    Optimum Intel 2.2 builds the head from the target's text_config.
    """
    head, target = runnable_head(context), own_target(context)
    if head is None or target is None:
        return
    shapes = {state.shape for state in attention_states(target)}
    other = [state for state in attention_states(head.part) if shapes and state.shape not in shapes]
    for shape in dict.fromkeys(state.shape for state in other):
        alike = [state for state in other if state.shape == shape]
        states = " and ".join(repr(state.variable) for state in alike)
        listed = " or ".join(shape_text(shape) for shape in sorted(shapes))
        verb = "the states {} are" if len(alike) > 1 else "the state {} is"
        message = f"{verb.format(states)} {shape_text(shape)}, but the target's states are {listed}"
        yield finding_at(head.part, _op(alike[0]), message, "take head and target from one export")
