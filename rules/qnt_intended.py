"""QNT014 to QNT017: compression as someone intended it, against the weights as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.anatomy.blocks import stack_blocks
from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.decoder.stack import DecoderStack
from irtools.model.compression import Compression, CompressionSpec
from irtools.text import joined, plural

from .qnt_request import compression_line, configured

_AGAIN = "Compress again from the uncompressed export, or correct the record"
_TYPES = ("int4", "int8")


def _configured_spec(wanted: Mapping[str, object]) -> CompressionSpec | None:
    """Compression that an entry of openvino_config.json asks for; None if it does not determine one."""
    bits, kind = wanted.get("bits"), wanted.get("dtype")
    if bits not in (4, 8) or wanted.get("weight_only") is False:
        return None
    mode = (
        kind if isinstance(kind, str) and kind not in _TYPES else f"int{bits}_{'sym' if wanted.get('sym') else 'asym'}"
    )
    group, backup, ratio = wanted.get("group_size"), wanted.get("backup_precision"), wanted.get("ratio")
    return CompressionSpec(
        mode,
        group if isinstance(group, int) and bits == 4 else None,
        backup if isinstance(backup, str) else None,
        float(ratio) if isinstance(ratio, int | float) else 1.0,
    )


@rule(
    "QNT014",
    "configured-compression-differs",
    Severity.WARNING,
    "A part is compressed differently from openvino_config.json",
)
def configured_compression_differs(context: Context) -> Iterator[Finding]:
    """A part is compressed differently from openvino_config.json.

    What it checks
    --------------
    Mode with symmetry, group size, backup precision and ratio of each part that openvino_config.json lists, against
    the element types, scales and zero points of its weights. What most values have counts: a group size that does not
    divide some channels is the subject of QNT002. Another number of bits is reported by QNT004.

    Why it matters
    --------------
    The part comes from another export, or was compressed again. Its speed, memory and accuracy are not those that
    openvino_config.json and the model card promise.

    How to fix it
    -------------
    Export again with the intended compression, or correct openvino_config.json.

    Source
    ------
    Optimum Intel 2.2, ``OVWeightQuantizationConfig.to_nncf_dict``; compared with weights that nncf 3.4 compressed in
    each mode.
    """
    for key, wanted, compression in configured(context):
        spec = _configured_spec(wanted)
        if spec is None or not compression.share:
            continue  # QNT004
        stored = compression.stored
        differences = stored.differences(spec)
        if stored.modes[0][:4] in _TYPES and stored.modes[0][:4] != f"int{wanted.get('bits')}":
            continue  # other bits (QNT004)
        if differences:
            document = compression.document
            message = (
                f"openvino_config.json requests a different compression for {key} from that of {document.path.name}: "
            )
            message += joined(differences.values())
            yield Finding(message, _AGAIN, document.path, compression_line(document) or 1)


@rule(
    "QNT015",
    "recorded-compression-differs",
    Severity.WARNING,
    "The backup precision or the ratio is not as recorded in the rt_info",
)
def recorded_compression_differs(context: Context) -> Iterator[Finding]:
    """The backup precision or the ratio is not as recorded in the rt_info.

    What it checks
    --------------
    ``backup_mode`` and ``ratio`` of ``nncf/weight_compression``, and ``group_size`` if the ratio is below 1, against
    the weights. Mode and group size are otherwise the subject of QNT001 and QNT002. A ratio can only be met to the size
    of one matrix.

    Why it matters
    --------------
    The rt_info was copied from another model, or some weights were compressed again or replaced.

    How to fix it
    -------------
    Compress again from the uncompressed export.

    Source
    ------
    nncf 3.4, ``compress_weights``; compared with exports in each mode and with the ratios 0.5 and 0.8.
    """
    for document in context.all_documents:
        compression = context.compression(document)
        request = compression.request if compression is not None else None
        if compression is None or request is None or not request.checkable or not compression.share:
            continue
        differences = compression.stored.differences(request.spec)
        reported = {"mode", "group"} if request.ratio >= 1 else {"mode"}
        if request.ignored or not compression.inner:
            reported |= {"ratio"}
        left = [text for kind, text in differences.items() if kind not in reported]
        if left and "mode" not in differences:
            message = f"the rt_info records a different compression from that of the weights: {joined(left)}"
            yield Finding(message, _AGAIN, document.path, compression_line(document))


@rule("QNT016", "linear-attention-in-four-bits", Severity.NOTE, "Linear-attention layers are compressed to four bits")
def linear_attention_in_four_bits(context: Context) -> Iterator[Finding]:
    """Linear-attention layers are compressed to four bits.

    What it checks
    --------------
    The weights of the linear-attention and state-space blocks of the target, by the structure of the graph and not
    by names. A warning if the rt_info records an ``ignored_scope``: the weights for which it was meant are
    compressed all the same.

    Why it matters
    --------------
    These blocks carry their state from token to token, so errors of the weights add up. Four bits there are
    reported to break Qwen3.5 models, and the ``ignored_scope`` of the exporter's defaults does not list them.

    How to fix it
    -------------
    Compare the text with that of the uncompressed export (``irtools prove``). If it is worse, compress again with
    ``ignored_scope`` (patterns such as ``.*linear_attn.*``) or a ``ratio`` that leaves these weights in eight bits.

    Source
    ------
    Reports of users about Qwen3.5; nncf 3.4, ``IgnoredScope``, reproduced with it.
    """
    compression = context.compression(context.target) if context.target is not None else None
    if compression is None or not compression.touched or context.stack is None or context.target is None:
        return
    in_four = [matrix for matrix in compression.matrices if matrix.compressed and matrix.bits <= 4]
    ops = _recurrent_ops(context, context.stack) if in_four else {}
    found = [(matrix, ops[user]) for matrix in in_four for user in matrix.weight.consumers[:1] if user in ops]
    if not found:
        return
    total, layers = len(set(ops.values())), len({layer for _, layer in found})
    first = found[0][0].weight
    message = f"{plural(len(found), 'weight')} of {layers} of {plural(total, 'linear-attention layer')} are "
    message += f"{first.precision}; the first is {first.constant.name!r}"
    ignored = compression.request is not None and compression.request.ignored
    if ignored:
        message += "; the ignored_scope in the rt_info leaves them in"
    hint = "If the text is worse than that of the uncompressed export, leave them out (ignored_scope)"
    yield finding_at(context.target, first.constant, message, hint, Severity.WARNING if ignored else None)


def _recurrent_ops(context: Context, stack: DecoderStack) -> dict[int, int]:
    """Layers of the ops in blocks with linear attention or a state space, by layer id of the op."""
    kinds = ("linear_attention", "state_space")
    if context.target is None or not any(layer.mixer in kinds for layer in stack.layers):
        return {}
    layers = stack_blocks(context.target.graph, stack).layers
    return {op: layer.index for layer in layers for block in layer.blocks if block.kind in kinds for op in block.ops}


@rule("QNT017", "unexpected-compression", Severity.ERROR, "A part is not compressed as --expect-compression says")
def unexpected_compression(context: Context) -> Iterator[Finding]:
    """A part is not compressed as --expect-compression says.

    What it checks
    --------------
    With ``--expect-compression``: mode, group size, backup precision and ratio of the target and the MTP head, or of
    the parts of ``--part``, against the weights as they are stored. What is left out of the option does not matter;
    a ratio that is left out is 1.

    Why it matters
    --------------
    A release should have the compression that was decided for it. The files that record it are written by the
    exporter and can be copied; the weights are what runs.

    How to fix it
    -------------
    Export again with the intended compression.

    Source
    ------
    nncf 3.4: the forms of the constants in each mode, compared with weights that it compressed.
    """
    for name, spec in context.expect_compression.items():
        wanted = [context.target, context.mtp] if not name else [context.readable(context.export.part(name))]
        for document in wanted:
            compression = context.compression(document) if document is not None else None
            if compression is not None and not compression.empty:
                yield from _unexpected(compression, spec)
            elif name and document is not None:
                message = f"{document.path.name} has no weights that could be compressed as expected"
                yield Finding(message, "Give --part only for parts with matrices of weights", document.path, 1)


def _unexpected(compression: Compression, spec: CompressionSpec) -> Iterator[Finding]:
    document = compression.document
    differences = compression.stored.differences(spec)
    if differences:
        message = f"{document.path.name} is not compressed as expected: {joined(differences.values())}"
        yield Finding(
            message, "Export again with the intended compression", document.path, compression_line(document) or 1
        )
