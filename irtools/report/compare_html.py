"""Comparison as a self-contained HTML page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

from irtools.compare.differences import ComparedOp, Comparison, PartDiff, RegionDiff
from irtools.errors import RenderError
from irtools.render.changes import draw_changes
from irtools.report.compare import grouped
from irtools.report.compare_headline import headline
from irtools.report.compare_rows import annotation_rows, comparison_rows, part_rows, part_title, region_text
from irtools.report.html_page import page
from irtools.text import shape_text

__all__ = ["comparison_html"]

_MOST_OPS = 2000
_MAPPED = ("structure", "shapes", "weights", "values", "names")
_MOST_REGIONS = 400


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
        "notes": (*first.notes, *(f"weights and small constants not compared: {fault}" for fault in first.unread)),
        "map": _map(first),
        **_picture(first),
        "lines": lines[:_MOST_OPS],
        "left_out": max(0, len(lines) - _MOST_OPS),
    }


def _map(part: PartDiff) -> dict[str, object]:
    """Numbers of differences by category and region of the graph, and the share of the ops that they concern."""
    regions = [diff for diff in part.regions if diff.ops_a or diff.ops_b][:_MOST_REGIONS]
    rows = []
    for category in _MAPPED:
        counts = [_count(diff, category) for diff in regions]
        if any(counts):
            cells = [
                (count, min(4, 1 + 4 * count // max(diff.ops_a, diff.ops_b, 1)) if count else 0)
                for count, diff in zip(counts, regions, strict=True)
            ]
            rows.append((category, cells))
    return {"titles": [_title(diff) for diff in regions], "rows": rows if len(regions) > 1 else []}


def _count(diff: RegionDiff, category: str) -> int:
    changed = sum(change.category == category for change in diff.changed)
    match category:
        case "structure":
            return changed + len(diff.removed) + len(diff.added) + max(diff.ops_a, diff.ops_b) * diff.region.one_sided
        case "weights" | "values":
            return sum(weight.values == (category == "values") for weight in diff.weights)
        case "names":
            return diff.renamed
    return changed


def _title(diff: RegionDiff) -> str:
    region = diff.region
    if region.kind != "layer":
        return region.kind
    if region.one_sided:
        return f"{region.b if region.a is None else region.a} (only {'b' if region.a is None else 'a'})"
    return str(region.a) if region.a == region.b else f"{region.a}/{region.b}"


def _picture(part: PartDiff) -> dict[str, object]:
    """SVG of the changed ops; the reason if it cannot be drawn."""
    near = part.surroundings
    if not near.ops:
        return {"picture": "", "no_picture": ""}
    ops = tuple((op.key, op.name, op.type, op.side, op.changes) for op in near.ops)
    edges = tuple((edge.tail, edge.head, edge.input, edge.side) for edge in near.edges)
    try:
        drawn = draw_changes(f"{part.part}: what changed", ops, edges, left_out=near.left_out)
    except RenderError as error:
        return {"picture": "", "no_picture": str(error)}
    # As an image, its styles need no exception from the policy of the page, and its texts are inert.
    return {"picture": f"data:image/svg+xml;base64,{b64encode(drawn).decode()}", "no_picture": ""}


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
