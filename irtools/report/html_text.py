"""Explanation of a rule as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from markupsafe import Markup, escape

from irtools.report.rules import headed_lines

__all__ = ["explanation_html", "literals"]

_BULLET = re.compile(r"[-*] ")
_CODE = re.compile(r"``(.+?)``|`(.+?)`")


def explanation_html(text: str) -> Markup:
    r"""Convert the paragraphs, underlined headings, lists and literals of a docstring to escaped HTML.

    Written by hand because the rules need only these four forms, and docutils would be a further dependency.

    Examples
    --------
    >>> print(explanation_html("Source\n------\nThe <b> of ``a``."))
    <h4>Source</h4><p>The &lt;b&gt; of <code>a</code>.</p>
    """
    return Markup("").join(_blocks(text))


def _blocks(text: str) -> Iterator[Markup]:
    paragraph: list[str] = []
    for line, heading in [*headed_lines(text), ("", False)]:
        if line.strip() and not heading:
            paragraph.append(line)
            continue
        yield from _paragraph(paragraph)
        paragraph = []
        if heading:
            yield Markup("<h4>{}</h4>").format(line)


def _paragraph(lines: list[str]) -> Iterator[Markup]:
    """Paragraph, or list if lines begin with a dash; the lines that follow a dash continue its item."""
    if not lines:
        return
    number, items = 0, []
    for line in lines:
        number += bool(_BULLET.match(line.lstrip()))
        items.append((number, line.strip()))
    for item, some in groupby(items, key=lambda pair: pair[0]):
        text = " ".join(line for _, line in some)
        form = Markup("<p class=item>{}</p>") if item else Markup("<p>{}</p>")
        yield form.format(literals(text[2:] if item else text))


def literals(text: str) -> Markup:
    """Escape a text, and set what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1\2</code>", str(escape(text))))  # escaping leaves the backticks
