"""An atlas as a self-contained page: totals, and a table of exports that is filtered, sorted and opened there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from irtools.lint.rule import load_rules
from irtools.report.atlas_columns import COLUMNS, AtlasColumn, speed_up_text, totals
from irtools.report.atlas_files import frequent, note
from irtools.report.atlas_row import AtlasFinding, AtlasPart, AtlasRow, Measurement
from irtools.report.html_page import packed, page
from irtools.report.html_text import explanation_html
from irtools.report.record_figures import value_text
from irtools.report.rules import untitled
from irtools.text import count_text, joined, plural, shortened, size_text, visible

__all__ = ["atlas_html"]

_KINDS = {"bench": "benchmark", "proof": "proof"}


def atlas_html(rows: Sequence[AtlasRow], *, title: str = "", **_: object) -> str:
    """Write the page; the same rows make the same bytes.

    Parameters
    ----------
    title : str
        By default the number of exports in the atlas.
    """
    found = frequent(rows)
    used = {row[0] for row in found.rows}
    return page(
        "atlas.html",
        scripts=("page.js", "page-tools.js", "atlas.js"),
        styles=("page.css", "report.css", "atlas.css"),
        title=title or f"Atlas of {plural(len(rows), 'export')}",
        totals=totals(rows),
        note=_sentence(note(rows)),
        rules=found,
        explanations=[(r.code, r.title, explanation_html(untitled(r))) for r in load_rules() if r.code in used],
        rows=packed({"columns": list(map(_column, COLUMNS)), "rows": list(map(_packed, rows))}),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _column(column: AtlasColumn) -> dict[str, object]:
    return {
        "key": column.key,
        "title": column.title,
        "right": column.right,
        "choice": column.choices is not None,
        "numeric": column.value is not None,
    }


def _packed(row: AtlasRow) -> dict[str, object]:
    """What the script needs of a row: cells, numbers to sort by, and what the export opens to."""
    return {
        "c": [_safe(column.cell(row, page=True)) for column in COLUMNS],
        "f": [[*map(_safe, column.chosen_by(row))] for column in COLUMNS],
        "k": [column.value(row) if column.value is not None else None for column in COLUMNS],
        "w": row.worst,
        "m": {
            "error": _safe(row.error or ""),
            "pairs": [(_safe(name), _safe(text)) for name, text in _pairs(row) if text],
            "strategies": [(_safe(one.name), one.available, _safe(one.text)) for one in row.strategies],
            "findings": list(map(_finding, row.findings)),
            "left": _left(row),
        },
    }


def _safe(text: str) -> str:
    """Text for the page: without control characters, and without words that no exporter writes."""
    return visible(shortened(text))


def _finding(finding: AtlasFinding) -> tuple[str, ...]:
    place = f"{finding.file}, line {finding.line}" if finding.line is not None else finding.file
    hint = finding.hint[:1].upper() + finding.hint[1:]
    texts = (finding.code, place, finding.message, hint, finding.op)
    return str(finding.severity), *map(_safe, texts)


def _left(row: AtlasRow) -> str:
    left = sum(row.counts.values()) - len(row.findings)
    more = f"{left:,} more findings of these rules; irtools verify --format json lists all" if left else ""
    known = f"the baseline silences {plural(row.known, 'further finding')}" if row.known else ""
    return _sentence("; ".join(filter(None, (more, known))))


def _pairs(row: AtlasRow) -> Iterator[tuple[str, str]]:
    """Facts that the table has no room for."""
    yield "parts", "; ".join(map(_part, row.parts))
    yield "parameters", count_text(row.parameters) if row.parameters is not None else ""
    yield "layers", row.refusal
    yield "annotation", row.annotation_text
    yield "pipeline", " or ".join(row.pipelines)
    yield "memory", _memory(row)
    yield "made with", ", ".join(f"{program} {version}" for program, version in row.made_with.items())
    for one in row.measured:
        yield f"{_KINDS.get(one.kind, one.kind)} {one.date[:10]}".rstrip(), _measurement(one)
    for text in row.unmatched:
        yield "other record", text


def _part(part: AtlasPart) -> str:
    if part.error:
        return f"{part.name}: {part.error}"
    weights = size_text(part.bin_bytes) if part.bin_bytes is not None else "missing"
    return f"{part.name} (xml {size_text(part.xml_bytes or 0)}, bin {weights})"


def _memory(row: AtlasRow) -> str:
    memory = row.memory
    if memory is None:
        return ""
    drafting = f", {size_text(memory.drafting)} with MTP" if memory.drafting is not None else ""
    limit = f"; the model takes {memory.limit:,} tokens" if memory.limit is not None else ""
    conditions = f"context {memory.context:,}, keys and values in {memory.precision}"
    return f"about {size_text(memory.plain)}{drafting}: {conditions}{limit}"


def _measurement(one: Measurement) -> str:
    figures = []
    if one.acceptance is not None:
        figures.append(f"acceptance {value_text(one.acceptance, 'share')}")
    if one.speed_up is not None:
        figures.append(f"speed-up {speed_up_text(one)}")
    device = f"{one.device} ({one.device_name})" if one.device_name else one.device
    start = joined(figures) if figures else "no figures"
    return "; ".join(filter(None, (f"{one.row}: {start}", f"on {device}", one.result, one.file)))
