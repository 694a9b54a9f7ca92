"""QNT010 to QNT013: the parts of an export beside each other, and weights that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.graph.view import GraphView
from irtools.ir.constants import ELEMENT_BITS
from irtools.lint import Context, Finding, Severity, rule
from irtools.model.compression import STORED, Compression

_MOSTLY = 0.5
_SMALLEST = 256
_KEEPS_VALUES = {"Convert", "Reshape", "Transpose", "Squeeze", "Unsqueeze"}


def _pair(context: Context) -> tuple[Compression, Compression] | None:
    """Target and MTP head."""
    if context.target is None or context.mtp is None:
        return None
    target, head = context.compression(context.target), context.compression(context.mtp)
    return (target, head) if target is not None and head is not None and not head.empty else None


@rule("QNT010", "uncompressed-mtp", Severity.WARNING, "The MTP head is not compressed, and the target is")
def uncompressed_mtp(context: Context) -> Iterator[Finding]:
    """The MTP head is not compressed, and the target is.

    What it checks
    --------------
    The share of the weights that are stored in eight bits or less, in target and head. An error with
    ``--expect-mtp``.

    Why it matters
    --------------
    The head runs for every drafted token. Uncompressed beside a 4-bit target it takes a large part
    of what drafting saves.

    How to fix it
    -------------
    Export again with the same compression for both: the exporter's default for the language model is
    meant for the head too. It is 4-bit asymmetric in groups of 64, with int8 symmetric backup.

    Source
    ------
    Optimum Intel 2.2, ``quantization_configs`` of Qwen3.5.
    """
    pair = _pair(context)
    if pair is None:
        return
    target, head = pair
    if target.share > _MOSTLY and head.share <= _MOSTLY:
        how = (
            f"all weights are {head.main_type}" if not head.share else f"{1 - head.share:.0%} of it is {head.main_type}"
        )
        yield Finding(
            f"the MTP head is not compressed ({how}), and the target is {target.main_type}",
            "Export again with the same compression for both",
            file=head.document.path,
            line=1,
            severity=Severity.ERROR if context.expect_mtp else None,
        )


@rule("QNT011", "mtp-precision-differs", Severity.NOTE, "The MTP head is stored in another precision than the target")
def mtp_precision_differs(context: Context) -> Iterator[Finding]:
    """The MTP head is stored in another precision than the target.

    What it checks
    --------------
    The bits per value of most weights in target and head.

    Why it matters
    --------------
    More bits in the head cost speed, fewer cost acceptance; the drafted text stays right.

    How to fix it
    -------------
    Nothing if it is meant; otherwise export again with the same compression for both.

    Source
    ------
    Optimum Intel 2.2, ``quantization_configs`` of Qwen3.5.
    """
    pair = _pair(context)
    if pair is None or (pair[0].share > _MOSTLY and pair[1].share <= _MOSTLY):
        return  # QNT010 says more
    target, head = pair
    if ELEMENT_BITS.get(target.main_type) != ELEMENT_BITS.get(head.main_type):
        yield Finding(
            f"most weights of the MTP head are {head.main_type}, those of the target {target.main_type}",
            "Export again with the same compression for both, unless it is meant",
            file=head.document.path,
            line=1,
        )


@rule("QNT012", "uncompressed-part", Severity.NOTE, "A part is not compressed, and the language model is")
def uncompressed_part(context: Context) -> Iterator[Finding]:
    """A part is not compressed, and the language model is.

    What it checks
    --------------
    Text embeddings and vision parts beside a compressed language model.

    Why it matters
    --------------
    The exporter compresses them to eight bits. Left alone they can be larger than the language model.

    How to fix it
    -------------
    Nothing if it is meant; otherwise export again.

    Source
    ------
    Optimum Intel 2.2.
    """
    target = context.compression(context.target) if context.target is not None else None
    if target is None or target.share <= _MOSTLY:
        return
    for name, document in context.documents.items():
        if document in (context.target, context.mtp) or "token" in name:
            continue
        compression = context.compression(document)
        if compression is not None and not compression.empty and not compression.share:
            yield Finding(
                f"all weights are {compression.main_type}, and those of {target.document.path.name} {target.main_type}",
                "Export again with compression of every part, unless it is meant",
                file=document.path,
                line=1,
            )


@rule("QNT013", "weight-without-scale", Severity.ERROR, "A compressed weight is used without its scale")
def weight_without_scale(context: Context) -> Iterator[Finding]:
    """A compressed weight is used without its scale.

    What it checks
    --------------
    That a weight of eight bits or less is multiplied by a scale before a matrix product reads it.

    Why it matters
    --------------
    The model loads and computes with values that are a hundred times too large: nonsense, silently.

    How to fix it
    -------------
    Compress again, from the uncompressed export.

    Source
    ------
    nncf 3.4: Const, Convert, Subtract if there is a zero point, Multiply by the scale.
    """
    for document in context.judged:
        compression = context.compression(document)
        if compression is None or not compression.touched:
            continue
        for constant in context.constants(document):
            if constant.in_body or constant.element_type not in STORED or constant.elements < _SMALLEST:
                continue
            if _reaches_product(document.graph, constant.id):
                yield Finding(
                    f"the {constant.element_type} weight {constant.name!r} is used without a scale",
                    "Compress again, from the uncompressed export",
                    file=document.path,
                    line=document.line(constant.span),
                    op=constant.name,
                )


def _reaches_product(graph: GraphView, key: int) -> bool:
    """Whether a value arrives at a MatMul by nothing but conversions and changes of shape."""
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
