"""IR010: attributes that OpenVINO cannot use."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from irtools.authoring import Context, Finding, Severity, rule
from irtools.errors import MalformedValueError
from irtools.ir.constants import ELEMENT_BITS
from irtools.ir.integrity import FaultKind
from irtools.ir.scan import Scan, parse_attributes
from irtools.model.document import Document

_AGAIN = "Export the model again, or restore the file."
_BAD_DIM = re.compile(rb"<dim(?!>(?:-1|[0-9]{1,18})</dim>)[^<>]*>")
_PRECISION = re.compile(rb' precision="([^"]*)"')
_PORT = re.compile(rb"<port\s[^<>]*>")
_TAG_END = re.compile(rb"""(?:\s+[^\s=>/"']+\s*=\s*(?:"[^"]*"|'[^']*'))*""")
_DIMENSION = re.compile(r"\?|\.\.\.|-1|[0-9]{1,18}|[0-9]{0,18}\.\.[0-9]{0,18}")
_TYPES = {*ELEMENT_BITS, "string", "dynamic", "undefined"}
_PRECISIONS = {
    *(name.encode() for kind in _TYPES for name in (kind, kind.upper())),
    *(b"FP64", b"FP32", b"FP16", b"BOOL", b"UNSPECIFIED"),
}


@rule("IR010", "malformed-value", Severity.ERROR, "A number or type required by the format is missing or unusable")
def malformed_value(context: Context) -> Iterator[Finding]:
    """A number or type required by the format is missing or unusable.

    What it checks
    --------------
    Layer ids, port ids and edges are numbers. Every layer has a name, type and version. Dimensions are
    numbers or -1. A constant has numbers as shape, offset and size, and a known element type. A
    Parameter has a valid shape and a known element type.

    Why it matters
    --------------
    OpenVINO rejects the file, often with only "stoll" as the message.

    How to fix it
    -------------
    Export the model again, or restore the file.

    Source
    ------
    Each case is reproduced with OpenVINO 2026.4.1.
    """
    for document, error in context.broken:
        if isinstance(error, MalformedValueError):
            yield Finding(str(error.args[0]), _AGAIN, file=document.path, line=error.line)
    for document in context.all_documents:
        for offset, op, message in _malformed(context, document):
            yield Finding(message, _AGAIN, file=document.path, line=document.line(offset), op=op)


def _malformed(context: Context, document: Document) -> Iterator[tuple[int, str | None, str]]:
    """Offset, op and message of each malformed value."""
    for fault in context.faults(document):
        if fault.kind is FaultKind.MALFORMED_PORT:
            yield fault.offset, fault.op, fault.message
    pieces = _pieces(document.scan)
    for bad in _BAD_DIM.finditer(document.data) if any(map(_BAD_DIM.search, pieces)) else ():
        text = document.data[bad.end() : bad.end() + 20].split(b"<")[0].decode("utf-8", "replace")
        yield bad.start(), _op_at(document, bad.start()), f"a dimension is {text!r}, which is neither a number nor -1"
    if not all(_PRECISIONS.issuperset(_PRECISION.findall(piece)) for piece in pieces):
        yield from _precisions(document)
    for constant in context.constants(document):
        if constant.faults:
            message = f"the constant {constant.name!r} has no valid {' and '.join(constant.faults)}"
            yield constant.span.start, constant.name, message
        elif constant.element_type not in _TYPES:
            yield constant.span.start, constant.name, _unknown_type("constant", constant.name, constant.element_type)
    yield from _parameters(document)
    yield from _layers(document, context.graphs(document), context.op_types(document))


def _pieces(scan: Scan) -> tuple[bytes, ...]:
    """Text with every dimension and precision of a file; that of layers with equal ports only once."""
    contents = {*scan.contents}
    start, end = scan.layers
    known = tuple(content for content in contents if content is not None)
    return (*known, scan.data[:start], scan.data[end:]) if 0 < len(known) == len(contents) else (scan.data,)


def _precisions(document: Document) -> Iterator[tuple[int, str | None, str]]:
    for port in _PORT.finditer(document.data):
        precision = parse_attributes(port[0][5:-1].rstrip(b"/")).get("precision", "")
        if precision.encode() not in _PRECISIONS:
            message = f"a port has the precision {precision!r}, which OpenVINO does not know"
            yield port.start(), _op_at(document, port.start()), message


def _op_at(document: Document, offset: int) -> str | None:
    """Friendly name of the top-level op around an offset."""
    scan = document.scan
    position = bisect_right(scan.spans, offset, key=lambda span: span.start) - 1
    return scan.names[position] if position >= 0 and offset < scan.spans[position].end else None


def _parameters(document: Document) -> Iterator[tuple[int, str | None, str]]:
    scan = document.scan
    for position, kind in enumerate(scan.types):
        if kind != "Parameter":
            continue
        data, name, start = document.data_attributes(position), scan.names[position], scan.spans[position].start
        shape, element_type = data.get("shape"), data.get("element_type")
        if shape is None or not all(_DIMENSION.fullmatch(dim.strip()) for dim in shape.split(",") if shape.strip()):
            yield start, name, f"the Parameter {name!r} has the shape {shape!r}, which is malformed"
        if element_type not in _TYPES:
            yield start, name, _unknown_type("Parameter", name, element_type)


def _unknown_type(kind: str, name: str, element_type: str | None) -> str:
    return f"the {kind} {name!r} has the element type {element_type!r}, which OpenVINO does not know"


def _layers(
    document: Document, graphs: tuple[Scan, ...], types: Iterable[tuple[str, str]]
) -> Iterator[tuple[int, str | None, str]]:
    """Layers without name, type or version; the layers are parsed only if one lacks something."""
    if not any("" in pair for pair in types) and not any("" in graph.names for graph in graphs):
        return
    for graph in graphs:
        for span, name in zip(graph.spans, graph.names, strict=True):
            tag = _TAG_END.match(document.data, span.start + len(b"<layer"))
            attributes = parse_attributes(tag[0]) if tag else {}
            missing = [key for key in ("name", "type", "version") if key not in attributes]
            if missing:
                message = f"the layer {attributes.get('id', '?')} has no {' and no '.join(missing)}"
                yield span.start, name or None, message
