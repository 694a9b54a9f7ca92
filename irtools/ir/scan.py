"""Find the layers, edges and rt_info of an IR in its bytes.

Expat validates the file (well-formed, UTF-8, no DTD). Regular expressions then find the few tags that define
the graph. :mod:`irtools.ir.op` parses ports, shapes and attributes of single layers on demand.

On a decoder of 265,000 ops (150 MB of XML), an element tree of the whole file takes 9 s and 2.4 GB; this scan
takes about 2.5 s and little more memory than the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from xml.parsers import expat

from irtools.errors import InvalidIRError, MalformedValueError, UnsupportedEncodingError, about
from irtools.ir.flat import (
    ATTRIBUTES,
    Edge,
    FlatLayers,
    OtherLayers,
    Run,
    flat_edges,
    flat_layers,
    layers_like,
    outer_edges,
)
from irtools.ir.reading import LFS_POINTER
from irtools.text import clipped, whole_number

__all__ = [
    "ATTRIBUTES",
    "BODY_OWNERS",
    "TAG",
    "Edge",
    "Scan",
    "Span",
    "attribute_text",
    "bodies",
    "child_spans",
    "edge_offsets",
    "line_of",
    "parse_attributes",
    "same_graph",
    "same_layout",
    "same_section",
    "scan_ir",
    "scan_outline",
]

TAG = re.compile(rb"<(/?)([^\s/>!?]+)(" + ATTRIBUTES + rb")\s*(/?)>")
"""Start or end tag. Groups: slash of an end tag, name, attributes, slash of a self-closed element."""
BODY_OWNERS = ("Loop", "TensorIterator", "If")
"""Types of ops that contain graphs."""
_ATTRIBUTE = re.compile(rb"""([^\s=>/"']+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_LAYER_TOKEN = re.compile(
    rb"<(?:layer(?=[\s/>])(" + ATTRIBUTES + rb")\s*(/?)>"
    rb"|(/?(?:layers|layer|rt_info))(?=[\s/>])" + ATTRIBUTES + rb"\s*(/?)>)"
)
_EDGE = re.compile(rb"<edge(?=[\s/>])(" + ATTRIBUTES + rb")\s*/?>")
# The spelling of OpenVINO. Matching it instead of parsing attributes saves 0.7 s of 1.1 s on 600,000 edges.
_PLAIN_EDGE = re.compile(
    rb'<edge from-layer="(\d{1,18})" from-port="(\d{1,18})" to-layer="(\d{1,18})" to-port="(\d{1,18})"\s*/>'
)
_PLAIN_LAYER = re.compile(rb' id="(\d{1,18})" name="([^"]*)" type="([^"]*)"')
_NO_MARKUP = re.compile(rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>", re.DOTALL)
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(lt|gt|amp|quot|apos));")
_MAX_NESTING = 64  # levels of nested graphs, and of nested rt_info
_BLOCK = 1 << 12  # bytes between two counted lines
_PIECE = 1 << 20  # bytes of two files that are compared at a time
_REENCODE = "read it with OpenVINO and save it again to get UTF-8"
T = TypeVar("T")
_WHITESPACE = str.maketrans("\t\n\r", "   ")


class Span(NamedTuple):
    """A half-open range of byte offsets, ``data[start:end]``."""

    start: int
    end: int


_SPAN = partial(tuple.__new__, Span)  # of a pair; `Span._make` takes three times as long


@dataclass(slots=True)
class Scan:
    """Elements of one graph (the model, or the body of a Loop or If) by file position.

    Attributes
    ----------
    data : bytes
        Content of the file; spans are offsets in it.
    masked : bytes
        The same with spaces in place of comments; the same object if there are none.
    net : dict
        Attributes of ``<net>``; empty for a body.
    ids, names, types, spans : list
        Layer id, friendly name, type and byte range of each ``<layer>``, in file order. Ids may repeat in a
        faulty file.
    edges : list of Edge
        In file order; a faulty file may refer to layers that do not exist.
    rt_infos : list of Span
        All model-level ``<rt_info>`` elements; OpenVINO reads the first.
    meta_data : Span or None
        The ``<meta_data>`` element of a version 10 file.
    net_tag : Span
        The ``<net ...>`` start tag.
    net_end : int
        Offset of ``</net>``.
    path : Path or None
        File name for messages; None if the bytes come from no file.
    nesting : int
        Depth of nested graphs; 0 without any.
    layers, edges_section : Span
        The ``<layers>`` and ``<edges>`` elements; empty without such a section.
    opsets : list of str
        The version of each layer; empty if a layer is spelled otherwise than by OpenVINO, or is nested.
    contents : list of bytes or None
        What follows the ``<data>`` of each layer, as :class:`irtools.ir.flat.FlatLayers` has it; empty as ``opsets``,
        and in a file with comments.
    """

    data: bytes
    masked: bytes = field(default=b"", repr=False)
    net: dict[str, str] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    rt_infos: list[Span] = field(default_factory=list)
    meta_data: Span | None = None
    net_tag: Span = field(default=Span(0, 0))
    net_end: int = 0
    path: Path | None = None
    nesting: int = 0
    layers: Span = field(default=Span(0, 0))
    edges_section: Span = field(default=Span(0, 0))
    opsets: list[str] = field(default_factory=list, repr=False)
    contents: list[bytes | None] = field(default_factory=list, repr=False)
    _flat_edges: bool = field(default=False, init=False, repr=False, compare=False)
    _lines: list[int] = field(default_factory=lambda: [0], init=False, repr=False)
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, what: str, read: Callable[[], T]) -> T:
        """Result of ``read``, which is called once for each ``what``: such as the constants of the graph."""
        if what not in self._kept:
            self._kept[what] = read()
        value: T = self._kept[what]
        return value

    def line(self, offset: int) -> int:
        """Line number (from 1) of a byte offset; fast for many offsets of one file, unlike :func:`line_of`."""
        block, lines = offset // _BLOCK, self._lines
        for start in range((len(lines) - 1) * _BLOCK, block * _BLOCK, _BLOCK):
            lines.append(lines[-1] + self.data.count(b"\n", start, start + _BLOCK))
        return lines[block] + self.data.count(b"\n", block * _BLOCK, offset) + 1


def line_of(data: bytes, offset: int) -> int:
    """Line number (from 1) of a byte offset."""
    return data.count(b"\n", 0, offset) + 1


def attribute_text(raw: bytes) -> str:
    """Decode an attribute value as an XML parser does."""
    value = raw.decode("utf-8")
    if value.isprintable() and "&" not in value:
        return value
    value = value.replace("\r\n", "\n").translate(_WHITESPACE)
    # Not `xml.sax.saxutils`, which imports urllib and so takes 20 ms.
    return _REFERENCE.sub(_character, value)


def _character(reference: re.Match[str]) -> str:
    hexadecimal, decimal, entity = reference.groups()
    if entity:
        return _ENTITIES[entity]
    # Expat permits any number of leading zeros, `int` does not.
    return chr(int(hexadecimal, 16) if hexadecimal else int(decimal.lstrip("0") or "0"))


def parse_attributes(raw: bytes) -> dict[str, str]:
    """Parse the attributes of a start tag from the bytes between its name and its ``>``."""
    return {m[1].decode(): attribute_text(m[2] if m[2] is not None else m[3]) for m in _ATTRIBUTE.finditer(raw)}


def _number(data: bytes, offset: int, attributes: dict[str, str], key: str, tag: str) -> int:
    value = attributes.get(key, "")
    number = whole_number(value)
    if number is None:
        problem = f"has {key}={clipped(value)!r}, which is not a number" if key in attributes else f"has no {key}"
        line = line_of(data, offset)
        raise MalformedValueError(f"line {line}: <{tag}> {problem}", line=line, hint="export the model again")
    return number


def _validate(data: bytes, proved: Sequence[Span]) -> bool:
    """Validate the file with expat in one pass; True if it has comments, CDATA sections or processing instructions.

    Parameters
    ----------
    proved : sequence of Span
        Whole elements, with a tag before and after them, which are known to be well-formed. They are not parsed if
        what is left is well-formed without comments and the like, because then they are content of an element.
    """
    if data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff") or data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4]:
        message = "the XML is UTF-16 or UTF-32, but irtools edits only UTF-8"
        raise UnsupportedEncodingError(message, line=1, hint=_REENCODE)
    if proved:
        left = zip((0, *(span.end for span in proved)), (*(span.start for span in proved), len(data)), strict=True)
        with suppress(InvalidIRError):  # raised again below, with the line in the whole file
            if not _parse(data, [Span(*piece) for piece in left]):
                return False
    return _parse(data, [Span(0, len(data))])


def _parse(data: bytes, pieces: Sequence[Span]) -> bool:
    """Parse the pieces. Only comments and the like, the first of them, and refused constructs have callbacks."""

    def declaration(_version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
            message = f"the XML declares the encoding {encoding!r}, but irtools edits only UTF-8"
            raise UnsupportedEncodingError(message, line=1, hint=_REENCODE)

    def doctype(*_: object) -> None:
        line = parser.CurrentLineNumber
        message = "the XML has a document type declaration, which no IR needs and irtools does not load"
        raise InvalidIRError(f"line {line}: {message}", line=line)

    found = False

    def markup(*_: object) -> None:
        nonlocal found
        found = True
        parser.CommentHandler = parser.StartCdataSectionHandler = parser.ProcessingInstructionHandler = None

    parser = expat.ParserCreate()
    parser.XmlDeclHandler = declaration
    parser.StartDoctypeDeclHandler = doctype
    parser.CommentHandler = parser.StartCdataSectionHandler = parser.ProcessingInstructionHandler = markup
    view = memoryview(data)
    try:
        for start, end in pieces:
            parser.Parse(view[start:end], end == len(data))
    except expat.ExpatError as error:
        raise _malformed(data, error) from None
    return found


def _malformed(data: bytes, error: expat.ExpatError) -> InvalidIRError:
    if not data:
        return InvalidIRError("the file is empty; export the model again or restore the file", line=1)
    if data.startswith(LFS_POINTER):
        return InvalidIRError("the file is a Git-LFS pointer, not the IR; run `git lfs pull` to get it", line=1)
    reason = expat.errors.messages.get(error.code, "malformed")
    if reason == "junk after document element":
        reason = "text after the end of the document"
    elif reason in ("no element found", "unclosed token") or not data.rstrip().endswith(b"</net>"):
        reason += " (the file looks truncated)"
    return InvalidIRError(
        f"line {error.lineno}, column {error.offset}: not well-formed XML, {reason}; "
        "export the model again or restore the file",
        line=error.lineno,
        column=error.offset,
    )


def _mask(data: bytes) -> bytes:
    """Replace comments, CDATA sections and processing instructions by spaces, so offsets stay the same."""
    return _NO_MARKUP.sub(lambda match: b" " * len(match[0]), data)


def _masked_span(data: bytes, span: Span) -> tuple[bytes, int]:
    """Bytes in which one element is masked, and the offset of their first byte in the file.

    Only the element is copied, and only if there is something to mask: an element for each comment would otherwise
    take quadratic time.
    """
    if data.find(b"<!", span.start, span.end) < 0 and data.find(b"<?", span.start, span.end) < 0:
        return data, 0
    return _mask(data[span.start : span.end]), span.start


def scan_ir(data: bytes, *, like: Scan | None = None) -> Scan:
    """Scan a whole IR file in UTF-8, with or without a byte order mark.

    Parameters
    ----------
    like : Scan, optional
        Scan of another file. Layers or edges that have the same bytes are not scanned again, but shared.

    Raises
    ------
    InvalidIRError
        The file is not well-formed, its root is not ``<net>``, a layer id is not a number, or more than 64 graphs or
        elements of rt_info are nested. The limit bounds the time, because each level is scanned with all levels in it.
    UnsupportedEncodingError
        The file is UTF-16 or UTF-32, or declares an encoding other than UTF-8.
    """
    return _scan_file(data, whole=True, like=like)


def scan_outline(data: bytes) -> Scan:
    """Validate and scan a file like :func:`scan_ir`, without reading its layers and edges.

    The positions ``layers`` and ``edges_section`` are set.
    """
    return _scan_file(data, whole=False)


def _scan_file(data: bytes, *, whole: bool, like: Scan | None = None) -> Scan:
    if like is not None and like.masked is not like.data:
        like = None
    known = _Known.of(data, like) if whole else _Known()
    masked = _mask(data) if _validate(data, known.proved) else data
    if masked is not data:
        known = _Known()
    root = TAG.search(masked)
    if root is None or root[2] != b"net":
        name = root[2].decode("utf-8", "replace") if root else "?"
        raise InvalidIRError(f"the root element is <{name}>, not <net>: this is not an OpenVINO IR", line=1)
    scan = Scan(data, masked, net=parse_attributes(root[3]), net_tag=Span(*root.span()), net_end=root.end())
    if not root[4]:
        scan.net_end = _scan_children(scan, root.end(), whole, like if masked is data else None, known)
    if scan.nesting > _MAX_NESTING:
        raise _too_deep(scan, f"{scan.nesting} graphs", scan.layers)
    for span in (*scan.rt_infos, *((scan.meta_data,) if scan.meta_data is not None else ())):
        depth = max(accumulate(0 if tag[4] else -1 if tag[1] else 1 for tag in TAG.finditer(masked, *span)), default=0)
        if depth > _MAX_NESTING:
            raise _too_deep(scan, f"{depth} elements of rt_info", span)
    return scan


def _too_deep(scan: Scan, nested: str, span: Span) -> InvalidIRError:
    line = line_of(scan.data, span.start)
    message = f"{nested} are nested in each other, but irtools reads at most {_MAX_NESTING}"
    return InvalidIRError(f"line {line}: {message}; export the model again", line=line)


def bodies(scan: Scan, span: Span) -> Iterator[tuple[str, Scan]]:
    """Name and scan of each graph in the Loop, TensorIterator or If at ``span``."""
    for name, body in child_spans(scan.masked, span):
        if name in ("body", "then_body", "else_body"):
            opening = TAG.match(scan.masked, body.start)
            inner = Scan(scan.data, scan.masked, path=scan.path)
            if opening is not None and not opening[4]:
                with about(scan.path):
                    _scan_children(inner, opening.end())
            yield name, inner


def same_graph(one: Scan, other: Scan) -> bool:
    """True if two files have the same bytes in their layers and edges."""
    sections = ((one.layers, other.layers), (one.edges_section, other.edges_section))
    return all(
        here.end - here.start == there.end - there.start and same_section(one.data, here.start, other, there)
        for here, there in sections
    )


def same_layout(scan: Scan, like: Scan) -> bool:
    """True if a scan has taken over layers and edges of ``like``, which are at the same lines of both files."""
    start = like.layers.start
    shared = scan.spans is like.spans and scan.edges is like.edges
    return shared and scan.data.count(b"\n", 0, start) == like.data.count(b"\n", 0, start)


def same_section(data: bytes, start: int, other: Scan, section: Span) -> bool:
    """True if the bytes from ``start`` on are those of a section of another file; copies only a piece at a time."""
    shift = start - section.start
    pieces = range(section.start, section.end, _PIECE)
    ends = (min(piece + _PIECE, section.end) for piece in pieces)
    return all(
        data[piece + shift : end + shift] == other.data[piece:end] for piece, end in zip(pieces, ends, strict=True)
    )


def child_spans(data: bytes, span: Span) -> Iterator[tuple[str, Span]]:
    """Name and byte range of each child of the element at ``span``."""
    masked, first = _masked_span(data, span)
    opening = TAG.match(masked, span.start - first)
    if opening is None or opening[4]:
        return
    position = opening.end()
    while (tag := TAG.search(masked, position)) is not None and not tag[1]:
        position = tag.end() if tag[4] else _skip_element(masked, tag)
        yield tag[2].decode(), Span(tag.start() + first, position + first)


class _Known(NamedTuple):
    """What the bytes of a file alone prove, before it is parsed.

    Attributes
    ----------
    proved : sequence of Span
        Elements that need not be parsed, in file order.
    layers, edges : list
        The layers and edges; None if they are spelled otherwise than by OpenVINO, or do not resemble the other file.
    layers_start, edges_start : int
        Offsets after the tags of their sections.
    """

    proved: Sequence[Span] = ()
    layers: list[Run | FlatLayers] | None = None
    layers_start: int = 0
    edges: list[Edge] | None = None
    edges_start: int = 0

    @classmethod
    def of(cls, data: bytes, like: Scan | None) -> _Known:
        """Read the edges, and with another file, the layers that are alike."""
        span = Span(*outer_edges(data))
        edges = _edges_like(data, span, like) if span.end else None
        proved = [span] if edges is not None else []
        tag, layers = data.find(b"<layers>"), None
        start = tag + len(b"<layers>")
        if tag >= 0 and like is not None and like.contents and like.data.startswith(b"<layers>", like.layers.start):
            there = like.layers.start + len(b"<layers>")
            layers = layers_like(data, start, OtherLayers(like.data, there, like.ids, like.spans, like.contents))
        runs = [Span(run.start, run.end) for run in layers or () if isinstance(run, Run)]
        if runs and edges is not None and runs[-1].end > span.start:
            return _Known()  # no IR has its edges before its layers
        return _Known((*runs, *proved), layers, start, edges, span.start)


def _edges_like(data: bytes, span: Span, like: Scan | None) -> list[Edge] | None:
    """Edges of a section without its tags; those at its beginning that another file also has are not read again."""
    if like is None or not like._flat_edges:
        return flat_edges(data[span.start : span.end])
    start, end = outer_edges(like.data)
    same = 0
    while same < end - start:
        piece = like.data[start + same : min(start + same + _PIECE, end)]
        if not data.startswith(piece, span.start + same, span.end):
            break
        same += len(piece)
    if same == end - start == span.end - span.start:
        return like.edges
    same = max(data.rfind(b"\n\t\t<edge", span.start, span.start + same) - span.start, 0)
    edges = flat_edges(data[span.start + same : span.end])
    return like.edges[: like.data.count(b"<edge", start, start + same)] + edges if edges is not None else None


def _scan_children(
    scan: Scan, position: int, whole: bool = True, like: Scan | None = None, known: _Known | None = None
) -> int:
    """Scan the children of ``<net>`` or of a body; returns the offset of the end tag."""
    data, known = scan.masked, known or _Known()
    while (tag := TAG.search(data, position)) is not None:
        closing, name, _, empty = tag.groups()
        if closing:
            return tag.start()
        if empty:
            position = tag.end()
        elif name == b"layers" and whole and not scan.layers.end:
            layers = known.layers if tag.end() == known.layers_start else None
            position = (
                (like and layers and _take_alike(scan, layers, like))
                or (like and _shared_layers(scan, tag.start(), like))
                or _scan_layers(scan, data, tag.end())
            )
        else:
            position = _skip_element(data, tag)
        if name == b"layers" and not scan.layers.end:  # OpenVINO reads the first of several, edges too
            scan.layers = Span(tag.start(), position)
        elif name == b"edges" and not scan.edges_section.end:
            scan.edges_section = Span(tag.start(), position)
            if known.edges is not None and tag.end() == known.edges_start:
                scan.edges, scan._flat_edges = known.edges, True
            elif like and like.edges_section.end and same_section(data, tag.start(), like, like.edges_section):
                scan.edges = like.edges
            elif whole:
                _scan_edges(scan, data, tag.end(), position)
        elif name == b"rt_info":
            scan.rt_infos.append(Span(tag.start(), position))
        elif name == b"meta_data" and scan.meta_data is None:
            scan.meta_data = Span(tag.start(), position)
    return len(data)


def _skip_element(data: bytes, tag: re.Match[bytes]) -> int:
    """Offset after the element that ``tag`` opens.

    Only tags with the name of the element are searched: for the layers of a 130 MB file this takes 0.1 s, while
    a regular expression that stops at every tag takes 0.5 s. The next end tag is searched once for all start tags
    before it, so that the time is linear in nested elements too.
    """
    name, depth, position, end = tag[2], 1, tag.end(), -1
    while depth:
        if end < position:
            end = data.find(b"</" + name, position)
        if end < 0:
            return len(data)
        start = data.find(b"<" + name, position, end)
        other = TAG.match(data, start if start >= 0 else end)
        if other is None:
            position = end + 1
            continue
        if other[2] == name:
            depth += -1 if other[1] else 0 if other[4] else 1
        position = other.end()
    return position


def _shared_layers(scan: Scan, start: int, like: Scan) -> int:
    """Take over the layers of another file if they have the same bytes; returns the offset after them, or 0."""
    if not like.layers.end or not same_section(scan.data, start, like, like.layers):
        return 0
    shift = start - like.layers.start
    scan.ids, scan.names, scan.types, scan.nesting = like.ids, like.names, like.types, like.nesting
    scan.opsets, scan.contents = like.opsets, like.contents
    scan.spans = [Span(first + shift, last + shift) for first, last in like.spans] if shift else like.spans
    return like.layers.end + shift


def _take_alike(scan: Scan, layers: Sequence[Run | FlatLayers], like: Scan) -> int:
    """Take over the layers that another file also has, and record the others; returns the offset after them all."""
    end = scan.data.index(b"</layers", layers[-1].end if isinstance(layers[-1], Run) else layers[-1].ends[-1])
    end = scan.data.index(b">", end) + 1
    scan.nesting = like.nesting
    if all(isinstance(run, Run) and not run.shift for run in layers) and layers[-1][1] == len(like.spans):
        scan.ids, scan.names, scan.types, scan.spans = like.ids, like.names, like.types, like.spans
        scan.opsets, scan.contents = like.opsets, like.contents
        return end
    for run in layers:
        if isinstance(run, FlatLayers):
            _take_layers(scan, run)
            continue
        taken = slice(run.first, run.last)
        scan.ids += like.ids[taken]
        scan.names += like.names[taken]
        scan.types += like.types[taken]
        scan.opsets += like.opsets[taken]
        scan.contents += like.contents[taken]
        shift = run.shift
        spans = like.spans[taken]
        scan.spans += [_SPAN((first + shift, last + shift)) for first, last in spans] if shift else spans
    if len(scan.opsets) < len(scan.ids):
        scan.opsets = []
    return end


def _scan_layers(scan: Scan, data: bytes, position: int) -> int:
    """Record the ``<layer>`` elements of one ``<layers>`` without the layers nested in them."""
    # Not in bodies: this searches the rest of the file, and a file can have thousands of bodies.
    flat = flat_layers(data, position) if scan.net_end else None
    if flat is None:
        return _scan_nested_layers(scan, data, position)
    layers, end = flat
    _take_layers(scan, layers)
    if scan.masked is not scan.data:
        scan.contents = []
    return end


def _take_layers(scan: Scan, flat: FlatLayers) -> None:
    ids, names, types, opsets = (flat.heads[place::5] for place in range(1, 5))
    known = {text: attribute_text(text) for text in {*types, *opsets} if text is not None}
    scan.ids += map(int, ids)
    scan.names += _texts(names)
    scan.types += map(known.__getitem__, types)
    scan.spans += map(_SPAN, zip(flat.starts, flat.ends, strict=True))
    if None not in opsets:
        scan.opsets += map(known.__getitem__, opsets)
    scan.contents += flat.contents


def _texts(values: Sequence[bytes]) -> list[str]:
    """Attribute values without quotation marks as :func:`attribute_text` decodes them, most of them in one go."""
    text = b'"'.join(values).decode()
    return text.split('"') if values and text.isprintable() and "&" not in text else list(map(attribute_text, values))


def _scan_nested_layers(scan: Scan, data: bytes, position: int) -> int:
    """Record the layers in any spelling, nested or not."""
    ids, names, types, spans = scan.ids, scan.names, scan.types, scan.spans
    known_types: dict[bytes, str] = {}
    nested = rt_info = opened = 0
    start = -1
    for token in _LAYER_TOKEN.finditer(data, position):
        attributes, self_closed, other, other_closed = token.groups()
        if rt_info or other == b"rt_info":
            if other == b"rt_info":
                rt_info += 0 if other_closed else 1
            elif other == b"/rt_info":
                rt_info -= 1
            continue
        if other == b"layers":
            nested += 0 if other_closed else 1
            scan.nesting = max(scan.nesting, nested)
        elif other == b"/layers":
            if not nested:
                return token.end()
            nested -= 1
        elif nested:
            continue
        elif other == b"/layer":
            opened -= 1
            if not opened:
                spans.append(Span(start, token.end()))
        elif opened:
            opened += 0 if self_closed else 1
        else:
            start = token.start()
            plain = _PLAIN_LAYER.match(attributes)
            if plain is not None:
                ids.append(int(plain[1]))
                name, kind = attribute_text(plain[2]), plain[3]
            else:
                values = parse_attributes(attributes)
                ids.append(_number(scan.data, start, values, "id", "layer"))
                name, kind = values.get("name", ""), values.get("type", "").encode()
            names.append(name)
            types.append(known_types.get(kind) or known_types.setdefault(kind, attribute_text(kind)))
            if self_closed:
                spans.append(Span(start, token.end()))
            else:
                opened = 1
    return len(data)


def _scan_edges(scan: Scan, data: bytes, start: int, end: int) -> None:
    region = data[start:end]
    if (flat := flat_edges(region.removesuffix(b"</edges>"))) is not None:
        scan.edges = flat
        return
    plain = _PLAIN_EDGE.findall(region)
    if len(plain) == region.count(b"<edge ") == region.count(b"<edge"):
        scan.edges = [(int(a), int(b), int(c), int(d)) for a, b, c, d in plain]
        return
    for tag in _EDGE.finditer(data, start, end):
        values = parse_attributes(tag[1])
        keys = ("from-layer", "from-port", "to-layer", "to-port")
        source, source_port, target, target_port = (
            _number(scan.data, tag.start(), values, key, "edge") for key in keys
        )
        scan.edges.append((source, source_port, target, target_port))


def edge_offsets(scan: Scan) -> list[int]:
    """Offsets of the edges in the file, in the order of ``Scan.edges``."""
    return [tag.start() for tag in _EDGE.finditer(scan.masked, *scan.edges_section)]
