"""MTP: the head's key and value states."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import at_op, own_target, qwen_like
from irtools.model.part import State
from irtools.model.target import attention_states
from irtools.text import shape_text


def _op(state: State) -> int:
    return (*state.reads, *state.writes)[0]


@rule("MTP020", "stateless-mtp", Severity.ERROR, "The MTP head has no states")
def stateless_mtp(context: Context) -> Iterator[Finding]:
    """The head keeps its keys and values in inputs and outputs, or not at all.

    What it checks
    --------------
    Whether there is any ReadValue or Assign.

    Why it matters
    --------------
    The paged-attention conversion needs a stateful model; the head is refused at load.

    How to fix it
    -------------
    Export with states, which is the exporter's default (no `--disable-stateful`).

    Source
    ------
    Reproduced with GenAI 2026.4: "Model is supposed to be stateful".
    """
    found = qwen_like(context)
    if found is not None and not found.part.states:
        yield at_op(found, None, "the head has no state variables", "export without `--disable-stateful`")


@rule("MTP021", "wrong-mtp-states", Severity.ERROR, "The MTP head has not one key and one value state")
def mtp_state_count(context: Context) -> Iterator[Finding]:
    """The number of state variables is not that of one attention layer.

    What it checks
    --------------
    The number of distinct variables against the profile: two for one attention layer, of rank 4.

    Why it matters
    --------------
    What the conversion does not recognise as a key or value cache stays behind as a state that
    nobody rewinds when candidates are rejected.

    How to fix it
    -------------
    Export the head again.

    Source
    ------
    OpenVINO, `sdpa_to_paged_attention`.
    """
    found = qwen_like(context)
    if found is None or not found.part.states or any(len(state.reads) > 1 for state in found.part.states):
        return
    wanted = found.profile.states
    if len(found.part.states) != wanted:
        names = ", ".join(state.variable for state in found.part.states)
        yield at_op(
            found,
            _op(found.part.states[-1]),
            f"the head has {len(found.part.states)} state variables ({names}), and must have {wanted}",
            "export the head again",
        )
        return
    for state in found.part.states:
        if state.shape and len(state.shape) != 4:
            message = f"the state {state.variable!r} is {shape_text(state.shape)}, no cache of keys or values"
            yield at_op(found, _op(state), message, "export the head again")


@rule("MTP024", "mtp-cache-mismatch", Severity.ERROR, "The MTP head's cache does not fit the target's attention")
def mtp_state_shape(context: Context) -> Iterator[Finding]:
    """The key and value states have other heads or head sizes than the target's full attention.

    What it checks
    --------------
    The fixed dimensions of the head's rank 4 states against those of the target's key and value
    states. Linear-attention states of the target are left out.

    Why it matters
    --------------
    An MTP layer is built like a full-attention layer of its target. Other sizes mean that the head
    belongs to another model.

    How to fix it
    -------------
    Take head and target from one export.

    Source
    ------
    Optimum Intel 2.2 builds the head from the target's text_config.
    """
    found, target = qwen_like(context), own_target(context)
    if found is None or target is None:
        return
    shapes = {state.shape for state in attention_states(target)}
    for state in attention_states(found.part):
        if shapes and state.shape not in shapes:
            listed = " or ".join(shape_text(shape) for shape in sorted(shapes))
            message = f"the state {state.variable!r} is {shape_text(state.shape)}, those of the target are {listed}"
            yield at_op(found, _op(state), message, "take head and target from one export")
