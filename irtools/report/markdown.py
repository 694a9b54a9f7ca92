"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from irtools.report.html_tables import HtmlTable
from irtools.text import visible

__all__ = ["escaped", "markdown_table"]


def markdown_table(table: HtmlTable, level: int) -> Iterator[str]:
    """Lines of a table with its title as a heading and its notes below."""
    yield f"{'#' * level} {table.title}"
    yield ""
    if table.rows:
        yield _line(column.title for column in table.columns)
        yield _line("---:" if column.right else "---" for column in table.columns)
        for row in table.rows:
            yield _line(map(escaped, row))
        yield ""
    for note in table.notes:
        yield escaped(note)
        yield ""


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(value: object) -> str:
    """Text that Markdown shows as it is: names come from files that anybody may have written."""
    text = visible(str(value))
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return text
