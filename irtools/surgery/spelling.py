"""Bytes of new layers and edges, and of old ones with changed values.

The surroundings of a change keep their spelling. New elements are written in the style of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from irtools.ir.markup import (
    Splice,
    attributes_at,
    declares_ascii,
    encode_text,
    first_space,
    last_line,
    removal,
    space_before,
    spell_attribute,
    spliced,
)
from irtools.ir.op import PRECISIONS, split_names
from irtools.ir.scan import TAG, Scan, Span, child_spans, parse_attributes
from irtools.surgery.edits import AddOp, NewPort
from irtools.text import whole_number

__all__ = ["Spelling", "append_to", "join_names", "runtime_attributes", "tensor_names"]

_SEPARATOR = re.compile(rb"(?<!\\),")
_SPELLED = {name: spelled for spelled, name in PRECISIONS.items()}


def join_names(names: Sequence[str]) -> str:
    r"""Join tensor names to one attribute; a comma inside a name is written ``\,``."""
    return ",".join(name.replace(",", "\\,") for name in names)


@dataclass(frozen=True, slots=True)
class Spelling:
    """Formatting of a file.

    Attributes
    ----------
    unit : bytes
        One step of indentation.
    lead : bytes
        White space before a layer or an edge.
    """

    unit: bytes
    lead: bytes
    ascii_only: bool

    @classmethod
    def of(cls, scan: Scan) -> Spelling:
        """Read the style off the first lines and the last layer of a file."""
        before = first_space(scan.data, scan.net_tag.end)
        unit = last_line(before)
        lead = space_before(scan.data, scan.spans[-1].start) if scan.spans else before + unit
        return cls(unit, lead, declares_ascii(scan.data))

    # -- new elements ----------------------------------------------------------------------

    def layer(self, key: int, op: AddOp, inputs: Sequence[NewPort]) -> bytes:
        """Return a new layer without the white space before it."""
        tag = [b"<layer", self._attribute("id", str(key)), self._attribute("name", op.name)]
        tag += [self._attribute("type", op.type), self._attribute("version", op.opset)]
        if op.output_names:
            tag.append(self._attribute("output_names", join_names(op.output_names)))
        lines = [(0, b" ".join(tag) + b">")]
        if op.attributes:
            lines.append((1, self._data(op.attributes)))
        if op.runtime_attributes:
            lines.append((1, op.runtime_attributes))
        number = 0
        for name, ports in ((b"input", inputs), (b"output", op.outputs)):
            if ports:
                lines.append((1, b"<" + name + b">"))
                for port in ports:
                    lines += self._port(number, port)
                    number += 1
                lines.append((1, b"</" + name + b">"))
        lines.append((0, b"</layer>"))
        return self._join(lines)

    def edge(self, source: int, source_port: int, target: int, target_port: int) -> bytes:
        """Return a new edge without the white space before it."""
        ends = (source, source_port, target, target_port)
        return b'<edge from-layer="%d" from-port="%d" to-layer="%d" to-port="%d" />' % ends

    def _attribute(self, name: str, value: str) -> bytes:
        return spell_attribute(name, value, self.ascii_only)

    def _data(self, attributes: Mapping[str, str]) -> bytes:
        return b" ".join([b"<data", *(self._attribute(*item) for item in attributes.items()), b"/>"])

    def _port(self, number: int, port: NewPort) -> list[tuple[int, bytes]]:
        precision = _SPELLED.get(port.element_type, port.element_type.upper())
        tag = [b"<port", self._attribute("id", str(number)), self._attribute("precision", precision)]
        if port.names:
            tag.append(self._attribute("names", join_names(port.names)))
        if not port.shape:
            return [(2, b" ".join([*tag, b"/>"]))]
        dims = [(3, b"<dim>%d</dim>" % dim) for dim in port.shape]
        return [(2, b" ".join(tag) + b">"), *dims, (2, b"</port>")]

    def _join(self, lines: Sequence[tuple[int, bytes]]) -> bytes:
        """Join pairs of depth and line; all in one line if the file has no line breaks."""
        broken = b"\n" in self.lead or b"\r" in self.lead
        rest = [self.lead + self.unit * depth + line if broken else line for depth, line in lines[1:]]
        return b"".join([lines[0][1], *rest])

    # -- changes to old elements -----------------------------------------------------------

    def with_name(self, layer: bytes, name: str) -> bytes:
        """Return a layer with another friendly name."""
        return self._with_attribute(layer, 0, "name", name)

    def with_data(self, layer: bytes, key: str, value: str | None) -> bytes:
        """Return a layer with another value in its ``<data>``; a ``<data>`` without attributes is removed."""
        where = _child(layer, "data")
        if where is None:
            return layer if value is None else self._insert_first(layer, self._data({key: value}))
        if value is not None:
            return self._with_attribute(layer, where.start, key, value)
        attributes, _ = attributes_at(layer, where.start)
        if key not in attributes:
            return layer
        if len(attributes) == 1 and not any(child_spans(layer, where)):
            return spliced(layer, [removal(layer, where)])
        return spliced(layer, [Splice(*attributes[key].whole, b"")])

    def with_output_names(self, layer: bytes, names: Sequence[str]) -> bytes:
        """Return a Result with other ``output_names``."""
        old = attributes_at(layer, 0)[0].get("output_names")
        if names:
            return self._with_attribute(layer, 0, "output_names", join_names(names))
        return layer if old is None else spliced(layer, [Splice(*old.whole, b"")])

    def with_tensor_names(self, layer: bytes, index: int, names: Sequence[str]) -> bytes:
        """Return a layer with other tensor names of an output; names that stay keep their spelling."""
        port = _ports(layer, "output")[index]
        attributes, end = attributes_at(layer, port.start)
        old = attributes.get("names")
        if old is None:
            new = b" " + self._attribute("names", join_names(names)) if names else b""
            return spliced(layer, [Splice(end, end, new)])
        if not names:
            return spliced(layer, [Splice(*old.whole, b"")])
        raw = layer[old.value.start : old.value.end]
        return spliced(layer, [Splice(*old.value, self._names(raw, tuple(names), old.quote))])

    def _names(self, raw: bytes, names: tuple[str, ...], quote: bytes) -> bytes:
        """Spell a list of tensor names, with as much as possible of the old spelling."""
        old, spelled = _decoded(raw), [self._value(join_names([name]), quote) for name in names]
        if raw and names[: len(old)] == old:
            return b",".join([raw, *spelled[len(old) :]])
        gone = b"".join(b"," + self._value(join_names([name]), quote) for name in old[len(names) :])
        if names == old[: len(names)] and raw.endswith(gone):
            return raw[: len(raw) - len(gone)]
        pieces = _SEPARATOR.split(raw)
        kept = dict(zip(old, pieces, strict=True)) if len(pieces) == len(old) else {}
        return b",".join(kept.get(name, new) for name, new in zip(names, spelled, strict=True))

    def with_input(self, layer: bytes, index: int, port: NewPort) -> bytes:
        """Return a layer with another type and shape of an input."""
        where = _ports(layer, "input")[index]
        attributes, _ = attributes_at(layer, where.start)
        number = attributes["id"].value if "id" in attributes else Span(0, 0)
        lines = self._port(whole_number(layer[number.start : number.end].decode()) or 0, port)
        return spliced(layer, [Splice(*where, self._join([(0, lines[0][1]), *lines[1:]]))])

    def _value(self, text: str, quote: bytes) -> bytes:
        value = encode_text(text, self.ascii_only)
        return value.replace(b"'", b"&apos;") if quote == b"'" else value

    def _with_attribute(self, data: bytes, tag: int, key: str, value: str) -> bytes:
        attributes, end = attributes_at(data, tag)
        old = attributes.get(key)
        if old is not None:
            return spliced(data, [Splice(*old.value, self._value(value, old.quote))])
        return spliced(data, [Splice(end, end, b" " + self._attribute(key, value))])

    def _insert_first(self, layer: bytes, child: bytes) -> bytes:
        """Return a layer with a new first child; a self-closed layer is opened."""
        tag = TAG.match(layer)
        assert tag is not None, "every element starts with a tag"
        inner = self._join([(0, b""), (1, child)])
        if not tag[4]:
            return spliced(layer, [Splice(tag.end(), tag.end(), inner)])
        ending = self._join([(0, b""), (0, b"</layer>")])
        return layer[: tag.end(3)] + b">" + inner + ending

    @staticmethod
    def with_source(edge: bytes, source: int, port: int) -> bytes:
        """Return an edge with another producer."""
        attributes, _ = attributes_at(edge, 0)
        values = {"from-layer": source, "from-port": port}
        places = sorted(Splice(*attributes[key].value, b"%d" % number) for key, number in values.items())
        return spliced(edge, places)


def _decoded(raw: bytes) -> tuple[str, ...]:
    return split_names(parse_attributes(b" names=" + (b'"%b"' if b'"' not in raw else b"'%b'") % raw)["names"])


def tensor_names(layer: bytes, index: int) -> tuple[str, ...]:
    """Return the tensor names of an output of a layer."""
    port = _ports(layer, "output")[index]
    names = attributes_at(layer, port.start)[0].get("names")
    return _decoded(layer[names.value.start : names.value.end]) if names else ()


def runtime_attributes(layer: bytes) -> bytes:
    """Return the ``<rt_info>`` of a layer; empty without one."""
    where = _child(layer, "rt_info")
    return layer[where.start : where.end] if where is not None else b""


def _child(layer: bytes, name: str) -> Span | None:
    return next((span for tag, span in child_spans(layer, Span(0, len(layer))) if tag == name), None)


def _ports(layer: bytes, side: str) -> list[Span]:
    """Return the ports of one side of a layer, in order."""
    where = _child(layer, side)
    return [span for tag, span in child_spans(layer, where) if tag == "port"] if where is not None else []


def append_to(scan: Scan, section: str, items: bytes, style: Spelling) -> Splice:
    """Append elements, each with its white space before it, to ``<layers>`` or ``<edges>``.

    A self-closed section is opened, a missing one is created.
    """
    data, where = scan.data, scan.layers if section == "layers" else scan.edges_section
    name = section.encode()
    space = style.lead[: len(style.lead) - len(style.unit)] if style.unit else style.lead
    if where == (0, 0):
        after = scan.layers.end if section == "edges" and scan.layers.end else scan.net_tag.end
        return Splice(after, after, space + b"<" + name + b">" + items + space + b"</" + name + b">")
    tag = TAG.match(data, where.start)
    assert tag is not None, "every element starts with a tag"
    if tag[4]:
        return Splice(tag.end(3), where.end, b">" + items + space + b"</" + name + b">")
    end = data.rindex(b"</", where.start, where.end)
    start = end - len(space_before(data, end))
    return Splice(start, start, items + (space if tag.end() == end else b""))
