"""QNT010 to QNT013: compression across the parts of an export, and weights without a scale."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.authoring import STRATEGIES, Context, Finding, Severity, finding_at, rule
from irtools.graph.view import GraphView
from irtools.ir.constants import ELEMENT_BITS
from irtools.lint.mtp import expected
from irtools.model.compression import STORED, Compression

_AGAIN = "Export again with the same compression"
_MAJORITY = 0.5
_SMALLEST = 256
_KEEPS_VALUES = {"Convert", "Reshape", "Transpose", "Squeeze", "Unsqueeze"}


def _pair(context: Context) -> tuple[Compression, Compression] | None:
    """Compression of the target and of the MTP head."""
    if context.target is None or context.mtp is None:
        return None
    target, head = context.compression(context.target), context.compression(context.mtp)
    return (target, head) if target is not None and head is not None and not head.empty else None


@rule("QNT010", "uncompressed-mtp", Severity.WARNING, "The target is compressed, but the MTP head is not")
def uncompressed_mtp(context: Context) -> Iterator[Finding]:
    """The target is compressed, but the MTP head is not.

    What it checks
    --------------
    The share of the weights stored in eight bits or less, in target and head. An error with
    ``--expect-mtp``.

    Why it matters
    --------------
    The head runs for every drafted token. Beside a 4-bit target, an uncompressed head costs a large
    part of the speed gained by drafting.

    How to fix it
    -------------
    Export again with the same compression for both. The exporter's default for the language model also
    applies to the head: 4-bit asymmetric in groups of 64, with int8 symmetric as backup precision.

    Source
    ------
    Optimum Intel 2.2, ``quantization_configs`` of Qwen3.5.
    """
    pair = _pair(context)
    if pair is None:
        return
    target, head = pair
    if target.share > _MAJORITY and head.share <= _MAJORITY:
        part = f"{1 - head.share:.0%} of the" if head.share else "all"
        uncompressed = f"the MTP head is not compressed ({part} weights are {head.main_type})"
        message, hint = f"{uncompressed}, but the target is {target.main_type}", f"{_AGAIN} for both"
        yield Finding(message, hint, head.document.path, 1, severity=expected(context))


@rule("QNT011", "mtp-precision-differs", Severity.NOTE, "MTP head and target have different weight precisions")
def mtp_precision_differs(context: Context) -> Iterator[Finding]:
    """MTP head and target have different weight precisions.

    What it checks
    --------------
    The bits per value of the majority of weights, in target and head.

    Why it matters
    --------------
    More bits in the head reduce speed, and fewer bits reduce the acceptance rate. The generated text
    stays correct.

    How to fix it
    -------------
    No action is needed if this is intended. Otherwise export again with the same compression for both.

    Source
    ------
    Optimum Intel 2.2, ``quantization_configs`` of Qwen3.5.
    """
    pair = _pair(context)
    if pair is None or (pair[0].share > _MAJORITY and pair[1].share <= _MAJORITY):
        return  # QNT010 reports it
    target, head = pair
    if ELEMENT_BITS.get(target.main_type) != ELEMENT_BITS.get(head.main_type):
        message = f"most weights of the MTP head are {head.main_type}, but those of the target are {target.main_type}"
        yield Finding(message, f"{_AGAIN} for both, unless this is intended", head.document.path, 1)


@rule("QNT012", "uncompressed-part", Severity.NOTE, "The language model is compressed, but another part is not")
def uncompressed_part(context: Context) -> Iterator[Finding]:
    """The language model is compressed, but another part is not.

    What it checks
    --------------
    Text embeddings and vision parts beside a compressed language model.

    Why it matters
    --------------
    The exporter compresses these parts to eight bits. Uncompressed, they can be larger than the
    language model.

    How to fix it
    -------------
    No action is needed if this is intended. Otherwise export again.

    Source
    ------
    Optimum Intel 2.2.
    """
    target = context.compression(context.target) if context.target is not None else None
    if target is None or target.share <= _MAJORITY:
        return
    for name, document in context.documents.items():
        if document in (context.target, context.mtp) or "token" in name:
            continue
        compression = context.compression(document)
        if compression is not None and not compression.empty and not compression.share:
            other = f"those of {target.document.path.name} are {target.main_type}"
            hint = "Export again with every part compressed, unless this is intended"
            yield Finding(f"all weights are {compression.main_type}, but {other}", hint, document.path, 1)


@rule(
    "QNT013",
    "weight-without-scale",
    Severity.ERROR,
    "A compressed weight is used without its scale",
    rules_out=STRATEGIES,
)
def weight_without_scale(context: Context) -> Iterator[Finding]:
    """A compressed weight is used without its scale.

    What it checks
    --------------
    That a weight of eight bits or less is multiplied by a scale before a MatMul reads it.

    Why it matters
    --------------
    The model loads without an error message, but its values are about a hundred times too large, and it
    generates garbage.

    How to fix it
    -------------
    Compress again from the uncompressed export.

    Source
    ------
    nncf 3.4: Const, Convert, Subtract if there is a zero point, then Multiply by the scale.
    """
    for document in context.all_documents:
        compression = context.compression(document)
        if compression is None or not compression.touched:
            continue
        for constant in context.constants(document):
            if constant.in_body or constant.element_type not in STORED or constant.elements < _SMALLEST:
                continue
            if _reaches_product(document.graph, constant.id):
                message = f"the {constant.element_type} weight {constant.name!r} is used without a scale"
                hint = "Compress again from the uncompressed export"
                # The runtime runs the head all the same, and the target corrects what it drafts.
                rules_out = () if document is context.export.mtp else None
                yield finding_at(document, constant, message, hint, rules_out=rules_out)


def _reaches_product(graph: GraphView, key: int) -> bool:
    """True if a MatMul reads a value through value-preserving ops (reshape, convert, zero point) only."""
    seen = {key}
    pending = [key]
    while pending:
        for consumer in graph.consumers(pending.pop()):
            kind = graph.op_type(consumer.op)
            if kind == "MatMul":
                return True
            follows = kind in _KEEPS_VALUES or (kind == "Subtract" and consumer.input == 0)
            if follows and consumer.op not in seen:
                seen.add(consumer.op)
                pending.append(consumer.op)
    return False
