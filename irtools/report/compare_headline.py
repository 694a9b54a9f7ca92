"""Result of a comparison on one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from irtools.compare.differences import CATEGORIES, Comparison, PartDiff, RegionDiff
from irtools.model.graft import GRAFT_OUTPUT
from irtools.report.compare_rows import changed_rows, region_text
from irtools.text import plural

__all__ = ["headline"]

_MOST = 100
_SHORT = 24
"""Characters of both values of a change that are told in the line."""


def headline(comparison: Comparison, most: int = _MOST) -> str:
    """Summarise a comparison on one line, without full stop.

    Parameters
    ----------
    most : int
        Characters of the line. Only a single long statement, such as the name of an op, makes it longer.
    """
    unread = sorted({part.part for part in comparison.parts if part.unread})
    failed = [part.part for part in comparison.parts if part.error is not None]
    failed += ["other files"] if comparison.errors else []
    incomplete = [f"weights of {', '.join(unread)} not compared"] if unread else []
    incomplete += [f"{', '.join(failed)} not compared"] if failed else []
    told = _told(comparison)
    if incomplete:
        return _fitted([*((text, "") for text in incomplete), *(told or [("everything else is equal", "")])], most)
    if not told:
        return "equal" + (" apart from the ignored differences" if comparison.ignored else "")
    return _fitted(told, most)


_Statement = tuple[str, str]
"""Text, and the word that can stand for it; without a word, it is left out if the line is full."""


def _told(comparison: Comparison) -> list[_Statement]:
    """Statements on the differences, the most important ones first."""
    counts = comparison.counts
    if not counts:
        return []
    words = [(text, category) for category, say in _SAYINGS.items() if category in counts for text in say(comparison)]
    rest = [category for category in CATEGORIES if category in counts and category not in _SAYINGS]
    if rest == ["names"] and not words:
        return [(f"only names differ ({counts['names']}); the graphs are equal", "names")]
    if not words and len(rest) == 1:
        words, rest = [(rest[0].replace("_", " "), rest[0])], []
    words += [("", category) for category in rest]
    if len(counts) == 1:
        return [words[0], ("everything else is equal", "")]
    graph = {"ports", "states", "structure", "shapes"} & counts.keys()
    return [*words, *([(clause, "")] if not graph and (clause := _rest(comparison)) else [])]


def _fitted(told: Sequence[_Statement], most: int) -> str:
    """Join statements; of those that do not fit on the line, only the words are told."""
    texts = [text for text, _ in told if text]
    text = ""
    for count in range(len(texts), 0, -1):
        kept = texts[:count]
        kinds = [word for text, word in told if word and text not in kept]
        also = f"also {', '.join(dict.fromkeys(kinds))}".replace("_", " ")
        text = "; ".join([*kept, *([also] if kinds else [])])
        if len(text) <= most:
            break
    if text:
        return text
    return ", ".join(word for _, word in told).replace("_", " ")


def _rest(comparison: Comparison) -> str:
    """Clause about the graphs, if none of those compared differs."""
    if "parts" not in comparison.counts:
        return "graph otherwise equal" if comparison.parts else ""
    models = [part.part for part in comparison.parts if "tokenizer" not in part.part]
    return f"the graphs of {', '.join(models)} are equal" if models else "no model is in both"


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
    yield f"{_edits(parts[0])}{_others(parts)}"


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
    more = [part.part for part in parts[1:]]
    others = f"also {', '.join(more)}" if len(more) < 3 else f"also {plural(len(more), 'other part')}"
    return f" [{parts[0].part}; {others}]" if more else ""


def _precisions(part: PartDiff) -> str:
    """Precisions of weights, without shapes: ``f32 -> u4 asymmetric (28 MatMul), u8 (embedding, head)``."""
    changes = [weight for diff in part.regions for weight in diff.weights if not weight.values]
    kinds = Counter((_short(weight.precision_a), _short(weight.precision_b)) for weight in changes)
    kinds = Counter({kind: number for kind, number in kinds.items() if kind[0] != kind[1]})
    if not kinds:
        return f"{plural(len(changes), 'weight')} of another shape or grouping" if changes else "compression settings"
    ((before, after), number), *others = kinds.most_common()
    words = [f"{before} -> {after} ({number})"]
    words += [f"{b if a == before else f'{a} -> {b}'} ({count})" for (a, b), count in others[:2]]
    return ", ".join(words) + (f", {plural(len(others) - 2, 'other change')}" if len(others) > 2 else "")


def _short(precision: str) -> str:
    return precision.partition(",")[0]


def _edits(part: PartDiff) -> str:
    if part.layers_a != part.layers_b:
        return f"structure: {part.layers_a} -> {plural(part.layers_b, 'layer')}"
    counts = [_counts(diff) for diff in part.regions]
    removed, added, changed = map(sum, zip(*counts, strict=True))
    if changed and not (removed or added):
        rows = list(changed_rows(part, "structure", most=2))
        if len(rows) == 1:  # one kind of change
            short = len(rows[0].a) + len(rows[0].b) <= _SHORT and rows[0].a and "exchanged" not in rows[0].what
            return rows[0].what + (f" {rows[0].a} -> {rows[0].b}" if short else "")
    where = region_text([diff.region for diff, edits in zip(part.regions, counts, strict=True) if any(edits)])
    where = f" in {where}" if where else ""
    if removed + added == 1 and not changed:
        (op,) = [op for diff in part.regions for op in (*diff.removed, *diff.added)]
        return f"structure: {op.type} {op.name} {'added' if added else 'removed'}{where}"
    first = removed or added or changed
    others = _counted(((removed, "removed"), (added, "added"), (changed, "changed"))).removeprefix(str(first))
    return f"structure: {plural(first, 'op')}{others}{where}"


def _counts(diff: RegionDiff) -> tuple[int, int, int]:
    changed = sum(change.category == "structure" for change in diff.changed)
    return len(diff.removed), len(diff.added), changed


def _counted(totals: Iterable[tuple[int, str]]) -> str:
    return ", ".join(f"{number} {word}" for number, word in totals if number)
