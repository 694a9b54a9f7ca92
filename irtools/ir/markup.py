"""XML of an IR as bytes: spell attributes as OpenVINO does, find them, and replace byte ranges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from irtools.ir.scan import TAG, Span

__all__ = [
    "SPACE",
    "Attribute",
    "Splice",
    "attributes_at",
    "declares_ascii",
    "encode_text",
    "first_space",
    "last_line",
    "removal",
    "space_before",
    "spell_attribute",
    "spliced",
    "unprintable",
]

SPACE = b" \t\r\n"
"""White space bytes of XML."""
_ATTRIBUTE = re.compile(rb"""\s+([^\s=>/"']+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_CHILD = re.compile(rb"([ \t\r\n]*)<[^!?/]")

_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["'](?:us-)?ascii["']""", re.IGNORECASE)
# OpenVINO does not escape ">" and "'" in attribute values. XML permits no other control characters.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#09;", "\n": "&#10;", "\r": "&#13;"})
_NO_XML = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def declares_ascii(data: bytes) -> bool:
    """True if the file declares ASCII, so edits must keep it ASCII."""
    return _ENCODING.match(data.removeprefix(b"\xef\xbb\xbf")[:200]) is not None


def encode_text(value: str, ascii_only: bool) -> bytes:
    """Escape an attribute value for double quotes; with ``ascii_only``, use character references."""
    # Not `xml.sax.saxutils`: it takes 20 ms to import.
    text = value.translate(_ESCAPES)
    return text.encode("ascii", "xmlcharrefreplace") if ascii_only else text.encode()


def spell_attribute(name: str, value: str, ascii_only: bool) -> bytes:
    """Attribute with its value in double quotes."""
    return name.encode() + b'="' + encode_text(value, ascii_only) + b'"'


def unprintable(value: str) -> str | None:
    """First character that XML cannot represent; None if there is none."""
    if value.isprintable():
        return None
    match = re.search(_NO_XML, value)  # compiled on first use, because that takes 3 ms
    return match[0] if match else None


def space_before(data: bytes, offset: int) -> bytes:
    """White space that ends at an offset."""
    start = offset
    while start and data[start - 1] in SPACE:
        start -= 1
    return data[start:offset]


def first_space(data: bytes, offset: int) -> bytes:
    """White space before the first element after an offset."""
    match = _CHILD.search(data, offset)
    return match[1] if match else b""


def last_line(space: bytes) -> bytes:
    """Indentation at the end of white space; empty without a line break."""
    return re.split(rb"[\r\n]", space)[-1] if b"\n" in space or b"\r" in space else b""


class Attribute(NamedTuple):
    """Position of an attribute in a file.

    Attributes
    ----------
    whole : Span
        The attribute with the white space before it.
    value : Span
        The text between the quotes.
    """

    whole: Span
    value: Span
    quote: bytes


def attributes_at(data: bytes, start: int) -> tuple[dict[str, Attribute], int]:
    """Attributes of the start tag at an offset, and the offset where another one can be added."""
    tag = TAG.match(data, start)
    assert tag is not None, "every element starts with a tag"
    attributes = {}
    for match in _ATTRIBUTE.finditer(data, tag.start(3), tag.end(3)):
        value = Span(*match.span(2 if match[2] is not None else 3))
        attributes[match[1].decode()] = Attribute(Span(*match.span()), value, data[value.end : value.end + 1])
    return attributes, tag.end(3)


class Splice(NamedTuple):
    """Replacement of ``data[start:end]`` by ``new``."""

    start: int
    end: int
    new: bytes


def removal(data: bytes, span: Span) -> Splice:
    """Removal of an element and the white space before it."""
    return Splice(span.start - len(space_before(data, span.start)), span.end, b"")


def spliced(data: bytes, splices: Sequence[Splice]) -> bytes:
    """Apply splices, which must be in file order and must not overlap."""
    if not splices:
        return data
    pieces, last = [], 0
    for start, end, new in splices:
        pieces += [data[last:start], new]
        last = end
    return b"".join([*pieces, data[last:]])
