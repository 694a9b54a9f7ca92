"""The XML of an IR as bytes: how text is spelled as OpenVINO writes it, and how bytes are replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from irtools.ir.scan import Span

__all__ = [
    "SPACE",
    "START_TAG",
    "Attribute",
    "Splice",
    "attributes_at",
    "declares_ascii",
    "encode_text",
    "first_space",
    "last_line",
    "space_before",
    "spell_attribute",
    "spliced",
    "unprintable",
]

SPACE = b" \t\r\n"
"""The bytes that XML counts as white space."""
START_TAG = re.compile(rb"""<([^\s/>!?]+)((?:\s+[^\s=>/"']+\s*=\s*(?:"[^"]*"|'[^']*'))*)(\s*)(/?)>""")
"""The name of an element, its attributes, white space, and a slash if it is self-closed."""

_ATTRIBUTE = re.compile(rb"""\s+([^\s=>/"']+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_CHILD = re.compile(rb"([ \t\r\n]*)<[^!?/]")

_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["'](?:us-)?ascii["']""", re.IGNORECASE)
# As OpenVINO writes attribute values: ">" and "'" stay, other control characters cannot occur.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#09;", "\n": "&#10;", "\r": "&#13;"})
_NO_XML = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def declares_ascii(data: bytes) -> bool:
    """Whether a file says that it is ASCII, and so must stay it."""
    return _ENCODING.match(data.removeprefix(b"\xef\xbb\xbf")[:200]) is not None


def encode_text(value: str, ascii_only: bool) -> bytes:
    """The value of an attribute between double quotes, escaped; character references where it must be ASCII."""
    text = value.translate(_ESCAPES)
    return text.encode("ascii", "xmlcharrefreplace") if ascii_only else text.encode()


def spell_attribute(name: str, value: str, ascii_only: bool) -> bytes:
    """An attribute with its value between double quotes."""
    return name.encode() + b'="' + encode_text(value, ascii_only) + b'"'


def unprintable(value: str) -> str | None:
    """The first character of a text that no XML can hold; None if all can be written."""
    if value.isprintable():
        return None
    found = re.search(_NO_XML, value)  # compiled when it is needed first: it takes 3 ms
    return found[0] if found else None


def space_before(data: bytes, offset: int) -> bytes:
    """The white space that ends at an offset."""
    start = offset
    while start and data[start - 1] in SPACE:
        start -= 1
    return data[start:offset]


def first_space(data: bytes, offset: int) -> bytes:
    """The white space before the first element behind an offset."""
    found = _CHILD.search(data, offset)
    return found[1] if found else b""


def last_line(space: bytes) -> bytes:
    """The indentation at the end of white space; empty if it has no line break."""
    return re.split(rb"[\r\n]", space)[-1] if b"\n" in space or b"\r" in space else b""


class Attribute(NamedTuple):
    """Where an attribute is in a file.

    Attributes
    ----------
    whole : Span
        With the white space before it.
    value : Span
        Between the quotes.
    quote : bytes
    """

    whole: Span
    value: Span
    quote: bytes


def attributes_at(data: bytes, start: int) -> tuple[dict[str, Attribute], int]:
    """The attributes of the start tag at an offset, and where another one can be added."""
    tag = START_TAG.match(data, start)
    assert tag is not None, "every element starts with a tag"
    found = {}
    for match in _ATTRIBUTE.finditer(data, tag.start(2), tag.end(2)):
        value = Span(*match.span(2 if match[2] is not None else 3))
        found[match[1].decode()] = Attribute(Span(*match.span()), value, data[value.end : value.end + 1])
    return found, tag.end(2)


class Splice(NamedTuple):
    """``new`` takes the place of ``data[start:end]``."""

    start: int
    end: int
    new: bytes


def spliced(data: bytes, splices: Sequence[Splice]) -> bytes:
    """The file with all splices made.

    Parameters
    ----------
    data : bytes
    splices : sequence of Splice
        In file order; none overlaps another.
    """
    if not splices:
        return data
    pieces, last = [], 0
    for start, end, new in splices:
        pieces += [data[last:start], new]
        last = end
    return b"".join([*pieces, data[last:]])
