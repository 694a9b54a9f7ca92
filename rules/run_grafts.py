"""RUN: the runtime's search for the target's output projection and embedding."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.lint.pair import dflash_draft
from irtools.model.target import find_embedding_gather, find_runtime_lm_head

_OWN_EMBEDDING = "that takes input_ids and has an embedding of its own"


@rule("RUN010", "unrecognised-head", Severity.NOTE, "The runtime does not recognise the output projection")
def unrecognised_head(context: Context) -> Iterator[Finding]:
    """The ops between the MatMul and `logits` do not have a form that the runtime recognises.

    What it checks
    --------------
    That `logits` is a MatMul, or Add(MatMul), Transpose(MatMul) or Multiply(Tanh(Divide(MatMul))),
    where each op reads the next as its first operand. A scale, as in Cohere and Granite, is not
    recognised.

    Why it matters
    --------------
    The runtime then computes the logits of every prompt token instead of the last one, which costs time
    and memory. DFlash cannot graft the projection and rejects the target. MTP needs the MatMul directly
    at the output.

    How to fix it
    -------------
    The export cannot be fixed, because this is a limitation of the runtime.

    Source
    ------
    OpenVINO GenAI, `find_llm_matmul`.
    """
    part = context.target_facts
    head = find_runtime_lm_head(part) if part is not None and part.states else None
    if part is not None and head is not None and head.output is not None and head.matmul is None:
        draft = dflash_draft(context)
        own = draft is not None and draft.part.output("logits") is not None
        message = f"the runtime does not find the output projection behind {' <- '.join(head.tail)}"
        hint = "the target runs without a draft, but computes the logits of every prompt token"
        yield finding_at(part, head.output, message, hint, rules_out=() if own else ("dflash",))


@rule("RUN011", "unrecognised-embedding", Severity.NOTE, "The runtime does not recognise the token embedding")
def unrecognised_embedding(context: Context) -> Iterator[Finding]:
    """The runtime recognises no Gather of the target as the token embedding.

    What it checks
    --------------
    The runtime's rule: the token embedding is the first Gather whose data has more than 1000 rows or is
    named `embed_tokens` or `embedding`. The embedding of a vision-language target is in another part
    and is not checked.

    Why it matters
    --------------
    A DFlash or EAGLE-3 draft without its own embeddings uses the target's; if they are not recognised,
    loading fails. Nothing else needs them.

    How to fix it
    -------------
    Name the table `embed_tokens`. Vocabularies of real models have more than 1000 rows.

    Source
    ------
    OpenVINO GenAI, `find_embedding_gather`.
    """
    part = context.target_facts
    if part is None or part.output("logits") is None or part.input("input_ids") is None or not part.states:
        return
    if find_embedding_gather(part) is None:
        # A rule of pairs judges the embedding of a DFlash draft that is given.
        given = dflash_draft(context) is not None
        needs = dict.fromkeys(("eagle3",) if given else ("dflash", "eagle3"), _OWN_EMBEDDING)
        message = (
            "the runtime does not find the token embedding: no Gather has more than 1000 rows or the expected name"
        )
        yield finding_at(part, None, message, "use a DFlash or EAGLE-3 draft that has its own embedding", needs=needs)
