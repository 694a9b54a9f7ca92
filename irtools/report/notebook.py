"""HTML tables for notebooks: the ``_repr_html_`` methods of the Python objects."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from irtools.compare.differences import Comparison
from irtools.errors import IrtoolsError
from irtools.lint.engine import Verification
from irtools.lint.finding import Severity
from irtools.model.footprint import Footprint
from irtools.prove.run import Proof
from irtools.report.compare_headline import headline
from irtools.report.compare_rows import annotation_rows, comparison_rows, part_rows, part_title
from irtools.report.findings import counts_text, shown_path
from irtools.report.html_tables import HtmlTable, memory_table, number_columns, tables, text_columns
from irtools.report.inspection import Inspection
from irtools.text import visible

__all__ = ["html_of"]

_RIGHT = Markup(' style="text-align: right"')
_LEFT = Markup(' style="text-align: left"')


def html_of(shown: object) -> str | None:
    """Write an object as HTML tables for a notebook.

    Returns
    -------
    str or None
        None if the object has no tables, or a file cannot be read. The notebook then shows its ``repr``.
    """
    try:
        text = Markup("").join(map(_html, _tables(shown)))
    except IrtoolsError:
        return None
    # Lone surrogates stand for the bytes of a path that is not valid UTF-8.
    return text.encode("utf-8", "backslashreplace").decode("utf-8") or None


def _tables(shown: object) -> Iterator[HtmlTable]:
    if isinstance(shown, Verification):
        yield _findings(shown)
    elif isinstance(shown, Inspection):
        yield from tables(shown)
    elif isinstance(shown, Footprint):
        yield memory_table(shown)
    elif isinstance(shown, Proof):
        yield _steps(shown)
    elif isinstance(shown, Comparison):
        yield from _differences(shown)


def _findings(verification: Verification) -> HtmlTable:
    columns = (*text_columns("severity", "code", "file"), *number_columns("line"), *text_columns("finding"))
    rows = tuple(
        (
            finding.severity or Severity.ERROR,
            finding.code,
            shown_path(finding.file, verification.export.directory) if finding.file is not None else "",
            finding.line if finding.line is not None else "",
            finding.text,
        )
        for finding in verification.findings
    )
    title = f"{verification.export.path}: {counts_text([verification])}"
    strategies = [
        f"{one.name}: {'available' if one.available else 'not available'}{one.reason and f': {one.reason}'}"
        for one in verification.strategies
    ]
    return HtmlTable(title, columns, rows, tuple(strategies))


def _steps(proof: Proof) -> HtmlTable:
    columns = text_columns("step", "check", "status", "result")
    rows: list[tuple[object, ...]] = []
    for step in proof.steps:
        rows.append((step.name, "", step.status, step.why))
        rows += [("", check.name, check.status, check.why or check.saw) for check in step.checks]
    return HtmlTable(str(proof.export.path), columns, tuple(rows))


def _differences(comparison: Comparison) -> Iterator[HtmlTable]:
    columns = text_columns("category", "difference", "a", "b")
    title = f"{comparison.a} and {comparison.b}: {headline(comparison)}"
    general = [(row.category, row.what, row.a, row.b) for row in comparison_rows(comparison)]
    yield HtmlTable(title, columns, tuple(general), comparison.failures)
    for part in comparison.parts:
        if not part.equal:
            rows = [(row.category, row.what, row.a, row.b) for row in part_rows(part)]
            rows += [("annotation", f"layer {layer}", a, b) for layer, a, b in annotation_rows(part)]
            yield HtmlTable(part_title(part), columns, tuple(rows), part.notes)


def _html(table: HtmlTable) -> Markup:
    notes = Markup("").join(Markup("<p>{}</p>").format(visible(note)) for note in table.notes)
    title = Markup("<p><b>{}</b></p>").format(visible(table.title))
    if not table.rows:
        return title + notes
    sides = [_RIGHT if column.right else _LEFT for column in table.columns]
    head = Markup("").join(
        Markup("<th{}>{}</th>").format(side, column.title) for side, column in zip(sides, table.columns, strict=True)
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<td{}>{}</td>").format(side, visible(str(cell))) for side, cell in zip(sides, row, strict=True)
            )
        )
        for row in table.rows
    )
    return title + Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body) + notes
