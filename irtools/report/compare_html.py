"""Comparison as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from irtools.compare.differences import ComparedOp, Comparison, PartDiff, RegionDiff
from irtools.report.compare import grouped
from irtools.report.compare_headline import headline
from irtools.report.compare_rows import annotation_rows, comparison_rows, part_rows, part_title, region_text
from irtools.report.html_page import page
from irtools.text import shape_text

__all__ = ["comparison_html"]

_MOST_OPS = 2000


@dataclass(frozen=True, slots=True)
class _Line:
    """Line of the op list; ``sign`` is ``-``, ``+`` or ``~``."""

    sign: str
    region: str
    type: str
    name: str
    what: str
    a: str = ""
    b: str = ""


def comparison_html(comparison: Comparison, **_: object) -> str:
    """Write a page with the result in one sentence, a table for each part, and a list of the ops that opens."""
    verdict = "failed" if comparison.failures else "same" if comparison.equal else "different"
    return page(
        "compare.html",
        scripts=("page.js",),
        styles=("page.css", "compare.css"),
        title=f"{comparison.a.resolve().name} and {comparison.b.resolve().name}",
        sides=(("a", str(comparison.a)), ("b", str(comparison.b))),
        verdict=verdict,
        headline=headline(comparison),
        ignored=sorted(comparison.ignored),
        errors=comparison.errors,
        sections=[_section(parts) for parts in grouped(comparison)],
        general=comparison_rows(comparison),
        equal=[part.part for part in comparison.parts if part.equal],
    )


def _section(parts: list[PartDiff]) -> dict[str, object]:
    """Parts that show the same differences."""
    first = parts[0]
    lines = [line for diff in first.regions for line in _lines(diff)]
    return {
        "titles": list(map(part_title, parts)),
        "error": first.error,
        "rows": part_rows(first),
        "annotation": annotation_rows(first),
        "notes": first.notes,
        "lines": lines[:_MOST_OPS],
        "left_out": max(0, len(lines) - _MOST_OPS),
    }


def _lines(diff: RegionDiff) -> Iterator[_Line]:
    region = region_text([diff.region]) or "graph"
    for sign, ops in (("-", diff.removed), ("+", diff.added)):
        for op in ops:
            yield _Line(sign, region, op.type, _name(op), "only in a" if sign == "-" else "only in b")
    for changed in diff.changed:
        for change in changed.changes:
            a, b = ("-" if side is None else side for side in (change.a, change.b))
            yield _Line("~", region, changed.b.type, _names(changed.a, changed.b), change.what, a, b)
    for weight in diff.weights:
        what = "values" if weight.values else "weights"
        a = f"{weight.precision_a} {shape_text(weight.shape_a)}"
        b = "different values" if weight.values else f"{weight.precision_b} {shape_text(weight.shape_b)}"
        yield _Line("~", region, weight.a.type, _names(weight.a, weight.b), what, a, b)


def _name(op: ComparedOp) -> str:
    return f"{op.body}/{op.name}" if op.body else op.name


def _names(one: ComparedOp, other: ComparedOp) -> str:
    return _name(one) if _name(one) == _name(other) else f"{_name(one)} (in b: {_name(other)})"
