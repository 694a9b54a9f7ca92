"""QNT001 to QNT004: compression that was asked for, against what the constants are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from irtools.lint import Context, Finding, Severity, rule
from irtools.lint.directory import read_json
from irtools.model.compression import Compression, Matrix, Request
from irtools.model.document import Document

_MOSTLY = 0.5


def _requested(context: Context) -> Iterator[tuple[Document, Compression, Request]]:
    """Parts that record a request that can be compared with the constants."""
    for document in context.judged:
        compression = context.compression(document)
        if compression is not None and compression.request is not None and compression.request.known:
            yield document, compression, compression.request


def _line(document: Document) -> int | None:
    """Where the rt_info says what was asked."""
    scan = document.scan
    start = scan.rt_infos[0].start if scan.rt_infos else 0
    offset = document.data.find(b"<weight_compression>", start)
    return document.line(offset) if offset >= 0 else None


@rule("QNT001", "compression-not-done", Severity.WARNING, "The weights are not compressed as the rt_info says")
def compression_not_done(context: Context) -> Iterator[Finding]:
    """The weights are not compressed as the rt_info says.

    What it checks
    --------------
    ``nncf/weight_compression/mode`` of each part against the element types of the weights that this
    mode is for: not the embedding and the last matrix product, unless ``all_layers`` was asked.

    Why it matters
    --------------
    The rt_info was copied, or the compression failed half way: the model is larger and slower than
    its name and its model card say, or less exact.

    How to fix it
    -------------
    Compress again, from the uncompressed export.

    Source
    ------
    nncf 3.4, ``compress_weights``; compared with exports in each mode.
    """
    for document, compression, request in _requested(context):
        inner = compression.inner or compression.matrices
        done = [matrix for matrix in inner if matrix.compressed]
        as_asked = [matrix for matrix in done if request.mode in matrix.modes]
        if not inner or (not done and request.ignored):
            continue
        enough = _elements(as_asked) * 2 > _elements(done) if request.ratio >= 1 else bool(as_asked)
        if not done:
            what = f"all {len(inner)} weights are {compression.main_type}"
        elif not enough:
            modes = sorted({mode for matrix in done for mode in matrix.modes} - {request.mode})
            what = f"the weights are {' and '.join(modes) or compression.main_type}"
        else:
            continue
        yield Finding(
            f"the rt_info says {request.mode}, and {what}",
            "Compress again, from the uncompressed export",
            file=document.path,
            line=_line(document),
        )


def _elements(matrices: list[Matrix]) -> int:
    return sum(matrix.weight.elements for matrix in matrices)


@rule("QNT002", "compression-fell-back", Severity.NOTE, "Some weights are not compressed as the others")
def compression_fell_back(context: Context) -> Iterator[Finding]:
    """Some weights are not compressed as the others.

    What it checks
    --------------
    In a part whose rt_info asks for one precision (``ratio`` 1): weights that stayed uncompressed,
    went to the backup precision, or have another group size. A warning when more than half of the
    values stayed uncompressed.

    Why it matters
    --------------
    A group size of 64 does not divide every number of channels. The exporter then fails, or with
    ``--group-size-fallback`` leaves the weight alone (``ignore``) or takes smaller groups
    (``adjust``): both legal, and worth knowing when the model is larger than expected.

    How to fix it
    -------------
    Nothing, or choose a group size that divides the channels.

    Source
    ------
    nncf 3.4, ``GroupSizeFallbackMode``; reproduced with Optimum Intel 2.2.
    """
    for document, compression, request in _requested(context):
        inner = compression.inner
        if request.ratio < 1 or not any(matrix.compressed for matrix in inner):
            continue
        plain = [matrix for matrix in inner if not matrix.compressed]
        backup = [m for m in inner if m.compressed and request.mode not in m.modes and _is_wider(m, request)]
        regrouped = [m for m in inner if request.mode in m.modes and _other_groups(m, request)]
        parts = [
            f"{len(matrices)} {what}"
            for matrices, what in (
                (plain, "uncompressed"),
                (backup, "in the backup precision"),
                (regrouped, f"with groups other than {request.group_size}"),
            )
            if matrices
        ]
        if not parts:
            continue
        first = (plain or backup or regrouped)[0]
        shape = ", ".join(map(str, first.weight.shape))
        name = first.weight.constant.name
        yield Finding(
            f"of {len(inner)} weights for {request.mode}, {', '.join(parts)}; the first is {name!r} of shape [{shape}]",
            "If that is not meant, choose a group size that divides the channels",
            file=document.path,
            line=document.graph.line(first.weight.constant.id),
            op=name,
            severity=Severity.WARNING if _elements(plain) * 2 > _elements(list(inner)) else None,
        )


def _is_wider(matrix: Matrix, request: Request) -> bool:
    return matrix.bits == 8 and not request.mode.startswith(("int8", "mxfp8", "fp8"))


def _other_groups(matrix: Matrix, request: Request) -> bool:
    return request.group_size > 0 and matrix.weight.group_size != request.group_size


@rule("QNT003", "last-layer-backup", Severity.NOTE, "The last matrix product is in the backup precision")
def last_layer_backup(context: Context) -> Iterator[Finding]:
    """The last matrix product is in the backup precision.

    What it checks
    --------------
    In a part whose rt_info asks for four bits: whether its last matrix product is stored in eight.

    Why it matters
    --------------
    It is no fault: without ``all_layers`` the compression leaves embeddings and the last layer to
    the backup precision. In an MTP head this is not the output projection, which it shares with the
    target, but one of its own layers, and costs a little speed.

    How to fix it
    -------------
    Nothing, or compress with ``--all-layers``.

    Source
    ------
    nncf 3.4, ``compress_weights``; reproduced with Optimum Intel 2.2.
    """
    for document, _, request in _requested(context):
        compression = context.compression(document)
        if compression is None or request.mode.startswith(("int8", "mxfp8", "fp8")):
            continue
        for matrix in compression.matrices:
            if matrix.role == "last" and matrix.bits == 8:
                constant = matrix.weight.constant
                yield Finding(
                    f"the last matrix product is {matrix.weight.precision}, the others {request.mode}",
                    "If that is not meant, compress with --all-layers",
                    file=document.path,
                    line=document.graph.line(constant.id),
                    op=constant.name,
                )


@rule(
    "QNT004",
    "configured-compression-missing",
    Severity.WARNING,
    "A part that openvino_config.json has compressed is not",
)
def configured_compression_missing(context: Context) -> Iterator[Finding]:
    """A part that openvino_config.json has compressed is not.

    What it checks
    --------------
    ``quantization_configs`` of openvino_config.json, which names the parts that were to be
    compressed and to how many bits, against the weights of those parts.

    Why it matters
    --------------
    The part was replaced by an uncompressed one, or its compression failed: larger and slower than
    the model card says.

    How to fix it
    -------------
    Export again, or compress that part.

    Source
    ------
    Optimum Intel 2.2, ``OVPipelineQuantizationConfig``.
    """
    path = context.export.directory / "openvino_config.json"
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return
    config = content.get("quantization_config") if isinstance(content, Mapping) else None
    parts = config.get("quantization_configs") if isinstance(config, Mapping) else None
    for key, wanted in parts.items() if isinstance(parts, Mapping) else ():
        bits = wanted.get("bits") if isinstance(wanted, Mapping) else None
        name = str(key).removesuffix("_model")
        document = context.target if name == "lm" else context.readable(context.documents.get(name))
        compression = context.compression(document) if document is not None else None
        if compression is None or compression.empty or bits not in (4, 8):
            continue
        request = compression.request
        if request is None and compression.share:
            continue  # compressed by something that left no record
        if request is None or (request.known and (bits == 4) != (_bits(request) == 4)):
            how = f"compressed as {request.mode}" if request else f"all {compression.main_type}"
            yield Finding(
                f"openvino_config.json asks for {bits} bits in {key}, and the weights of "
                f"{compression.document.path.name} are {how}",
                "Export again, or compress that part",
                file=compression.document.path,
                line=_line(compression.document) or 1,
            )


def _bits(request: Request) -> int:
    return 8 if request.mode.startswith(("int8", "mxfp8", "fp8")) else 4


@rule("QNT005", "unrecorded-compression", Severity.NOTE, "The weights are compressed, and the rt_info does not say so")
def unrecorded_compression(context: Context) -> Iterator[Finding]:
    """The weights are compressed, and the rt_info does not say so.

    What it checks
    --------------
    For parts most of whose weights are stored in eight bits or less, without an entry
    ``nncf/weight_compression``.

    Why it matters
    --------------
    Nobody can tell how they were compressed, nor do it again. A checkpoint that was compressed before
    the export looks like this as well.

    How to fix it
    -------------
    Say in the model card how the weights were compressed.

    Source
    ------
    nncf 3.4 records every compression.
    """
    for document in context.judged:
        compression = context.compression(document)
        if compression is not None and compression.request is None and compression.share > _MOSTLY:
            yield Finding(
                f"most weights are {compression.main_type}, and the rt_info says nothing about compression",
                "Say in the model card how they were compressed",
                file=document.path,
                line=1,
            )
