"""RUN: does the runtime find the target's output projection and embedding."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.lint.model import Context, Finding, Severity, rule
from irtools.lint.run import target_part
from irtools.model.target import find_embedding_gather, logits_head


@rule("RUN010", "unrecognised-head", Severity.NOTE, "The runtime does not recognise the output projection")
def unrecognised_head(context: Context) -> Iterator[Finding]:
    """What is between the MatMul and `logits` is none of the forms that the runtime knows.

    What it checks
    --------------
    That `logits` is a MatMul, or Add(MatMul), Transpose(MatMul) or Multiply(Tanh(Divide(MatMul))),
    each by the first operand. A scale, as in Cohere and Granite, is not known.

    Why it matters
    --------------
    The runtime then computes the logits of every prompt token instead of the last one, which takes
    time and memory. DFlash cannot take the projection over, and refuses the target; MTP needs the
    MatMul itself.

    How to fix it
    -------------
    Nothing in the export; it is a limit of the runtime.

    Source
    ------
    OpenVINO GenAI, `find_llm_matmul`.
    """
    part = target_part(context)
    found = logits_head(part) if part is not None and part.states else None
    if part is not None and found is not None and found.output is not None and found.matmul is None:
        yield Finding(
            f"the runtime does not find the output projection behind {' <- '.join(found.tail)}",
            "it works without a draft, but computes the logits of every prompt token",
            file=part.document.path,
            line=found.output.line,
            op=found.output.friendly,
        )


@rule("RUN011", "unrecognised-embedding", Severity.NOTE, "The runtime does not recognise the token embedding")
def unrecognised_embedding(context: Context) -> Iterator[Finding]:
    """No Gather of the target is one that the runtime takes for the token embedding.

    What it checks
    --------------
    The runtime's own rule: the first Gather whose data has more than 1000 rows, or is called
    `embed_tokens` or `embedding`. Vision-language targets have their embeddings in another part.

    Why it matters
    --------------
    A DFlash or EAGLE-3 draft without embeddings of its own gets the target's; without them it is
    refused at load. Nothing else needs it.

    How to fix it
    -------------
    Name the table `embed_tokens`. Real vocabularies have more than 1000 rows.

    Source
    ------
    OpenVINO GenAI, `find_embedding_gather`.
    """
    part = target_part(context)
    if part is None or part.output("logits") is None or part.input("input_ids") is None or not part.states:
        return
    if find_embedding_gather(part) is None:
        yield Finding(
            "the runtime would not find the token embedding: no Gather has more than 1000 rows or the name for it",
            "a DFlash or EAGLE-3 draft that needs the target's embedding is refused",
            file=part.document.path,
            line=part.document.line(part.document.scan.net_tag),
        )
