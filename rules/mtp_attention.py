"""MTP: the head's attention, as the paged-attention conversion needs it."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.mtp import at_op, expected, qwen_like
from irtools.model.paged import converts_before_attention


@rule("MTP030", "unfused-mtp-attention", Severity.ERROR, "The MTP head has no fused attention")
def unfused_mtp_attention(context: Context) -> Iterator[Finding]:
    """There is no ScaledDotProductAttention in the head.

    What it checks
    --------------
    Whether a live op of that type is there.

    Why it matters
    --------------
    The paged-attention conversion replaces this op. An eager export has a product, a softmax and
    another product instead, and is refused at load.

    How to fix it
    -------------
    Export with `attn_implementation="sdpa"`, which is the exporter's default.

    Source
    ------
    OpenVINO: "No ScaledDotProductAttention operation observed in the graph".
    """
    found = qwen_like(context)
    if found is not None and not found.part.attentions:
        yield at_op(found, None, "the head has no ScaledDotProductAttention", "export with fused attention")


@rule("MTP031", "several-mtp-attentions", Severity.WARNING, "The MTP head has more than one attention layer")
def several_mtp_attentions(context: Context) -> Iterator[Finding]:
    """The head has more attention layers than its family's heads have.

    What it checks
    --------------
    The number of live ScaledDotProductAttention ops. An error with `--expect-mtp`.

    Why it matters
    --------------
    The runtime runs the whole file for each candidate, as one MTP layer. A file with several layers
    predicts the token after several more.

    How to fix it
    -------------
    Export one MTP layer.

    Source
    ------
    Optimum Intel 2.2 exports a single decoder layer.
    """
    found = qwen_like(context)
    if found is None or found.profile.attentions is None:
        return
    extra = found.part.attentions[found.profile.attentions :]
    if extra:
        count = len(found.part.attentions)
        message = f"the head has {count} attention layers, and one MTP layer has {found.profile.attentions}"
        yield at_op(found, extra[0], message, "export one MTP layer", expected(context))


@rule(
    "MTP032", "converted-mtp-cache", Severity.ERROR, "A conversion lies between the MTP head's cache and its attention"
)
def converted_mtp_cache(context: Context) -> Iterator[Finding]:
    """Keys or values are converted to another type and back on their way to the attention.

    What it checks
    --------------
    Whether a Convert of an activation lies between a ReadValue and the key or value input of a
    ScaledDotProductAttention. f32 -> bf16 -> f32 pairs come from a checkpoint in bf16.

    Why it matters
    --------------
    The paged-attention conversion does not match through it: "Model references undeclared
    parameters", at load.

    How to fix it
    -------------
    Load the checkpoint as float32 for the export; compress the weights only.

    Source
    ------
    Reproduced with GenAI 2026.4.
    """
    found = qwen_like(context)
    for op in converts_before_attention(found.part) if found is not None else ():
        if found is not None:
            yield at_op(
                found,
                op,
                f"{found.part.graph.op_name(op)!r} converts the cache on its way to the attention",
                "load the checkpoint as float32 for the export",
            )
