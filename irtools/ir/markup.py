"""How text is spelled in the XML of an IR: as OpenVINO writes it."""

from __future__ import annotations

import re

__all__ = ["SPACE", "declares_ascii", "encode_text", "space_before", "spell_attribute", "unprintable"]

SPACE = b" \t\r\n"
"""The bytes that XML counts as white space."""

_ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["'](?:us-)?ascii["']""", re.IGNORECASE)
# As OpenVINO writes attribute values: ">" and "'" stay, other control characters cannot occur.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#09;", "\n": "&#10;", "\r": "&#13;"})
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    found = _NO_XML.search(value)
    return found[0] if found else None


def space_before(data: bytes, offset: int) -> bytes:
    """The white space that ends at an offset."""
    start = offset
    while start and data[start - 1] in SPACE:
        start -= 1
    return data[start:offset]
