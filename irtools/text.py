"""Words for numbers, sizes and shapes; plain text that is safe in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "clipped",
    "count_text",
    "cut",
    "did_you_mean",
    "given_fields",
    "is_url",
    "joined",
    "listed",
    "plural",
    "printable",
    "ranges",
    "shape_text",
    "short_repr",
    "shortened",
    "size_text",
    "visible",
    "whole_number",
]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

_WORD = 400
"""Longest word in a text; four times the longest names in exports."""
_FACT, _FACTS = 100, 250
"""Characters of one fact, and of all facts, in a short ``repr``."""


def plural(number: int, noun: str, *, grouped: bool = False) -> str:
    """Format a number with its noun; ``grouped`` writes large numbers as ``1,024``.

    Examples
    --------
    >>> plural(1, "layer"), plural(4, "layer"), plural(2, "entry"), plural(3, "process")
    ('1 layer', '4 layers', '2 entries', '3 processes')
    """
    stem = re.sub("(?<![aeiou])y$", "ie", noun)
    ending = "es" if stem.endswith(("s", "x", "ch", "sh")) else "s"
    return f"1 {noun}" if number == 1 else f"{number:{',' if grouped else ''}} {stem}{ending}"


def whole_number(text: str, *, digits: int = 18) -> int | None:
    """Integer of a text; None if it is anything but a number of ASCII digits, with a minus or without.

    All numbers of files are read with this function. ``int`` also reads digits of other scripts, underscores and
    spaces, and fails for thousands of digits.

    Parameters
    ----------
    digits : int
        Most digits of a number. With 18 it fits into the 64 bits that the runtime has for it.

    Examples
    --------
    >>> whole_number("-12"), whole_number("1_2"), whole_number("٣"), whole_number("9" * 5000)
    (-12, None, None, None)
    """
    number = text.removeprefix("-")
    return int(text) if number.isascii() and number.isdecimal() and len(number) <= digits else None


def clipped(text: str, most: int = 80) -> str:
    """Leave out the middle of a long value, and add its length.

    Examples
    --------
    >>> clipped("9" * 5000, 12)
    '999...999999 (5,000 characters)'
    """
    return text if len(text) <= most else f"{cut(text, most)} ({len(text):,} characters)"


def joined(items: Iterable[object]) -> str:
    """Format items with commas, and ``and`` before the last.

    Examples
    --------
    >>> joined([1]), joined([1, 2, 3])
    ('1', '1, 2 and 3')
    """
    *others, last = map(str, items)
    return f"{', '.join(others)} and {last}" if others else last


def listed(items: Sequence[str], most: int = 3, separator: str = "; ") -> str:
    """Format the first few items and the number of the remaining ones.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    'a; b; and 1 more'
    """
    more = [f"and {len(items) - most} more"] if len(items) > most else []
    return separator.join([*items[:most], *more])


def ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges.

    Examples
    --------
    >>> ranges([0, 1, 2, 4, 5, 6, 9])
    '0-2, 4-6, 9'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def size_text(size: float) -> str:
    """Format a number of bytes in a unit that fits.

    Examples
    --------
    >>> size_text(210218), size_text(17), size_text(8 * 2**30)
    ('205 KiB', '17 B', '8.00 GiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    step = 0
    while size >= 1000 and step < len(units) - 1:
        size /= 1024
        step += 1
    if step == 0:
        return f"{size:.0f} B"
    return f"{size:.{0 if size >= 100 else 1 if size >= 10 else 2}f} {units[step]}"


def count_text(count: int) -> str:
    """Format a large count with three digits.

    Examples
    --------
    >>> count_text(950), count_text(12_345_678), count_text(8_030_261_248)
    ('950', '12.3 M', '8.03 B')
    """
    if count < 1000:
        return str(count)
    step = 0
    value = float(count)
    while value >= 999.5 and step < 4:
        value, step = value / 1000, step + 1
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} {' kMBT'[step]}"


def shape_text(shape: Iterable[int]) -> str:
    """Format a shape as OpenVINO prints it.

    Examples
    --------
    >>> shape_text((-1, -1, 32))
    '[?,?,32]'
    """
    return "[" + ",".join("?" if size < 0 else str(size) for size in shape) + "]"


def visible(text: str) -> str:
    r"""Escape control characters, which would steer the terminal.

    Examples
    --------
    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or 0xD800 <= ord(c) < 0xE000 else ascii(c)[1:-1] for c in text)


def shortened(text: str, most: int = _WORD) -> str:
    """Leave out the middle of words longer than ``most``, and of a text longer than ten times that.

    Examples
    --------
    >>> shortened("the op " + "abcdefghij" * 2000, 20)
    'the op abcdefg...abcdefghij'
    """
    if len(text) <= most:
        return text
    return cut(_short_words(text, most), 10 * most)


def _short_words(text: str, most: int) -> str:
    return re.sub(rf"\S{{{most + 1},}}", lambda match: cut(match[0], most), text)


_KEPT = r"\r?\n|\t"
_STYLED = rf"{_KEPT}|\x1b\[(?:0|[12](?:;3[1-6])?|3[1-6])m"
_COMMANDS = re.compile(r"##(?=\[|vso\[)|^[^\S\n]*:(?=:)", re.MULTILINE)
"""Starts of workflow commands, which the runner of GitHub or Azure obeys in the output of a step."""
_REFERENCES = {"text": r"\x{:02x}", "json": r"\u{:04x}", "html": "&#{};", "xml": "&#{};"}


def printable(text: str, form: str = "text", *, styled: bool = False, runner: bool = False, whole: bool = False) -> str:
    r"""Escape what would steer the reader of a text: control and bidirectional characters, workflow commands.

    Everything that irtools prints goes through it, so that no name in an export reaches a terminal or log as it is.
    Lines, tabs and carriage returns at line ends stay.

    Parameters
    ----------
    form : str
        ``text``, ``github`` (workflow commands of its own), ``json``, ``xml`` or ``html``, which decides how a
        character is escaped. The values on an HTML page are escaped when it is made.
    styled : bool
        True to keep the colours of :class:`irtools.report.terminal.Style`.
    runner : bool
        True if a CI runner reads the text.
    whole : bool
        True to keep words of any length, as a diff needs; else names that no exporter writes are cut.

    Examples
    --------
    >>> printable("a\x1b[2Jb\n"), printable("::error::x", runner=True)
    ('a\\x1b[2Jb\n', '\\x3a:error::x')
    """
    if form == "text" and not whole:
        text = _short_words(text, _WORD)
    if form in _PLAIN and not _SAFE.fullmatch(text):
        pieces = re.split(f"({_STYLED if styled else _KEPT})", text)
        text = "".join(piece if number % 2 else visible(piece) for number, piece in enumerate(pieces))
    elif form in _CODED and not _SAFE.fullmatch(text):
        text = _INVISIBLE.sub(lambda match: _REFERENCES[form].format(ord(match[0])), text)
    if runner and form != "github":
        reference = _REFERENCES.get(form, _REFERENCES["text"])
        text = _COMMANDS.sub(lambda match: match[0][:-1] + reference.format(ord(match[0][-1])), text)
    return text


_PLAIN, _CODED = ("text", "github"), ("json", "xml")
_INVISIBLE = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
_SAFE = re.compile("[\n\t -~]*")


def did_you_mean(word: str, known: Iterable[str], *, most: int = 1) -> str:
    """Suggest known words for a misspelt one; empty if none is close.

    Examples
    --------
    >>> did_you_mean("locat", ["locate", "verify"])
    "Did you mean 'locate'?"
    """
    from difflib import get_close_matches  # imported late: few commands need it

    close = get_close_matches(word, list(known), most)
    return f"Did you mean {', '.join(map(repr, close))}?" if close else ""


def short_repr(shown: object, *facts: str) -> str:
    """Format an object for its ``repr``: on one line, with at most 300 characters.

    Parameters
    ----------
    *facts : str
        Facts that identify the object; empty ones are left out.

    Examples
    --------
    >>> short_repr(ValueError(), "fixtures/falcon", "", "2 notes")
    '<ValueError fixtures/falcon, 2 notes>'
    """
    text = ", ".join(cut(visible(fact), _FACT) for fact in facts if fact)
    return f"<{type(shown).__name__} {cut(text, _FACTS)}>" if text else f"<{type(shown).__name__}>"


def given_fields(shown: DataclassInstance) -> Iterator[str]:
    """Format the fields of a dataclass whose values are not the defaults, for its ``repr``."""
    for entry in fields(shown):
        value = getattr(shown, entry.name)
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        if value != default:
            yield f"{entry.name}={value!r}"


def is_url(text: object) -> bool:
    """True for a text that begins with a scheme and ``://``, whether irtools can read it or not."""
    return isinstance(text, str) and _URL.match(text) is not None


def cut(text: str, most: int) -> str:
    """Leave out the middle of a long text."""
    return text if len(text) <= most else f"{text[: most // 2 - 3]}...{text[-most // 2 :]}"
