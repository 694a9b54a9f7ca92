"""Comparison of two exports as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from irtools.compare.differences import Comparison, PartDiff, RegionDiff
from irtools.report.compare_headline import headline
from irtools.report.compare_rows import Row, annotation_rows, comparison_rows, part_rows, part_title
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.terminal import Column, Style, paragraph, table

__all__ = ["comparison_json", "comparison_result", "comparison_text", "grouped"]


def comparison_text(comparison: Comparison, *, style: Style) -> str:
    """Comparison as text: the result in one sentence, then a table for each part."""
    most = 100 if style.width is None else min(style.width, 100)
    lines = [
        style.paint(paragraph(headline(comparison, most), style), "bold"),
        *(paragraph(f"not compared: {error}", style) for error in comparison.errors),
        table((Column("", effects=("bold",)), Column("", fold="anywhere")), _paths(comparison), style),
    ]
    general = comparison_rows(comparison)
    blocks = ["\n".join(lines), *(_parts(parts, style) for parts in grouped(comparison))]
    if general:
        blocks.append(_table(general, style))
    equal = [part.part for part in comparison.parts if _quiet(part) and not part.versions]
    if equal and len(comparison.parts) > 1 and not comparison.equal:
        blocks.append(paragraph(f"equal parts: {', '.join(equal)}", style))
    return "\n\n".join(blocks) + "\n"


def _paths(comparison: Comparison) -> list[tuple[str, str]]:
    return [("a", str(comparison.a)), ("b", str(comparison.b))]


def _quiet(part: PartDiff) -> bool:
    """True if a part has no rows, annotation, notes or error to show."""
    return part.error is None and not part_rows(part) and not part.annotation and not (part.notes or part.unread)


def grouped(comparison: Comparison) -> list[list[PartDiff]]:
    """Parts with something to show, grouped by what they show."""
    groups: dict[tuple[object, ...], list[PartDiff]] = {}
    for part in comparison.parts:
        if not _quiet(part):
            groups.setdefault((part.error, part_rows(part), part.annotation, part.notes, part.unread), []).append(part)
    return list(groups.values())


def _parts(parts: Sequence[PartDiff], style: Style) -> str:
    lines = [style.paint(paragraph(part_title(part), style), "bold") for part in parts]
    if parts[0].error is not None:
        return f"{lines[0]}\n{paragraph(f'not compared: {parts[0].error}', style, 2)}"
    lines += [paragraph(f"weights and small constants not compared: {fault}", style, 2) for fault in parts[0].unread]
    rows = part_rows(parts[0])
    lines += [_table(rows, style)] if rows else []
    if annotations := annotation_rows(parts[0]):
        columns = (Column("annotation of layer"), Column("a", fold="anywhere"), Column("b", fold="anywhere"))
        lines += [""] if rows else []
        lines.append(table(columns, annotations, style, indent=2))
    return "\n".join([*lines, *(paragraph(f"note: {note}", style, 2) for note in parts[0].notes)])


def _table(rows: Sequence[Row], style: Style) -> str:
    categories = ["", *(row.category for row in rows)]
    cells = [
        ("" if row.category == last else row.category, row.what, row.a, row.b)
        for last, row in zip(categories, rows, strict=False)
    ]
    sides = (Column("a", fold="words"), Column("b", fold="words", aside=True))
    columns = (Column("", effects=("cyan",)), Column("", fold="words"), *sides)
    return table(columns, cells, style, indent=2)


# -- JSON ----------------------------------------------------------------------------------


def comparison_json(comparison: Comparison, **_: object) -> str:
    """Comparison as JSON."""
    return to_json(envelope("diff", [comparison_result(comparison)]))


def comparison_result(comparison: Comparison, text: str = "") -> ModelResult:
    """Outcome of ``irtools diff``; ``text`` is the comparison in the format of the command."""
    status = "failed" if comparison.failures else "ok" if comparison.equal else "differs"
    error = "; ".join(comparison.failures) or None
    return ModelResult(str(comparison.a), status, comparison.exit_code, error, _details(comparison), text)


def _details(comparison: Comparison) -> dict[str, Any]:
    return {
        "other": str(comparison.b),
        "equal": comparison.equal,
        "headline": headline(comparison),
        "ignored": sorted(comparison.ignored),
        "differences": dict(comparison.counts),
        "only": _changes(comparison.only),
        "config": _changes((*comparison.config, *comparison.config_versions)),
        "files": _changes(comparison.files),
        "failures": list(comparison.failures),
        "parts": [_part_details(part) for part in comparison.parts],
    }


def _changes(changes: Iterable[Any]) -> list[dict[str, Any]]:
    return [asdict(change) for change in changes]


def _part_details(part: PartDiff) -> dict[str, Any]:
    return {
        "part": part.part,
        "files": {"a": str(part.a), "b": str(part.b)},
        "error": part.error,
        "equal": part.equal,
        "differences": dict(part.counts),
        "layers": {"a": part.layers_a, "b": part.layers_b},
        "ops": {"a": part.ops_a, "b": part.ops_b},
        **{
            name: _changes(getattr(part, name))
            for name in ("ports", "states", "rt_info", "versions", "compression", "names", "annotation")
        },
        "regions": [_region(diff) for diff in part.regions],
        "notes": list(part.notes),
        "unread": list(part.unread),
    }


def _region(diff: RegionDiff) -> dict[str, Any]:
    return {
        "kind": diff.region.kind,
        "layer": {"a": diff.region.a, "b": diff.region.b},
        "ops": {"a": diff.ops_a, "b": diff.ops_b},
        "removed": _changes(diff.removed),
        "added": _changes(diff.added),
        "changed": _changes(diff.changed),
        "weights": _changes(diff.weights),
        "renamed": diff.renamed,
    }
