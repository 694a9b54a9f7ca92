"""Result of a comparison in one or two sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from irtools.compare.differences import CATEGORIES, Comparison, PartDiff, RegionDiff
from irtools.model.graft import GRAFT_OUTPUT
from irtools.report.compare_rows import region_text, weight_rows
from irtools.text import plural

__all__ = ["headline"]


def headline(comparison: Comparison) -> str:
    """Summarise a comparison in one or two sentences, without full stop."""
    counts = comparison.counts
    if comparison.failures:
        return "the comparison is incomplete"
    if not counts:
        return "equal" + (" apart from the ignored differences" if comparison.ignored else "")
    words = [text for category, say in _SAYINGS.items() if category in counts for text in say(comparison)]
    rest = [category.replace("_", " ") for category in CATEGORIES if category in counts and category not in _SAYINGS]
    if rest == ["names"] and not words:
        return f"only names differ ({counts['names']}); the graphs are equal"
    if rest:
        words.append(f"{'also ' if words else ''}{', '.join(rest)}")
    if len(counts) == 1:
        return f"{words[0]}; everything else is equal"
    graph = {"ports", "states", "structure", "shapes"} & counts.keys()
    return "; ".join(words) + (_rest(comparison) if not graph else "")


def _rest(comparison: Comparison) -> str:
    """Clause about the graphs, if none of those compared differs."""
    if "parts" not in comparison.counts:
        return "; graph otherwise equal" if comparison.parts else ""
    models = [part.part for part in comparison.parts if "tokenizer" not in part.part]
    return f"; the graphs of {', '.join(models)} are equal" if models else "; no model is in both"


def _affected(comparison: Comparison, category: str) -> list[PartDiff]:
    return [part for part in comparison.parts if category in part.counts]


def _say_parts(comparison: Comparison) -> Iterator[str]:
    for side in ("a", "b"):
        names = [change.what for change in comparison.only if getattr(change, side) is not None]
        if names:
            yield f"only {side} has {', '.join(names)}"


def _say_states(comparison: Comparison) -> Iterator[str]:
    part = _affected(comparison, "states")[0]
    if part.states_a and part.states_b:
        yield f"states: {part.states_a} -> {part.states_b}" if part.states_a != part.states_b else "states differ"
    else:
        words = "stateful -> stateless" if part.states_a else "stateless -> stateful"
        yield f"{words}: {part.states_a} -> {part.states_b} states"


def _say_ports(comparison: Comparison) -> Iterator[str]:
    parts = _affected(comparison, "ports")
    for port in (port for part in parts for port in part.ports if port.what.endswith(GRAFT_OUTPUT)):
        rows = {side: text.rstrip("]").rpartition(",")[2] for side in ("a", "b") if (text := getattr(port, side))}
        yield "; ".join(f"{side} has a draft head over the first {count} tokens" for side, count in rows.items())
    changed = [change for part in parts for change in part.ports]
    totals = [
        (sum(change.a is None for change in changed), "added"),
        (sum(change.b is None for change in changed), "removed"),
        (sum(None not in (change.a, change.b) for change in changed), "changed"),
    ]
    yield f"ports: {_counted(totals)}{_others(parts)}"


def _say_structure(comparison: Comparison) -> Iterator[str]:
    parts = _affected(comparison, "structure")
    yield f"structure: {_edits(parts[0])}{_others(parts)}"


def _say_weights(comparison: Comparison) -> Iterator[str]:
    parts = _affected(comparison, "weights")
    yield f"weights: {_precisions(parts[0])}{_others(parts)}"


def _say_values(comparison: Comparison) -> Iterator[str]:
    yield f"different values in {plural(comparison.counts['values'], 'weight')}"


def _say_annotation(comparison: Comparison) -> Iterator[str]:
    part = _affected(comparison, "annotation")[0]
    layers = plural(len(part.annotation), "layer")
    if all(part.annotated):
        yield f"the annotation differs for {layers}"
    else:
        yield f"only {'a' if part.annotated[0] else 'b'} is annotated ({layers})"


_SAYINGS: dict[str, Callable[[Comparison], Iterator[str]]] = {
    "parts": _say_parts,
    "annotation": _say_annotation,
    "states": _say_states,
    "ports": _say_ports,
    "structure": _say_structure,
    "weights": _say_weights,
    "values": _say_values,
}


def _others(parts: Sequence[PartDiff]) -> str:
    return f" [{parts[0].part}; also {', '.join(part.part for part in parts[1:])}]" if len(parts) > 1 else ""


def _precisions(part: PartDiff) -> str:
    rows = list(weight_rows(part, values=False))
    if not rows:
        return "compression settings"
    words = [f"{rows[0].a} -> {rows[0].b} ({rows[0].what})"]
    words += [(f"{row.b}" if row.a == rows[0].a else f"{row.a} -> {row.b}") + f" ({row.what})" for row in rows[1:3]]
    return ", ".join(words) + (f" and {len(rows) - 3} other changes" if len(rows) > 3 else "")


def _edits(part: PartDiff) -> str:
    if part.layers_a != part.layers_b:
        return f"{part.layers_a} -> {plural(part.layers_b, 'layer')}"
    counts = [_counts(diff) for diff in part.regions]
    totals = zip(map(sum, zip(*counts, strict=True)), ("removed", "added", "changed"), strict=False)
    where = region_text([diff.region for diff, edits in zip(part.regions, counts, strict=True) if any(edits)])
    return f"ops {_counted(totals)}" + (f" in {where}" if where else "")


def _counts(diff: RegionDiff) -> tuple[int, int, int]:
    changed = sum(change.category == "structure" for change in diff.changed)
    return len(diff.removed), len(diff.added), changed


def _counted(totals: Iterable[tuple[int, str]]) -> str:
    return ", ".join(f"{number} {word}" for number, word in totals if number)
