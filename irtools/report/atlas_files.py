"""An atlas as text, JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence

from irtools.lint.finding import Severity
from irtools.lint.rule import load_rules
from irtools.model.decoding import STRATEGIES
from irtools.report.atlas_columns import COLUMNS, NOT_MEASURED, totals
from irtools.report.atlas_row import AtlasRow, Measurement
from irtools.report.html_tables import HtmlColumn, HtmlTable, number_columns, text_columns
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.markdown import escaped, markdown_table
from irtools.report.terminal import Column, Style, table
from irtools.text import plural, visible

__all__ = ["atlas_csv", "atlas_json", "atlas_markdown", "atlas_text", "frequent", "note"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that a spreadsheet takes for a formula, also in their wide forms."""
_FREQUENT = 10
"""Rules that the text lists."""


def note(rows: Sequence[AtlasRow]) -> str:
    """How the memory was estimated, as a sentence without full stop; ``""`` where nothing was."""
    if all(row.memory is None for row in rows):
        return ""
    return (
        "memory is estimated for GenAI on a CPU, at the context in tokens that the row names, with keys and values in "
        "the precision that the IR asks for, else in u8"
    )


def frequent(rows: Sequence[AtlasRow]) -> HtmlTable:
    """Rules with findings: how many exports have them, and how many findings there are; the most frequent first."""
    exports: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    for row in rows:
        exports.update(row.counts.keys())
        findings.update(row.counts)
    titles = {rule.code: (str(rule.severity), rule.title) for rule in load_rules()}
    ordered = sorted(exports, key=lambda code: (-exports[code], code))
    made = tuple((code, *titles.get(code, ("", "")), exports[code], findings[code]) for code in ordered)
    columns = (*text_columns("rule", "severity", "title"), *number_columns("exports", "findings"))
    return HtmlTable("Findings by rule", columns, made)


def atlas_text(rows: Sequence[AtlasRow], *, style: Style, **_: object) -> str:
    """A line for each export, the totals, the most frequent findings, and the failures with their reasons."""
    return "\n\n".join(filter(None, _blocks(rows, style))) + "\n" if rows else ""


def _short(rows: Sequence[AtlasRow], style: Style) -> tuple[list[Column], list[list[str]]]:
    """Columns and rows for a terminal; a narrow one has fewer columns."""
    shown = [one for one in COLUMNS if one.room and (style.width is None or style.width >= one.room)]
    columns = [Column(one.title, right=one.right, fold="" if one.right else "words", aside=True) for one in shown]
    return columns, [[one.cell(row, brief=True) for one in shown] for row in rows]


def _blocks(rows: Sequence[AtlasRow], style: Style) -> Iterator[str]:
    yield table(*_short(rows, style), style)
    yield table((Column("", effects=("dim",)), Column("", fold="words")), totals(rows), style)
    rules = frequent(rows).rows
    if rules:
        titled = [
            Column("rule"),
            Column("severity"),
            Column("exports", right=True),
            Column("findings", right=True),
            Column("title", fold="words"),
        ]
        chosen = [(code, severity, exports, found, title) for code, severity, title, exports, found in rules]
        more = len(chosen) - _FREQUENT
        text = table(titled, chosen[:_FREQUENT], style)
        yield f"{text}\nand {more} more rules" if more > 0 else text
    failed = [(row.path, row.error) for row in rows if row.error is not None]
    if failed:
        yield table((Column("failed", fold="anywhere"), Column("reason", fold="words")), failed, style)


def atlas_json(rows: Sequence[AtlasRow], *, exit_code: int = 0, **_: object) -> str:
    """The envelope of every command, with all facts of each row, and the totals."""
    entries = [ModelResult(row.path, row.status, error=row.error, details=row.details()) for row in rows]
    severities = {
        f"{severity}s": sum(row.severities.get(severity, 0) for row in rows)
        for severity in sorted(Severity, reverse=True)
    }
    summary = {
        **severities,
        "bytes": sum(row.size for row in rows),
        "rules": {str(code): exports for code, _, _, exports, _ in frequent(rows).rows},
        "exit_code": exit_code,
    }
    return to_json(envelope("atlas", entries, summary))


def atlas_markdown(rows: Sequence[AtlasRow], **_: object) -> str:
    """Totals, the table of exports, findings by rule, and the failures."""
    lines = [f"# Atlas of {plural(len(rows), 'export')}", ""]
    for title, text in totals(rows):
        lines.append(f"- {escaped(title)}: {escaped(text)}")
    lines.append("")
    columns = tuple(HtmlColumn(one.title, right=one.right) for one in COLUMNS)
    made = tuple(tuple(one.cell(row) for one in COLUMNS) for row in rows)
    said = note(rows)
    lines += markdown_table(HtmlTable("Exports", columns, made, (f"{said[0].upper()}{said[1:]}.",) if said else ()), 2)
    lines += markdown_table(frequent(rows), 2)
    failed = tuple((row.path, row.error) for row in rows if row.error is not None)
    if failed:
        lines += markdown_table(HtmlTable("Failures", text_columns("export", "reason"), failed), 2)
    return "\n".join(lines).rstrip() + "\n"


# -- CSV -------------------------------------------------------------------------------


def atlas_csv(rows: Sequence[AtlasRow], **_: object) -> str:
    """A line for each export, with numbers as numbers; no cell is a formula for a spreadsheet."""
    file = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows or [AtlasRow("")]:
        cells = dict(_cells(row))
        if writer is None:
            writer = csv.DictWriter(file, cells, lineterminator="\n")
            writer.writeheader()
        if rows:
            writer.writerow({name: _safe(value) for name, value in cells.items()})
    return file.getvalue()


def _safe(value: object) -> object:
    """A cell that a spreadsheet shows as it is, on one line."""
    if not isinstance(value, str):
        return "" if value is None else str(value).lower() if isinstance(value, bool) else value
    return f"'{visible(value)}" if value.lstrip(" ").startswith(_FORMULA) else visible(value)


def _cells(row: AtlasRow) -> Iterator[tuple[str, object]]:
    """Values of a row by the names of their columns, which are stable."""
    yield from (("path", row.path), ("status", row.status), ("error", row.error), ("role", row.role))
    yield from (("family", row.family), ("layers", row.layers), ("hidden_size", row.hidden_size))
    yield "bytes", row.size
    yield "parameters", row.parameters
    yield "parts", " ".join(part.name for part in row.parts)
    yield "unreadable_parts", " ".join(part.name for part in row.parts if part.error)
    yield from (("mtp_declared", row.mtp.declared), ("mtp_present", row.mtp.present), ("mtp_valid", row.mtp.valid))
    known = row.annotation not in ("", "unknown")
    yield "annotation_present", row.annotation != "absent" if row.annotation else None
    yield "annotation_as_located", row.annotation in ("present", "early") if known else None
    yield "annotation", row.annotation
    yield from (("target_weights", row.precision), ("lm_head_weights", row.lm_head_precision))
    yield "mtp_weights", row.mtp_precision
    yield "target_runtime", row.target_runtime
    ways = {strategy.name: strategy for strategy in row.strategies}
    for name in STRATEGIES:
        strategy = ways.get(name)
        state = None if strategy is None else "available" if strategy.available else "not available"
        yield name, state if strategy is None or not strategy.text else f"{state}: {strategy.text}"
    memory = row.memory
    yield "memory_context", memory.context if memory is not None else None
    yield "memory_kv_precision", memory.precision if memory is not None else None
    yield "memory_plain_bytes", memory.plain if memory is not None else None
    yield "memory_mtp_bytes", memory.drafting if memory is not None else None
    for severity in sorted(Severity, reverse=True):
        yield f"{severity}s", row.severities.get(severity, 0)
    yield "rules", " ".join(row.counts)
    yield "graft", row.graft
    yield from _figure("acceptance", row.acceptance)
    yield from _figure("speed_up", row.speed_up)


def _figure(name: str, found: Measurement | None) -> Iterator[tuple[str, object]]:
    yield name, getattr(found, name) if found is not None else NOT_MEASURED
    yield f"{name}_of", found.row if found is not None else None
    yield f"{name}_date", found.date if found is not None else None
    yield f"{name}_device", found.device if found is not None else None
    yield f"{name}_record", found.file if found is not None else None
