"""MTP: the fusion of embeddings and hidden state in the head."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.graph.view import Source
from irtools.lint.fix_makers import make_edits
from irtools.lint.mtp import expected, runnable_head
from irtools.model.mtp import Fusion, MtpHead
from irtools.surgery.edits import Edit, OpOutput, Rename, Rewire, SetTensorNames

_AGAIN = "export the head again from its checkpoint"


def _fusion(context: Context) -> tuple[MtpHead, Fusion] | None:
    head = runnable_head(context)
    if head is None or not head.profile.fusion or head.fusion is None:
        return None
    return head, head.fusion


@rule("MTP033", "missing-fusion", Severity.ERROR, "The MTP head does not join embeddings and hidden state")
def missing_fusion(context: Context) -> Iterator[Finding]:
    """No MatMul projects a Concat of two values from twice the width to the width.

    What it checks
    --------------
    That the head has a Concat of two operands of the same width along the last axis, and that a MatMul
    with constant weights reduces it to that width.

    Why it matters
    --------------
    Without the fusion, this is not an MTP head of this family. Whatever the names of its ports, its
    predictions are wrong.

    How to fix it
    -------------
    Export the head again from its checkpoint.

    Source
    ------
    Optimum Intel 2.2, `Qwen3_5MTPModule`.
    """
    head = runnable_head(context)
    if head is None or not head.profile.fusion or head.fusion is not None:
        return
    if head.part.input("hidden_states") is not None and head.part.input("inputs_embeds") is not None:
        message = "no Concat joins the embeddings and the hidden state for a projection"
        yield finding_at(head.part, None, message, _AGAIN)


@rule("MTP034", "swapped-fusion", Severity.ERROR, "The MTP head joins hidden state and embeddings in the wrong order")
def fusion_order(context: Context) -> Iterator[Finding]:
    """The first operand of the fusion's Concat comes from `hidden_states`, the second from `inputs_embeds`.

    What it checks
    --------------
    The model input that each operand of the Concat is computed from. The embeddings must come first.

    Why it matters
    --------------
    The projection's weights depend on this order. If the operands, or the names of the two inputs, are
    swapped, the head runs without an error message and its predictions are wrong: in a test, 5 of 33
    candidates were accepted instead of 19 of 19.

    How to fix it
    -------------
    Swap the operands, or the names of the inputs. If tensor names and friendly names contradict each other
    (MTP011), the tensor names are swapped. Otherwise the names of the norms say which: a norm of the embeddings
    that is computed from `hidden_states` means that the inputs are swapped. `--unsafe-fixes` does it, and only if
    these names decide.

    Source
    ------
    Optimum Intel 2.2 concatenates embeddings and hidden state in this order; reproduced with GenAI
    2026.4: no error message.
    """
    joined = _fusion(context)
    if joined is None:
        return
    head, fusion = joined
    first, second = fusion.operands
    if "hidden_states" in first and "inputs_embeds" not in first and "inputs_embeds" in second:
        message = "the fusion has the hidden state first, but must have the embeddings first"
        meant = "tensors" if _crossed(head) else _meant(head, fusion)
        if meant == "tensors":
            message += " (by their friendly names, the tensor names of the two inputs are swapped)"
        elif meant == "inputs":
            message += " (by its op name, the first operand is the embeddings: are the inputs' names swapped?)"
        hint = "swap the operands of the Concat, or the names of the inputs"
        fix = make_edits("Restore the order of the fusion", _exchanged(head, fusion, meant)) if meant else None
        yield finding_at(head.part, fusion.concat, message, hint, fix=fix)


def _crossed(head: MtpHead) -> bool:
    """True if each of the two inputs has the tensor name of the other, and its own friendly name."""
    hidden, embeddings = head.part.input("hidden_states"), head.part.input("inputs_embeds")
    if hidden is None or embeddings is None:
        return False
    return (hidden.friendly, embeddings.friendly) == ("inputs_embeds", "hidden_states")


def _meant(head: MtpHead, fusion: Fusion) -> str:
    """Kind of swap, by the names of the ops above the Concat: ``operands``, ``inputs``, or ``""`` if unknown."""
    graph = head.part.graph
    first, second = (
        " ".join(graph.op_name(op) for op in _branch(head, source)).lower() for source in graph.inputs(fusion.concat)
    )
    votes = (("hidden" in first) + ("embed" in second)) - (("embed" in first) + ("hidden" in second))
    return "" if votes == 0 else "operands" if votes > 0 else "inputs"


def _branch(head: MtpHead, source: Source) -> list[int]:
    """Ops that compute an operand from model inputs and constants; shapes do not count."""
    graph = head.part.graph
    above = head.part.ancestors([source.op], through_shapes=False)
    return [op for op in above if graph.op_type(op) not in ("Parameter", "ShapeOf") and not graph.constant(op)]


def _exchanged(head: MtpHead, fusion: Fusion, meant: str) -> tuple[Edit, ...]:
    """Edits that exchange the operands of the fusion, what they are computed from, or the names of the inputs."""
    graph = head.part.graph

    def output(source: Source) -> OpOutput:
        return OpOutput(source.op, graph.output_index(source))

    operands = graph.inputs(fusion.concat)
    if meant == "operands":
        return tuple(Rewire(fusion.concat, 1 - index, output(source)) for index, source in enumerate(operands))
    hidden, embeddings = head.part.input("hidden_states"), head.part.input("inputs_embeds")
    if hidden is None or embeddings is None:  # the operands are computed from them
        return ()
    if meant == "tensors":
        pairs = ((hidden, embeddings), (embeddings, hidden))
        return tuple(SetTensorNames(OpOutput(one.op), other.names) for one, other in pairs)
    wanted = [port.name for port in head.profile.inputs if port.name in ("hidden_states", "inputs_embeds")]
    present = [port.names[0] for port in head.part.inputs if port in (hidden, embeddings)]
    if wanted != present:  # the inputs are in the other order too, so their names were swapped
        pairs = ((hidden, embeddings), (embeddings, hidden))
        return tuple(
            edit
            for one, other in pairs
            for edit in (SetTensorNames(OpOutput(one.op), other.names), Rename(one.op, other.friendly))
        )
    other_of = {hidden.op: embeddings.op, embeddings.op: hidden.op}
    return tuple(
        Rewire(op, index, OpOutput(other_of[source.op]))
        for operand in operands
        for op in _branch(head, operand)
        for index, source in enumerate(graph.inputs(op))
        if source.op in other_of
    )


@rule("MTP035", "unused-mtp-input", Severity.ERROR, "The MTP head does not use its hidden state or its embeddings")
def unused_mtp_input(context: Context) -> Iterator[Finding]:
    """An input exists, but no output depends on its value.

    What it checks
    --------------
    That the outputs depend on `hidden_states`, `inputs_embeds` and `position_ids` (uses of their shapes
    do not count), and that both branches of the fusion depend on one of the first two.

    Why it matters
    --------------
    The head runs without an error message, but predicts without the context or the last token. In
    tests, 5 of 33 candidates were accepted without the hidden state and 10 of 27 without the
    embeddings, instead of 19 of 19.

    How to fix it
    -------------
    Export the head again from its checkpoint.

    Source
    ------
    Reproduced with GenAI 2026.4: no error message.
    """
    head = runnable_head(context)
    if head is None:
        return
    operands = head.fusion.operands if head.fusion is not None and head.profile.fusion else ()
    for name in ("hidden_states", "inputs_embeds", "position_ids"):
        port = head.part.input(name)
        if port is None:
            continue
        fused = name == "position_ids" or not operands or any(name in operand for operand in operands)
        if not head.reached(port) or not fused:
            message = f"the value of the input {name!r} is not used" + ("" if fused else " by the fusion")
            yield finding_at(head.part, port.op, message, _AGAIN)


@rule("MTP036", "unnormed-fusion", Severity.WARNING, "The MTP head joins a value without its norm")
def unnormed_fusion(context: Context) -> Iterator[Finding]:
    """An operand of the fusion is not the output of a norm.

    What it checks
    --------------
    That each operand of the fusion's Concat is an RMS or layer norm of a model input. An error with
    `--expect-mtp`.

    Why it matters
    --------------
    Embeddings and hidden states have very different scales. A head without one of the norms runs, but
    its predictions are wrong.

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
    head, fusion = joined
    for position, (names, normed) in enumerate(zip(fusion.operands, fusion.normed, strict=True)):
        if not normed and names:
            message = f"operand {position} of the fusion, from {', '.join(sorted(names))}, is not normalised"
            yield finding_at(head.part, fusion.concat, message, _AGAIN, expected(context))
