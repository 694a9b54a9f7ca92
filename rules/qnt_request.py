"""QNT001 to QNT005: requested compression against the constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.authoring import Context, Finding, Severity, finding_at, rule
from irtools.ir.reading import read_json
from irtools.model.compression import Compression, CompressionRequest, Matrix
from irtools.model.document import Document
from irtools.text import shape_text

_MAJORITY = 0.5


def _requested(context: Context) -> Iterator[tuple[Document, Compression, CompressionRequest]]:
    """Parts with a recorded compression request that can be compared with the constants."""
    for document in context.all_documents:
        compression = context.compression(document)
        if compression is not None and compression.request is not None and compression.request.checkable:
            yield document, compression, compression.request


def compression_line(document: Document) -> int | None:
    """Line of the compression request in the rt_info; None if there is none."""
    scan = document.scan
    start = scan.rt_infos[0].start if scan.rt_infos else 0
    offset = document.data.find(b"<weight_compression>", start)
    return document.line(offset) if offset >= 0 else None


@rule("QNT001", "compression-not-done", Severity.WARNING, "The weights are not compressed as recorded in the rt_info")
def compression_not_done(context: Context) -> Iterator[Finding]:
    """The weights are not compressed as recorded in the rt_info.

    What it checks
    --------------
    ``nncf/weight_compression/mode`` of each part against the element types of the weights that the mode
    applies to. The embedding and the last MatMul are excluded unless ``all_layers`` was requested.

    Why it matters
    --------------
    The rt_info was copied, or the compression was interrupted. The model is larger and slower, or less
    accurate, than its name and model card say.

    How to fix it
    -------------
    Compress again from the uncompressed export.

    Source
    ------
    nncf 3.4, ``compress_weights``; compared with exports in each mode.
    """
    for document, compression, request in _requested(context):
        inner = compression.inner or compression.matrices
        done = [matrix for matrix in inner if matrix.compressed]
        as_requested = [matrix for matrix in done if request.mode in matrix.modes]
        if not inner or (not done and request.ignored):
            continue
        enough = _elements(as_requested) * 2 > _elements(done) if request.ratio >= 1 else bool(as_requested)
        if not done:
            actual = f"all {len(inner)} weights are {compression.main_type}"
        elif not enough:
            modes = sorted({mode for matrix in done for mode in matrix.modes} - {request.mode})
            actual = f"the weights are {' and '.join(modes) or compression.main_type}"
        else:
            continue
        message = f"the rt_info requests {request.mode}, but {actual}"
        yield Finding(message, "Compress again from the uncompressed export", document.path, compression_line(document))


def _elements(matrices: list[Matrix]) -> int:
    return sum(matrix.weight.elements for matrix in matrices)


@rule("QNT002", "compression-fell-back", Severity.NOTE, "Some weights are compressed differently")
def compression_fell_back(context: Context) -> Iterator[Finding]:
    """Some weights are compressed differently.

    What it checks
    --------------
    In a part whose rt_info requests one precision (``ratio`` 1): weights that are uncompressed, in the
    backup precision, or in groups of another size. A warning if more than half of the values are
    uncompressed.

    Why it matters
    --------------
    A group size of 64 does not divide every number of channels. In such a case the exporter fails, or
    with ``--group-size-fallback`` it leaves the weight uncompressed (``ignore``) or uses smaller groups
    (``adjust``). Both are valid, but can make the model larger than expected.

    How to fix it
    -------------
    No action is needed if the size is acceptable. Otherwise choose a group size that divides the number
    of channels.

    Source
    ------
    nncf 3.4, ``GroupSizeFallbackMode``; reproduced with Optimum Intel 2.2.
    """
    for document, compression, request in _requested(context):
        inner = compression.inner
        if request.ratio < 1 or not any(matrix.compressed for matrix in inner):
            continue
        plain = [matrix for matrix in inner if not matrix.compressed]
        backup = [m for m in inner if m.compressed and request.mode not in m.modes and _bits(request) < m.bits == 8]
        grouped = [m for m in inner if request.mode in m.modes and request.group_size > 0]
        regrouped = [m for m in grouped if m.group_size not in (None, request.group_size)]
        parts = [
            f"{len(matrices)} {state}"
            for matrices, state in (
                (plain, "uncompressed"),
                (backup, "in the backup precision"),
                (regrouped, f"with groups other than {request.group_size}"),
            )
            if matrices
        ]
        if not parts:
            continue
        first = (plain or backup or regrouped)[0]
        named = f"{first.weight.constant.name!r} of shape {shape_text(first.weight.shape)}"
        message = f"of {len(inner)} {request.mode} weights, {', '.join(parts)}; the first is {named}"
        hint = "If this is not intended, choose a group size that divides the number of channels"
        severity = Severity.WARNING if _elements(plain) * 2 > _elements(list(inner)) else None
        yield finding_at(document, first.weight.constant, message, hint, severity)


@rule("QNT003", "last-layer-backup", Severity.NOTE, "The last MatMul is in the backup precision")
def last_layer_backup(context: Context) -> Iterator[Finding]:
    """The last MatMul is in the backup precision.

    What it checks
    --------------
    That the last MatMul is not stored in eight bits, in a part whose rt_info requests four.

    Why it matters
    --------------
    This is not a fault: without ``all_layers``, the compression puts embeddings and the last layer into
    the backup precision. But the last MatMul of an MTP head is not an output projection, which the head
    shares with the target. It is one of the head's own layers, and the backup precision costs some
    speed.

    How to fix it
    -------------
    No action is needed if this is intended. Otherwise compress with ``--all-layers``.

    Source
    ------
    nncf 3.4, ``compress_weights``; reproduced with Optimum Intel 2.2.
    """
    for document, compression, request in _requested(context):
        if _bits(request) == 8:
            continue
        for matrix in compression.matrices:
            if matrix.role == "last" and matrix.bits == 8:
                message = f"the last MatMul is {matrix.weight.precision}, but the others are {request.mode}"
                hint = "If this is not intended, compress with --all-layers"
                yield finding_at(document, matrix.weight.constant, message, hint)


@rule(
    "QNT004",
    "configured-compression-missing",
    Severity.WARNING,
    "A part is not compressed as openvino_config.json says",
)
def configured_compression_missing(context: Context) -> Iterator[Finding]:
    """A part is not compressed as openvino_config.json says.

    What it checks
    --------------
    ``quantization_configs`` of openvino_config.json, which lists the parts to compress and their bits,
    against the weights of those parts.

    Why it matters
    --------------
    The part was replaced by an uncompressed one, or its compression failed. It is larger and slower
    than the model card says.

    How to fix it
    -------------
    Export again, or compress that part.

    Source
    ------
    Optimum Intel 2.2, ``OVPipelineQuantizationConfig``.
    """
    for key, wanted, compression in configured(context):
        bits, request = wanted.get("bits"), compression.request
        if bits not in (4, 8) or (request is None and compression.share):
            continue  # compressed without a record (QNT005)
        if request is None or (request.checkable and (bits == 4) != (_bits(request) == 4)):
            actual = f"compressed as {request.mode}" if request else f"all {compression.main_type}"
            part = compression.document.path
            message = (
                f"openvino_config.json requests {bits} bits for {key}, but the weights of {part.name} are {actual}"
            )
            yield Finding(
                message, "Export again, or compress that part", part, compression_line(compression.document) or 1
            )


def configured(context: Context) -> Iterator[tuple[str, Mapping[str, object], Compression]]:
    """Key, request and weights of each part that openvino_config.json says to compress."""
    try:
        content = read_json(context.export.directory / "openvino_config.json")
    except (OSError, ValueError):
        return
    config = content.get("quantization_config") if isinstance(content, Mapping) else None
    if not isinstance(config, Mapping):
        return
    # Without a list of parts, the request is for the language model.
    parts = config.get("quantization_configs", {"lm_model": config})
    for key, wanted in parts.items() if isinstance(parts, Mapping) else ():
        name = str(key).removesuffix("_model")
        document = context.target if name == "lm" else context.readable(context.documents.get(name))
        compression = context.compression(document) if document is not None else None
        if isinstance(wanted, Mapping) and compression is not None and not compression.empty:
            yield str(key), wanted, compression


def _bits(request: CompressionRequest) -> int:
    return 8 if request.mode.startswith(("int8", "mxfp8", "fp8")) else 4


@rule("QNT005", "unrecorded-compression", Severity.NOTE, "The rt_info does not record the compression of the weights")
def unrecorded_compression(context: Context) -> Iterator[Finding]:
    """The rt_info does not record the compression of the weights.

    What it checks
    --------------
    That a part with most weights in eight bits or less has an entry ``nncf/weight_compression``.

    Why it matters
    --------------
    Users cannot find out how the weights were compressed, and cannot reproduce it. A checkpoint that
    was compressed before the export has no entry either.

    How to fix it
    -------------
    Document the compression in the model card.

    Source
    ------
    nncf 3.4 records every compression.
    """
    for document in context.all_documents:
        compression = context.compression(document)
        if compression is not None and compression.request is None and compression.share > _MAJORITY:
            message = f"most weights are {compression.main_type}, but the rt_info does not record a compression"
            yield Finding(message, "Document the compression in the model card", document.path, 1)
