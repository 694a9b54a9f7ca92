"""MTP: a draft head in the target, which the runtime copies into the draft instead of lm_head."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.mtp import own_target
from irtools.lint.pair import pair
from irtools.lint.versions import matches
from irtools.model.graft import GRAFT_OUTPUT, Graft, graft_ops
from irtools.model.own_head import Likeness, find_own_head, like_lm_head
from irtools.model.part import PartFacts
from irtools.model.target import find_runtime_lm_head

_REGRAFT = "run `irtools graft --remove`, then `irtools graft` again"
_EXCLUDED = ("dflash", "eagle3")
_PROVEN = ">=2026.3,<2026.5"


def _grafts(context: Context) -> Iterator[tuple[PartFacts, Graft]]:
    """Yield the target and its draft head, if it has one."""
    part = context.target_facts
    if part is not None and part.graft is not None:
        yield part, part.graft


def _difference(context: Context, part: PartFacts) -> tuple[str, bool]:
    """Difference of the draft head's weights from those of lm_head, ``""`` without one; True for another precision."""
    own, lm_head = find_own_head(part, GRAFT_OUTPUT), find_runtime_lm_head(part).matmul
    if own is None or lm_head is None:
        return "", False
    theirs = next((weight for weight in part.weights if lm_head in weight.consumers and weight.learned), None)
    if theirs is not None and theirs.precision != own.weight.precision:
        return f"its weights are {own.weight.precision}, and those of lm_head {theirs.precision}", True
    likeness = like_lm_head(own, part, part, context.weights_reader)
    return ("" if likeness in (Likeness.SAME, Likeness.UNKNOWN) else f"it {likeness.value}"), False


@rule("MTP060", "ignored-draft-head", Severity.WARNING, "The runtime does not take the target's draft head")
def ignored_draft_head(context: Context) -> Iterator[Finding]:
    """The target has a draft head that drafting does not use.

    What it checks
    --------------
    If the target has ops of a draft head (`irtools graft`): that their Result has the friendly name `logits` and stands
    before the Result of the model's own logits.

    Why it matters
    --------------
    The runtime copies the MatMul of the first Result that it takes for the logits. In another order it copies the
    whole lm_head. The text and the acceptance rate stay the same, and drafting is as slow as without the draft head.

    How to fix it
    -------------
    Remove the draft head and add it again.

    Source
    ------
    Reproduced with GenAI 2026.4: as many tokens accepted, the memory of the whole head.
    """
    part = context.target_facts
    if part is None:
        return
    if part.graft is not None and not part.graft.first:
        message = "the Result of the draft head follows the Result of the model's logits, so the runtime ignores it"
        yield finding_at(part, part.graft.result, message, _REGRAFT)
    elif part.graft is None and own_target(context) is not None:
        for key in graft_ops(part.graph)[-1:]:
            message = "no Result before the model's logits is named 'logits', so the runtime ignores the draft head"
            yield finding_at(part, key, message, _REGRAFT)


@rule("MTP061", "draft-head-with-rows", Severity.WARNING, "The draft head computes logits in the target too")
def draft_head_with_rows(context: Context) -> Iterator[Finding]:
    """The draft head's MatMul reads hidden states instead of an empty matrix.

    What it checks
    --------------
    That input 0 of the draft head's MatMul has rank 2 and no rows.

    Why it matters
    --------------
    With rows, the target computes these logits in each pass and nobody reads them. With rank 3, GenAI 2026.3 takes this
    MatMul for lm_head and writes wrong text in plain decoding. This is an error for a runtime before 2026.4.

    How to fix it
    -------------
    Remove the draft head and add it with `irtools graft`.

    Source
    ------
    Reproduced with GenAI 2026.3.1 and 2026.4.1.
    """
    for part, graft in _grafts(context):
        shape = part.graph.shape(part.graph.inputs(graft.matmul)[0])
        if len(shape) == 2 and shape[0] == 0:
            continue
        old = matches("<2026.4", context.target_runtime) and len(shape) > 2
        wrong = f"OpenVINO GenAI {context.target_runtime} writes wrong text"
        effect = wrong if old else "each pass of the target computes it"
        message = f"the draft head reads a value of shape {list(shape)} instead of an empty matrix, so {effect}"
        severity, rules_out = (Severity.ERROR, ("plain",)) if old else (None, ())
        yield finding_at(part, graft.matmul, message, _REGRAFT, severity, rules_out=rules_out)


@rule("MTP062", "draft-head-without-hidden-state", Severity.ERROR, "The draft head has no output last_hidden_state")
def draft_head_without_hidden_state(context: Context) -> Iterator[Finding]:
    """The target has a draft head and no output `last_hidden_state`.

    What it checks
    --------------
    If the target has a draft head that the runtime takes: that it also has an output with the tensor name
    `last_hidden_state`.

    Why it matters
    --------------
    The runtime takes the input of the MatMul that it found for the hidden state, unless there is such an output. The
    draft head reads an empty matrix, and generation fails: "Hidden states are required for MTP but the main model
    returned an empty tensor".

    How to fix it
    -------------
    Remove the draft head and add it again.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    for part, graft in _grafts(context):
        if not graft.first or graft.hidden is not None:
            continue
        message = "the target has a draft head and no output 'last_hidden_state', so the MTP head gets an empty tensor"
        yield finding_at(part, graft.result, message, _REGRAFT)


@rule(
    "MTP063", "draft-head-with-other-rows", Severity.ERROR, "The draft head's weights are not the first rows of lm_head"
)
def draft_head_with_other_rows(context: Context) -> Iterator[Finding]:
    """The weights of the draft head differ from those of lm_head.

    What it checks
    --------------
    That draft head and lm_head store their weights in the same precision, and that a sample of 8 rows of the draft head
    has the bytes of those rows of lm_head. Weights that are stored column by column are not compared.

    Why it matters
    --------------
    The draft then proposes tokens by different scores from the target's. No token is accepted, or fewer are, and no
    message says why. A target whose lm_head was compressed by mistake writes worse text.

    How to fix it
    -------------
    Remove the draft head and add it again; compress before grafting.

    Source
    ------
    Reproduced with GenAI 2026.4: with shifted rows 0 of 20 tokens are accepted.
    """
    for part, graft in _grafts(context):
        difference, precision = _difference(context, part)
        if difference:
            hint = "lm_head was changed after grafting, as NNCF does without all_layers; compress first and graft then"
            message = f"the draft head does not have the first rows of lm_head: {difference}"
            yield finding_at(part, graft.matmul, message, hint if precision else _REGRAFT)


@rule("MTP064", "unproven-draft-head", Severity.NOTE, "The draft head was not tested with this runtime release")
def unproven_draft_head(context: Context) -> Iterator[Finding]:
    """The target has a draft head, and the runtime release is not one that it was tested with.

    What it checks
    --------------
    That `--target-runtime` is 2026.3 or 2026.4.

    Why it matters
    --------------
    A draft head relies on how the runtime looks for logits. Another release may do that in another way.

    How to fix it
    -------------
    Run `irtools prove` with that release.

    Source
    ------
    Run with GenAI 2026.3.1 (plain decoding), 2026.4.0 and 2026.4.1.
    """
    for part, graft in _grafts(context):
        if matches(_PROVEN, context.target_runtime):
            continue
        message = f"the draft head was not tested with OpenVINO GenAI {context.target_runtime}"
        yield finding_at(part, graft.result, message, "run `irtools prove` with that release")


@rule(
    "MTP065",
    "draft-head-excludes-drafts",
    Severity.NOTE,
    "A target with a draft head cannot be used with DFlash or EAGLE-3",
    rules_out=("dflash", "eagle3"),
)
def draft_head_excludes_drafts(context: Context) -> Iterator[Finding]:
    """The target's draft head serves MTP and gets in the way of other drafts.

    What it checks
    --------------
    Whether the target has a draft head with its output `last_hidden_state`. It is an error with a DFlash or EAGLE-3
    draft (`--draft`).

    Why it matters
    --------------
    With this output, DFlash fails when it generates, and EAGLE-3 silently reads the wrong hidden state: no token is
    accepted.

    How to fix it
    -------------
    Use a copy of the target without the draft head.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    paired = pair(context)
    severity = Severity.ERROR if paired is not None and paired.draft.kind in _EXCLUDED else None
    for part, graft in _grafts(context):
        if graft.hidden is not None:
            covered = f"the draft head covers {graft.rows} tokens for MTP"
            message = f"{covered}, and with it DFlash and EAGLE-3 drafts do not work"
            hint = "use a target without it for those"
            yield finding_at(part, graft.result, message, hint, severity, rules_out=_EXCLUDED)
