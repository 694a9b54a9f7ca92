"""MTP: where the head joins embeddings and hidden state."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import Fusion, Head, at_op, expected, qwen_like

_AGAIN = "export the head again from its checkpoint"


def _fusion(context: Context) -> tuple[Head, Fusion] | None:
    found = qwen_like(context)
    if found is None or not found.profile.fusion or found.fusion is None:
        return None
    return found, found.fusion


def _complete(found: Head) -> bool:
    """Whether the inputs that the fusion joins are there by name."""
    return found.part.input("hidden_states") is not None and found.part.input("inputs_embeds") is not None


@rule("MTP033", "missing-fusion", Severity.ERROR, "The MTP head does not join embeddings and hidden state")
def missing_fusion(context: Context) -> Iterator[Finding]:
    """There is no MatMul from twice the width to the width over a Concat of two values.

    What it checks
    --------------
    The fusion by its Concat: two operands of the same width along the last axis, read by a MatMul
    with constant weights whose output is half as wide.

    Why it matters
    --------------
    Without it, this is not the MTP head of this family: whatever its ports are called, its
    candidates will be wrong.

    How to fix it
    -------------
    Export the head again from its checkpoint.

    Source
    ------
    Optimum Intel 2.2, `Qwen3_5MTPModule`.
    """
    found = qwen_like(context)
    if found is not None and found.profile.fusion and found.fusion is None and _complete(found):
        yield at_op(found, None, "no Concat joins the embeddings and the hidden state for a projection", _AGAIN)


@rule("MTP034", "swapped-fusion", Severity.ERROR, "The MTP head joins hidden state and embeddings in the wrong order")
def fusion_order(context: Context) -> Iterator[Finding]:
    """The first operand of the fusion's Concat comes from `hidden_states`, the second from `inputs_embeds`.

    What it checks
    --------------
    Which model input each operand of the Concat is computed from. Embeddings come first.

    Why it matters
    --------------
    The projection's weights are laid out for that order. Swapped, or with the names of the two
    inputs swapped, the head runs and proposes nonsense: in a test 5 of 33 candidates were accepted
    instead of 19 of 19, and nothing was said.

    How to fix it
    -------------
    Swap the operands, or the names of the inputs.

    Source
    ------
    Optimum Intel 2.2 concatenates embeddings and hidden state in this order; reproduced with
    GenAI 2026.4: silent.
    """
    joined = _fusion(context)
    if joined is None:
        return
    found, fusion = joined
    first, second = fusion.operands
    if "hidden_states" in first and "inputs_embeds" not in first and "inputs_embeds" in second:
        scopes = found.part.graph.op_name(found.part.graph.producers(fusion.concat)[0])
        named = " (by its name the first operand is the embeddings: are the inputs' names swapped?)"
        yield at_op(
            found,
            fusion.concat,
            f"the fusion joins hidden state and embeddings, and must have the embeddings first"
            f"{named if 'embed' in scopes else ''}",
            "swap the operands of the Concat, or the names of the inputs",
        )


@rule("MTP035", "unused-mtp-input", Severity.ERROR, "The MTP head does not use its hidden state or its embeddings")
def unused_mtp_input(context: Context) -> Iterator[Finding]:
    """An input that carries values is there, but no output depends on its value.

    What it checks
    --------------
    Whether `hidden_states`, `inputs_embeds` and `position_ids` are above the output, not counting
    uses of their shapes, and whether both branches of the fusion get one of the two.

    Why it matters
    --------------
    The head runs, and guesses without knowing the context or the last token: in tests 5 of 33
    candidates were accepted without the hidden state, 10 of 27 without the embeddings, instead of 19
    of 19, and nothing was said.

    How to fix it
    -------------
    Export the head again from its checkpoint.

    Source
    ------
    Reproduced with GenAI 2026.4: silent.
    """
    found = qwen_like(context)
    if found is None:
        return
    operands = found.fusion.operands if found.fusion is not None and found.profile.fusion else ()
    for name in ("hidden_states", "inputs_embeds", "position_ids"):
        there = found.part.input(name)
        if there is None:
            continue
        fused = name == "position_ids" or not operands or any(name in operand for operand in operands)
        if not found.reached(there) or not fused:
            yield at_op(
                found,
                there.op,
                f"the value of the input {name!r} is not used" + ("" if fused else " by the fusion"),
                _AGAIN,
            )


@rule("MTP036", "unnormed-fusion", Severity.WARNING, "The MTP head joins a value without its norm")
def unnormed_fusion(context: Context) -> Iterator[Finding]:
    """An operand of the fusion is not the output of a norm.

    What it checks
    --------------
    Whether each operand of the fusion's Concat is an RMS or layer norm of a model input. An error
    with `--expect-mtp`.

    Why it matters
    --------------
    Embeddings and hidden states have very different scales. A head whose norm is missing runs, and
    proposes nonsense.

    How to fix it
    -------------
    Export the head again from its checkpoint.

    Source
    ------
    Optimum Intel 2.2: `pre_fc_norm_embedding` and `pre_fc_norm_hidden`.
    """
    joined = _fusion(context)
    if joined is None:
        return
    found, fusion = joined
    for position, (names, normed) in enumerate(zip(fusion.operands, fusion.normed, strict=True)):
        if not normed and names:
            message = f"operand {position} of the fusion, from {', '.join(sorted(names))}, is not normalised"
            yield at_op(found, fusion.concat, message, _AGAIN, expected(context))
