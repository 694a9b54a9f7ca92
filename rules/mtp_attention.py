"""MTP: the form of the head's attention that the paged-attention conversion needs."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.mtp import expected, runnable_head
from irtools.model.paged import converts_before_attention


@rule("MTP030", "unfused-mtp-attention", Severity.ERROR, "The MTP head has no fused attention")
def unfused_mtp_attention(context: Context) -> Iterator[Finding]:
    """The head has no ScaledDotProductAttention.

    What it checks
    --------------
    That the head has a live op of this type.

    Why it matters
    --------------
    The paged-attention conversion replaces this op. An eager export computes attention as MatMul,
    SoftMax and MatMul instead, and is rejected at load time.

    How to fix it
    -------------
    Export with `attn_implementation="sdpa"`, the exporter's default.

    Source
    ------
    OpenVINO: "No ScaledDotProductAttention operation observed in the graph".
    """
    head = runnable_head(context)
    if head is not None and not head.part.attentions:
        yield finding_at(head.part, None, "the head has no ScaledDotProductAttention", "export with fused attention")


@rule("MTP031", "several-mtp-attentions", Severity.WARNING, "The MTP head has more than one attention layer")
def several_mtp_attentions(context: Context) -> Iterator[Finding]:
    """The head has more attention layers than an MTP head of its family.

    What it checks
    --------------
    The number of live ScaledDotProductAttention ops. An error with `--expect-mtp`.

    Why it matters
    --------------
    The runtime runs the whole file for each candidate, as if it were one MTP layer. A file with several
    layers predicts a token further ahead.

    How to fix it
    -------------
    Export one MTP layer.

    Source
    ------
    Optimum Intel 2.2 exports a single decoder layer.
    """
    head = runnable_head(context)
    if head is None or head.profile.attentions is None:
        return
    extra = head.part.attentions[head.profile.attentions :]
    if extra:
        count = len(head.part.attentions)
        message = f"the head has {count} attention layers, but one MTP layer has {head.profile.attentions}"
        yield finding_at(head.part, extra[0], message, "export one MTP layer", expected(context))


@rule(
    "MTP032", "converted-mtp-cache", Severity.ERROR, "A conversion lies between the MTP head's cache and its attention"
)
def converted_mtp_cache(context: Context) -> Iterator[Finding]:
    """Keys or values are converted to another type and back before they reach the attention.

    What it checks
    --------------
    That no Convert of an activation lies between a ReadValue and the key or value input of a
    ScaledDotProductAttention. f32 -> bf16 -> f32 pairs come from a bf16 checkpoint.

    Why it matters
    --------------
    The paged-attention conversion does not match such a pair. Loading fails: "Model references
    undeclared parameters".

    How to fix it
    -------------
    Load the checkpoint as float32 for the export, and compress only the weights.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    head = runnable_head(context)
    if head is None:
        return
    for op in converts_before_attention(head.part):
        message = f"{head.part.graph.op_name(op)!r} converts the cache before it reaches the attention"
        yield finding_at(head.part, op, message, "load the checkpoint as float32 for the export")
