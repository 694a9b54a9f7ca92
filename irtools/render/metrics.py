"""Text widths in the layout font.

An SVG viewer uses its own fonts. With a ``textLength`` on each text, the viewer fits its font to
the boxes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import cache
from html import unescape
from pathlib import Path

__all__ = ["fit_text", "text_width"]

_FONTS = {
    bold: Path(__file__).parent / "fonts" / f"LiberationSans-{'Bold' if bold else 'Regular'}.ttf"
    for bold in (False, True)
}
_TEXT = re.compile(r'<text ([^>]*?font-size="([0-9.]+)"[^>]*)>([^<]*)</text>')


# fontTools also reads these tables, but it would be a dependency of every install for four tables of two fixed fonts.
@cache
def _advances(bold: bool) -> Mapping[int, float]:
    """Width of each character by code point, in units of the font size."""
    data = _FONTS[bold].read_bytes()
    (count,) = struct.unpack_from(">H", data, 4)
    tables = {}
    for position in range(12, 12 + 16 * count, 16):
        tag, _, offset, _ = struct.unpack_from(">4sLLL", data, position)
        tables[tag] = offset
    (units,) = struct.unpack_from(">H", data, tables[b"head"] + 18)
    (metrics,) = struct.unpack_from(">H", data, tables[b"hhea"] + 34)
    widths = struct.unpack_from(">" + "Hh" * metrics, data, tables[b"hmtx"])[::2]
    return {code: widths[min(glyph, metrics - 1)] / units for code, glyph in _glyphs(data, tables[b"cmap"]).items()}


def _glyphs(data: bytes, cmap: int) -> Mapping[int, int]:
    """Glyph of each character, from the cmap subtable of format 4, which both fonts have."""
    (count,) = struct.unpack_from(">H", data, cmap + 2)
    offsets = (struct.unpack_from(">HHL", data, cmap + 4 + 8 * index)[2] + cmap for index in range(count))
    start = next(offset for offset in offsets if struct.unpack_from(">H", data, offset)[0] == 4)
    half = struct.unpack_from(">H", data, start + 6)[0] // 2
    ends = struct.unpack_from(f">{half}H", data, start + 14)
    starts = struct.unpack_from(f">{half}H", data, start + 16 + 2 * half)
    deltas = struct.unpack_from(f">{half}h", data, start + 16 + 4 * half)
    places = start + 16 + 6 * half
    ranges = struct.unpack_from(f">{half}H", data, places)
    glyphs = {}
    for index, (low, high, delta, where) in enumerate(zip(starts, ends, deltas, ranges, strict=True)):
        for code in range(low, min(high, 0xFFFE) + 1):
            glyph = code
            if where:
                (glyph,) = struct.unpack_from(">H", data, places + 2 * index + where + 2 * (code - low))
            if glyph:
                glyphs[code] = (glyph + delta) & 0xFFFF
    return glyphs


def text_width(text: str, size: float, *, bold: bool = False) -> float | None:
    """Width of a line in the units of ``size``; None if the font lacks a character."""
    advances = _advances(bold)
    try:
        return sum(advances[ord(character)] for character in text) * size
    except KeyError:
        return None


def fit_text(svg: str) -> str:
    """Add a ``textLength`` to every text of an SVG from Graphviz."""

    def fitted(match: re.Match[str]) -> str:
        attributes, size, content = match.groups()
        text = unescape(content).replace("\N{NO-BREAK SPACE}", " ")
        width = text_width(text, float(size), bold='font-weight="bold"' in attributes)
        if not width or not text.strip():
            return match[0]
        return f'<text {attributes} textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs">{content}</text>'

    return _TEXT.sub(fitted, svg)
