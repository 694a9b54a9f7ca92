"""Parse one op of an IR from the bytes of its ``<layer>`` element."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from irtools.errors import InvalidIRError, MalformedValueError
from irtools.ir.scan import ATTRIBUTES, Scan, Span, attribute_text, line_of, parse_attributes
from irtools.text import clipped, whole_number

if TYPE_CHECKING:
    from lxml import etree

__all__ = [
    "DYNAMIC",
    "FLOATS",
    "INTEGERS",
    "MOST_DIMENSIONS",
    "PRECISIONS",
    "RESHAPES",
    "Op",
    "Port",
    "Ports",
    "bare_ports",
    "count_types",
    "data_attributes",
    "layer_attributes",
    "op_types",
    "output_ports",
    "parse_op",
    "parse_pairs",
    "parse_shape",
    "plain_layer",
    "plain_sections",
    "port_shapes",
    "split_names",
]

DYNAMIC = -1
"""Value of a dynamic dimension, as in the IR."""
MOST_DIMENSIONS = 64
"""Dimensions of the largest shape that is read; no op of OpenVINO has as many."""

_DATA = re.compile(rb"<data(" + ATTRIBUTES + rb")\s*/?>")
_TYPED = re.compile(rb'" type="([^"]+)" version="([^"]+)"')
_LAYER = re.compile(rb"<layer(" + ATTRIBUTES + rb")\s*/?>")
PRECISIONS = {"FP64": "f64", "FP32": "f32", "FP16": "f16", "BF16": "bf16", "BOOL": "boolean", "STRING": "string"}
"""Element types as OpenVINO prints them, by their spelling in the file; others differ only in case."""
FLOATS = frozenset(("f32", "f16", "bf16", "f64"))
"""Element types of floating-point activations; the types of compressed weights are not included."""
INTEGERS = frozenset(("i64", "i32", "u64", "u32"))
"""Element types of indices, axes and shapes; narrower integers store compressed weights."""
RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Identity"})
"""Ops that keep the elements, their order and their element type."""
_DIM = re.compile(rb"<dim>(-?[0-9]{1,18})</dim>")
_NAME_SEPARATOR = re.compile(r"(?<!\\),")

# The spelling of OpenVINO. Anything else is left to lxml, which takes five times as long.
_PLAIN_ATTRIBUTES = rb'(?:\s+(?!xmlns)[A-Za-z_][\w.-]*="[^"]*")*'
_PLAIN_HEAD = re.compile(
    rb'<layer id="([0-9]{1,18})" name="([^"]*)" type="([^"]*)" version="([^"]*)"\s*>'
    rb"\s*(?:<data(" + _PLAIN_ATTRIBUTES + rb")\s*/>)?"
)
# The same without what a scan has.
_PLAIN_START = re.compile(
    rb'<layer id="[0-9]{1,18}" name="[^"]*" type="[^"]*" version="([^"]*)"\s*>\s*(?:<data('
    + _PLAIN_ATTRIBUTES
    + rb")\s*/>)?"
)
_PLAIN_SECTION = re.compile(rb"\s*<(/?(?:rt_info|input|output|layer))>")
_PLAIN_ENTRIES = re.compile(rb"(?:\s*<attribute" + _PLAIN_ATTRIBUTES + rb"\s*/>)*\s*")
_PLAIN_ENTRY = re.compile(rb"<attribute(" + _PLAIN_ATTRIBUTES + rb")")
_PLAIN_PORT = re.compile(
    rb'\s*<port id="([0-9]{1,18})" precision="(\w+)"(?: names="([^"]*)")?\s*'
    rb"(?:/>|>((?:\s*<dim>-?[0-9]{1,18}</dim>)*)\s*</port>)"
)
_MOST_SECTIONS = 4096  # spellings of ports that are remembered: thousands of ops share a few
_LONGEST = 4096  # bytes of one of them


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output port of an op.

    Attributes
    ----------
    id : int
        Port id in the file; output ports continue the numbers of the inputs.
    element_type : str
        As OpenVINO prints it: ``f32``, ``i64``, ``u4``, ...
    shape : tuple of int
        ``DYNAMIC`` (-1) for dynamic dimensions. The format does not distinguish a scalar from an unknown
        rank; both are ``()``.
    names : tuple of str
        Tensor names (outputs only).
    """

    id: int
    element_type: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Op:
    """One ``<layer>``.

    Attributes
    ----------
    id : int
        Layer id, unique in its graph.
    name : str
        Friendly name.
    type, opset : str
        Such as ``MatMul`` and ``opset1``.
    attributes : mapping of str to str
        Attributes of ``<data>``, verbatim.
    rt_info : mapping of str to str
        Runtime attributes of the op.
    span : Span
        Byte range in the file.
    """

    id: int
    name: str
    type: str
    opset: str
    attributes: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    rt_info: Mapping[str, str] = field(repr=False)
    span: Span = field(repr=False)


def op_types(text: str) -> frozenset[str]:
    """Set of op types from text separated by spaces."""
    return frozenset(text.split())


def parse_shape(text: str) -> tuple[int, ...]:
    """Dimensions of a ``shape`` attribute, at most 64; ``DYNAMIC`` for anything but a number.

    Examples
    --------
    >>> parse_shape("1,?,32"), parse_shape("")
    ((1, -1, 32), ())
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    numbers = (whole_number(part) for part in parts[:MOST_DIMENSIONS])
    return tuple(number if number is not None and number >= 0 else DYNAMIC for number in numbers)


def split_names(value: str) -> tuple[str, ...]:
    r"""Split a list of tensor names; the file writes a comma in a name as ``\,``."""
    return tuple(part.replace("\\,", ",") for part in _NAME_SEPARATOR.split(value)) if value else ()


def data_attributes(data: bytes, span: Span) -> dict[str, str]:
    """Attributes of the ``<data>`` of one layer, without parsing the rest of the layer."""
    match = _DATA.search(data, span.start, span.end)
    return parse_attributes(match[1]) if match else {}


def count_types(graphs: Sequence[Scan]) -> Counter[tuple[str, str]]:
    """Number of ops by type and ``version``, over all graphs of a file; ``""`` for an attribute that is missing."""
    if len(graphs) == 1 and graphs[0].opsets:
        return Counter(zip(graphs[0].types, graphs[0].opsets, strict=True))
    counted = Counter(_TYPED.findall(graphs[0].data))
    if counted.total() == sum(len(graph.ids) for graph in graphs):
        return Counter({(_unescaped(kind), _unescaped(opset)): number for (kind, opset), number in counted.items()})
    # Another spelling than OpenVINO's, or a fault.
    layers = (layer_attributes(graph.data, span) for graph in graphs for span in graph.spans)
    return Counter((layer.get("type", ""), layer.get("version", "")) for layer in layers)


def _unescaped(value: bytes) -> str:
    return parse_attributes(b' value="%s"' % value)["value"]


class Ports(NamedTuple):
    """Input and output ports of an op without tensor names, and their shapes, inputs first.

    ``named`` is true if an output has tensor names in the file.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    shapes: tuple[tuple[int, ...], ...]
    named: bool


@lru_cache(_MOST_SECTIONS)
def bare_ports(content: bytes | None) -> Ports | None:
    """Ports of a layer from its content in ``Scan.contents``; None if it is not spelled as OpenVINO spells it."""
    sections = _read_sections(content) if content is not None else None
    if content is None or sections is None:
        return None
    _, inputs, outputs = sections
    return Ports(inputs, outputs, tuple([port.shape for port in (*inputs, *outputs)]), b' names="' in content)


def port_shapes(data: bytes, span: Span) -> list[tuple[int, ...]]:
    """Shapes of the ports of one layer, inputs first, without parsing the rest of the layer."""
    start, end = span
    first = data.find(b"<input>", start, end)
    if first >= 0 and not any(data.find(other, start, first) >= 0 for other in (b"<output>", b"<!", b"<?")):
        sections = plain_sections(data[first:end])
        if sections is not None:
            return [port.shape for ports in sections[1:] for port in ports]
    op = parse_op(data, span)
    return [port.shape for port in (*op.inputs, *op.outputs)]


def layer_attributes(data: bytes, span: Span) -> dict[str, str]:
    """Attributes of one ``<layer>`` tag, such as ``output_names`` of a Result."""
    match = _LAYER.match(data, span.start, span.end)
    return parse_attributes(match[1]) if match else {}


@cache
def _parser() -> etree.XMLParser:
    from lxml import etree

    return etree.XMLParser(huge_tree=True, resolve_entities=False, no_network=True, load_dtd=False)


def _integer(text: str, what: str) -> int:
    number = whole_number(text)
    if number is None:
        raise ValueError(f"{what} {clipped(text)!r}, which is not a number of at most 18 digits")
    return number


def _port(element: etree._Element) -> Port:
    precision = element.get("precision", "")
    texts = [dim.text for dim in element.iterchildren("dim")]
    dims = tuple([_integer(text, "a port whose dimension is") if text else DYNAMIC for text in texts])
    if len(dims) > MOST_DIMENSIONS:
        raise ValueError(f"a port with {len(dims)} dimensions, but irtools reads at most {MOST_DIMENSIONS}")
    names = split_names(element.get("names", ""))
    number = _integer(element.get("id", "0"), "a port whose id is")
    return Port(number, PRECISIONS.get(precision, precision.lower()), dims, names)


def parse_element(data: bytes, span: Span) -> etree._Element:
    """Parse one element of a validated IR with lxml."""
    from lxml import etree

    try:
        return etree.fromstring(data[span.start : span.end], _parser())
    except etree.XMLSyntaxError as error:  # expat accepted the file, so the element exceeds a limit of lxml
        line = line_of(data, span.start)
        raise InvalidIRError(
            f"line {line}: an element that cannot be read, {error.msg}; export the model again", line=line
        ) from None


def parse_op(data: bytes, span: Span) -> Op:
    """Parse the op at ``span``, one of ``Scan.spans`` of a scanned file.

    Raises
    ------
    MalformedValueError
        An id or a dimension is not a number.
    """
    plain = _plain_op(data, span)
    if plain is not None:
        return plain
    layer = parse_element(data, span)
    try:
        return _op(layer, span)
    except ValueError as error:
        line = line_of(data, span.start)
        name = clipped(layer.get("name", ""))
        message, hint = f"line {line}: the op {name!r} has {error}", "export the model again, or restore the file"
        raise MalformedValueError(message, line=line, hint=hint) from None


def _op(layer: etree._Element, span: Span) -> Op:
    attributes, rt_info = layer.find("data"), layer.find("rt_info")
    return Op(
        id=_integer(layer.get("id", "0"), "the id"),
        name=layer.get("name", ""),
        type=layer.get("type", ""),
        opset=layer.get("version", ""),
        attributes={str(k): str(v) for k, v in attributes.attrib.items()} if attributes is not None else {},
        inputs=tuple(_port(port) for port in layer.iterfind("input/port")),
        outputs=tuple(_port(port) for port in layer.iterfind("output/port")),
        rt_info={
            str(entry.get("name", entry.tag)): str(entry.get("value", ""))
            for entry in (rt_info if rt_info is not None else ())
            if isinstance(entry.tag, str)
        },
        span=span,
    )


def output_ports(data: bytes, span: Span) -> tuple[Port, ...]:
    """Output ports of the op at ``span``; as :func:`parse_op`, but faster and with less memory."""
    start, end = span
    first = data.find(b"<output>", start, end)
    # Without comments before it the tag is one. If nothing but the end of the layer follows, it is the only one.
    if first >= 0 and data.find(b"<!", start, first) < 0 and data.find(b"<?", start, first) < 0:
        sections = plain_sections(data[first:end])
        if sections is not None:
            return sections[2]
    return parse_op(data, span).outputs


# -- the spelling of OpenVINO ----------------------------------------------------------


def plain_layer(data: bytes, span: Span) -> tuple[bytes, bytes, bytes] | None:
    """Opset, attributes of ``<data>`` and what follows it, for :func:`parse_pairs` and :func:`plain_sections`.

    None for a layer that is not spelled as OpenVINO spells it.
    """
    head = _PLAIN_START.match(data, *span)
    if head is None:
        return None
    opset, attributes = head.groups()
    return opset, attributes or b"", data[head.end() : span.end]


def parse_pairs(attributes: bytes) -> tuple[str, ...]:
    """Names and values by turns, of attributes from :func:`plain_layer`."""
    text = attributes.decode()
    if "&" in text or not text.isprintable():
        return tuple(chain.from_iterable(parse_attributes(attributes).items()))
    pieces = text.split('"')
    pieces[:-1:2] = [piece.strip(" =") for piece in pieces[:-1:2]]
    return tuple(pieces[:-1])


def _plain_op(data: bytes, span: Span) -> Op | None:
    """Parse an op in the spelling of OpenVINO; None for any other."""
    head = _PLAIN_HEAD.match(data, *span)
    sections = plain_sections(data[head.end() : span.end]) if head is not None else None
    if head is None or sections is None:
        return None
    key, name, kind, opset, attributes = head.groups()
    rt_info, inputs, outputs = sections
    return Op(
        int(key),
        attribute_text(name),
        attribute_text(kind),
        attribute_text(opset),
        parse_attributes(attributes) if attributes else {},
        inputs,
        outputs,
        dict(rt_info),
        span,
    )


Sections: TypeAlias = tuple[tuple[tuple[str, str], ...], tuple[Port, ...], tuple[Port, ...]]
"""Entries of rt_info, input ports and output ports of a layer."""


def plain_sections(text: bytes) -> Sections | None:
    """Read what follows ``<data>`` in a layer; None for another spelling than that of OpenVINO."""
    return _remembered(text) if len(text) <= _LONGEST else _read_sections(text)


@lru_cache(_MOST_SECTIONS)
def _remembered(text: bytes) -> Sections | None:
    return _read_sections(text)


def _read_sections(text: bytes) -> Sections | None:
    sections: dict[bytes, bytes] = {}
    position = 0
    while (tag := _PLAIN_SECTION.match(text, position)) is not None:
        name = tag[1]
        if name == b"/layer":
            break
        stop = text.find(b"</%b>" % name, tag.end())
        if stop < 0 or name in sections:
            return None
        sections[name] = text[tag.end() : stop]
        position = stop + len(name) + 3
    rt_info = sections.get(b"rt_info", b"")
    if tag is None or tag.end() != len(text) or (rt_info and not _PLAIN_ENTRIES.fullmatch(rt_info)):
        return None
    inputs, outputs = (_plain_ports(sections.get(name, b"")) for name in (b"input", b"output"))
    if inputs is None or outputs is None:
        return None
    values = [parse_attributes(entry[1]) for entry in _PLAIN_ENTRY.finditer(rt_info)]
    entries = {each.get("name", "attribute"): each.get("value", "") for each in values}
    return tuple(entries.items()), inputs, outputs


def _plain_ports(section: bytes) -> tuple[Port, ...] | None:
    """Ports of the content of an ``<input>`` or ``<output>``; None for another spelling than that of OpenVINO."""
    ports = []
    position = 0
    while (port := _PLAIN_PORT.match(section, position)) is not None:
        key, precision, names, dims = port.groups()
        shape = tuple(map(int, _DIM.findall(dims))) if dims else ()
        if len(shape) > MOST_DIMENSIONS:
            return None
        kind = precision.decode()
        kind = PRECISIONS.get(kind, kind.lower())
        ports.append(Port(int(key), kind, shape, split_names(attribute_text(names)) if names else ()))
        position = port.end()
    return None if section[position:].strip() else tuple(ports)
