"""A comparison as one page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from irtools.compare.model import Change, Comparison, OpChange, OpRef, PartDiff, RegionDiff, WeightChange
from irtools.report.compare import grouped
from irtools.report.compare_headline import headline
from irtools.report.compare_rows import (
    Row,
    annotation_rows,
    comparison_rows,
    part_rows,
    part_title,
    region_text,
)
from irtools.report.html_page import page
from irtools.text import shape_text

__all__ = ["comparison_html"]

_MOST_OPS = 2000


@dataclass(frozen=True, slots=True)
class _Line:
    """One op of the full list: its sign, where it is, what it is."""

    sign: str
    region: str
    type: str
    name: str
    what: str
    a: str = ""
    b: str = ""


@dataclass(frozen=True, slots=True)
class _Section:
    """Parts that show the same."""

    titles: tuple[str, ...]
    error: str | None
    rows: tuple[Row, ...]
    annotation: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]
    lines: tuple[_Line, ...]
    left_out: int


def comparison_html(comparison: Comparison) -> str:
    """What differs: the answer first, a table for each part, and every op on demand.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
    """
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


def _section(parts: list[PartDiff]) -> _Section:
    first = parts[0]
    lines = tuple(line for diff in first.regions for line in _lines(diff))
    return _Section(
        tuple(map(part_title, parts)),
        first.error,
        part_rows(first),
        annotation_rows(first),
        first.notes,
        lines[:_MOST_OPS],
        max(0, len(lines) - _MOST_OPS),
    )


def _lines(diff: RegionDiff) -> Iterator[_Line]:
    region = region_text([diff.region]) or "graph"
    for sign, ops in (("-", diff.removed), ("+", diff.added)):
        for op in ops:
            yield _Line(sign, region, op.type, _name(op), "only in a" if sign == "-" else "only in b")
    for changed in diff.changed:
        yield from _changes(region, changed)
    for weight in diff.weights:
        yield _weight(region, weight)


def _changes(region: str, op: OpChange) -> Iterator[_Line]:
    for change in op.changes:
        yield _Line("~", region, op.b.type, _names(op.a, op.b), change.what, *_values(change))


def _values(change: Change) -> tuple[str, str]:
    return "-" if change.a is None else change.a, "-" if change.b is None else change.b


def _weight(region: str, weight: WeightChange) -> _Line:
    what = "numbers" if weight.values else "weights"
    sides = ((weight.precision_a, weight.shape_a), (weight.precision_b, weight.shape_b))
    one, other = (f"{precision} {shape_text(shape)}" for precision, shape in sides)
    return _Line(
        "~", region, weight.a.type, _names(weight.a, weight.b), what, one, "other numbers" if weight.values else other
    )


def _name(op: OpRef) -> str:
    return f"{op.body}/{op.name}" if op.body else op.name


def _names(one: OpRef, other: OpRef) -> str:
    return _name(one) if _name(one) == _name(other) else f"{_name(one)} (in b: {_name(other)})"
