"""Text for people: tables that fit the terminal, and colour where the terminal shows it."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from irtools.text import shortened, visible

__all__ = ["Column", "Style", "folded", "numbers", "paragraph", "table"]

_ESCAPES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_SEPARATORS = ("/.,", "_")
_NARROWEST = 8
_BELOW = 4
_MOST_LINES = 4
_LONGEST_WORD = 16
"""Longest word that stays whole in the narrowest terminal; longer words are names."""


@dataclass(frozen=True, slots=True)
class Style:
    """Capabilities of the output stream.

    Attributes
    ----------
    width : int or None
        Columns of the terminal; None for a file or pipe, where no line is folded.
    """

    colour: bool = False
    width: int | None = None

    @classmethod
    def of(cls, stream: TextIO | None) -> Style:
        """Read the capabilities from a stream and the environment (``NO_COLOR``, ``TERM``, ``COLUMNS``)."""
        if stream is None or not stream.isatty():
            return cls()
        colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(colour, shutil.get_terminal_size().columns)

    def paint(self, text: str, *effects: str) -> str:
        r"""Paint text in ``bold``, ``dim``, ``red``, ``green``, ``yellow`` or ``cyan``, if the output has colour.

        Examples
        --------
        >>> Style(colour=True).paint("error:", "bold", "red")
        '\x1b[1;31merror:\x1b[0m'
        >>> Style().paint("error:", "bold", "red")
        'error:'
        """
        if not (self.colour and text and effects):
            return text
        return f"\x1b[{';'.join(_ESCAPES[effect] for effect in effects)}m{text}\x1b[0m"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    right : bool
        Align to the right (numbers).
    fold : str
        Breaks allowed in a narrow terminal: ``""`` none, ``words`` at spaces, ``anywhere`` between
        any two characters. Text is never cut off.
    effects : tuple of str
        Effects of ``Style.paint``.
    aside : bool
        Stay beside the other columns, however narrow the terminal is; else prose at the end goes below them.
    """

    title: str
    right: bool = False
    fold: str = ""
    effects: tuple[str, ...] = ()
    aside: bool = False


def numbers(*titles: str, fold: str = "") -> list[Column]:
    """Columns of numbers."""
    return [Column(title, right=True, fold=fold) for title in titles]


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], style: Style, *, indent: int = 0, whole: bool = False
) -> str:
    """Lay out rows under the titles of their columns; without titles there is no title line.

    Cells are converted with ``str``. Each line is indented by ``indent`` spaces. The text has no trailing spaces
    and no final newline.

    Examples
    --------
    >>> print(table([Column("layer", right=True), Column("producer")], [(0, "a/Add"), (10, "b/Add")], Style()))
    layer  producer
        0  a/Add
       10  b/Add
    """
    cells = [[visible(str(cell) if whole else shortened(str(cell))) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    spaces = indent + 2 * (len(columns) - 1)
    available = None if style.width is None else style.width - spaces
    widths = _widths(columns, [titles, *cells], available)
    shown = list(enumerate([titles, *cells]) if any(titles) else enumerate(cells, 1))
    if available is None or not _too_narrow(columns, widths, shown, available):
        return "\n".join(line for number, row in shown for line in _lines(columns, widths, row, number, style, indent))
    # The last cell of each row goes below the others.
    left = columns[:-1]
    widths = _widths(left, [row[:-1] for _, row in shown], available + 2)
    lines: list[str] = []
    for number, row in shown:
        lines += _lines(left, widths, row[:-1], number, style, indent)
        if row[-1]:
            below = _fold(row[-1], max(_NARROWEST, available + spaces - indent - _BELOW), columns[-1].fold)
            lines += [
                " " * (indent + _BELOW) + style.paint(piece, *(columns[-1].effects if number else ("bold",)))
                for piece in below
            ]
    return "\n".join(lines)


def _too_narrow(
    columns: Sequence[Column], widths: Sequence[int], rows: Sequence[tuple[int, Sequence[str]]], available: int
) -> bool:
    """True if a table of three columns or more does not fit, or leaves its prose at the end no room."""
    if len(columns) < 3 or columns[-1].fold != "words" or columns[-1].aside:
        return False
    if sum(widths) <= available and widths[-1] > _LONGEST_WORD:
        return False
    # Short prose may stand in a narrow column; names of the others are not broken for it.
    return any(_width(row[-1]) > _MOST_LINES * widths[-1] for _, row in rows)


def _lines(
    columns: Sequence[Column], widths: Sequence[int], row: Sequence[str], number: int, style: Style, indent: int
) -> Iterator[str]:
    """Lines of one row; row 0 has the titles."""
    folded = [_fold(text, width, column.fold) for text, width, column in zip(row, widths, columns, strict=True)]
    for depth in range(max(map(len, folded))):
        parts = []
        for pieces, width, column in zip(folded, widths, columns, strict=True):
            text = pieces[depth] if depth < len(pieces) else ""
            blank = " " * (width - _width(text))
            painted = style.paint(text, *(("bold",) if number == 0 else column.effects))
            parts.append(blank + painted if column.right else painted + blank)
        yield (" " * indent + "  ".join(parts)).rstrip()


def folded(text: str, style: Style) -> str:
    """Break the lines that are wider than the terminal between words; continuations keep the indentation.

    Escape sequences take no columns. A word that is wider than the terminal stays whole.
    """
    if style.width is None:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in _folded_line(line, style.width))


def _folded_line(line: str, width: int) -> Iterator[str]:
    if _width(_ESCAPE.sub("", line)) <= width:
        yield line
        return
    body = line.lstrip(" ")
    indent = " " * min(len(line) - len(body) + 2, width // 2)
    piece = line[: len(line) - len(body)]
    first = True
    for word in body.split(" "):
        longer = piece + word if first else f"{piece} {word}"
        if not first and _width(_ESCAPE.sub("", longer)) > width:
            yield piece.rstrip()
            longer = indent + word
        piece, first = longer, False
    yield piece.rstrip()


def paragraph(text: str, style: Style, indent: int = 0) -> str:
    """Fold prose at spaces."""
    return table([Column("", fold="words")], [[text]], style, indent=indent)


def _width(text: str) -> int:
    """Terminal columns of a text; ``len`` and ``textwrap`` ignore wide and combining characters."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], available: int | None) -> list[int]:
    """Width of each column, chosen so that a row fits if possible.

    Prose columns shrink first, down to their longest word; names are broken only if that is not enough.
    """
    texts = list(zip(*cells, strict=True))
    whole = [max(map(_width, column)) for column in texts]
    if available is None:
        return whole
    words = [max((_width(word) for text in column for word in text.split()), default=0) for column in texts]
    floors = [
        max(_NARROWEST, _width(column.title), word if column.fold == "words" else 0)
        for column, word in zip(columns, words, strict=True)
    ]
    prose = [i for i, column in enumerate(columns) if column.fold == "words"]
    foldable = [i for i, column in enumerate(columns) if column.fold]
    widths = _shrink(whole, floors, prose, available)
    if sum(widths) > available:
        widths = _shrink(whole, floors, foldable, available)
    if sum(widths) > available:
        widths = _shrink(widths, _last_floors(columns, texts), foldable, available)
    return widths


def _last_floors(columns: Sequence[Column], texts: Sequence[Sequence[str]]) -> list[int]:
    """Minimum widths in a terminal too narrow for the table: the longest word, also of the title."""
    prose = [
        (column.title, *(text if column.fold == "words" else ())) for column, text in zip(columns, texts, strict=True)
    ]
    words = [[_width(word) for text in column for word in text.split()] for column in prose]
    return [max([_NARROWEST, *(width for width in column if width <= _LONGEST_WORD)]) for column in words]


def _shrink(widths: Sequence[int], floors: Sequence[int], which: Sequence[int], available: int) -> list[int]:
    """Shrink the widest of some columns until the row fits or all of them are at their floors."""
    shrunk = list(widths)
    while sum(shrunk) > available and (giving := [i for i in which if shrunk[i] > floors[i]]):
        shrunk[max(giving, key=shrunk.__getitem__)] -= 1
    return shrunk


def _fold(text: str, width: int, how: str) -> list[str]:
    if _width(text) <= width or not how:
        return [text]
    pieces, line = [], ""
    for word in text.split(" ") if how == "words" else [text]:
        joined = f"{line} {word}" if line else word
        if _width(joined) <= width:
            line = joined
            continue
        if line:
            pieces.append(line)
        *whole, line = _broken(word, width)
        pieces += whole
    return [*pieces, line]


def _broken(word: str, width: int) -> list[str]:
    """Pieces of a long word; a name or path is broken after a separator, if that leaves the line half full."""
    pieces, line = [], ""
    for character in word:
        if _width(line + character) > width:
            cuts = [max(map(line.rfind, marks)) + 1 for marks in _SEPARATORS]
            cut = next((cut for cut in cuts if 2 * cut > len(line)), len(line))
            pieces.append(line[:cut])
            line = line[cut:]
        line += character
    return [*pieces, line]
