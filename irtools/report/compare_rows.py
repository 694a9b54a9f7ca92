"""A comparison as rows for people: what differs, how it is in ``a`` and how in ``b``; like is put together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from irtools.compare.model import Change, Comparison, OpRef, PartDiff, Region, WeightChange
from irtools.text import plural, ranges, shape_text

__all__ = ["Row", "annotation_rows", "comparison_rows", "part_rows", "part_title", "region_text", "weight_rows"]

_MISSING = "-"
_LONGEST = 120
_MOST_KINDS = 3
_MOST_CHANGES = 6
_MOST_ENTRIES = 12
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Row:
    """One line.

    Attributes
    ----------
    category : str
    what : str
    a, b : str
        ``-`` where it is missing.
    """

    category: str
    what: str
    a: str
    b: str


def _side(text: str | None) -> str:
    """A value of one side; a very long one shortened in the middle."""
    if text is None:
        return _MISSING
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST * 3 // 4 - 5]} ... {text[-_LONGEST // 4 :]}"


# -- regions and layers ------------------------------------------------------------------


def region_text(regions: Sequence[Region]) -> str:
    """Some regions in a few words: ``inputs, layers 0-3, head``."""
    kinds = [region.kind for region in regions]
    words = ["inputs"] if "inputs" in kinds else []
    same = [region.a for region in regions if region.kind == "layer" and region.a is not None and region.a == region.b]
    moved = [region for region in regions if region.kind == "layer" and region.a != region.b]
    if same:
        words.append(f"layer{'s' if len(same) > 1 else ''} {ranges(same)}")
    words += [f"layer {region.a} (in b: {region.b})" for region in moved]
    words += ["head"] if "head" in kinds else []
    return ", ".join(words)


def _where(regions: Sequence[Region], what: str) -> str:
    text = region_text(regions)
    return f"{text}: {what}" if text else what


def _together(found: Iterable[tuple[tuple[str, ...], Region]]) -> Iterator[tuple[tuple[str, ...], list[Region]]]:
    """Put regions together that say the same."""
    groups: dict[tuple[str, ...], list[Region]] = {}
    for said, region in found:
        groups.setdefault(said, []).append(region)
    yield from groups.items()


# -- categories --------------------------------------------------------------------------


def _alike(changes: Iterable[Change]) -> Iterator[tuple[str, str | None, str | None]]:
    """Changes with names that differ in numbers alone, as one: ``past.0-3.key``."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in changes:
        groups.setdefault((_NUMBER.sub("#", change.what), change.a, change.b), []).append(change)
    for group in groups.values():
        numbers = [_NUMBER.findall(change.what) for change in group]
        columns = list(zip(*numbers, strict=True))
        varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
        # Numbers that do not grow together, such as those of layers and of experts, have no short form.
        if any(columns[place] != columns[varying[0]] for place in varying):
            yield from ((change.what, change.a, change.b) for change in group)
            continue
        pieces = _NUMBER.split(group[0].what)
        for place, number in enumerate(numbers[0]):
            text = ranges(map(int, columns[place])).replace(", ", ",") if place in varying else number
            pieces[place + 1] = text + pieces[place + 1]
        yield "".join(pieces), group[0].a, group[0].b


def _plain(category: str, changes: Iterable[Change]) -> Iterator[Row]:
    found = list(_alike(changes))
    for what, one, other in found[:_MOST_ENTRIES]:
        yield Row(category, what, _side(one), _side(other))
    if len(found) > _MOST_ENTRIES:
        yield Row(category, f"{len(found) - _MOST_ENTRIES} more", "", "")


def _structure(part: PartDiff) -> Iterator[Row]:
    alone = [diff.region for diff in part.regions if diff.region.one_sided]
    for (one, other), regions in _together(((region.text_a, region.text_b), region) for region in alone):
        missing = "a" if regions[0].a is None else "b"
        numbers = [layer for region in regions for layer in (region.a, region.b) if layer is not None]
        what = f"layer{'s' if len(numbers) > 1 else ''} {ranges(numbers)} (not in {missing})"
        yield Row("structure", what, _side(one or None), _side(other or None))
    edits = [((_types(diff.removed), _types(diff.added)), diff.region) for diff in part.regions]
    for (one, other), regions in _together(edits):
        if one or other:
            yield Row("structure", _where(regions, "unpaired ops"), _side(one or None), _side(other or None))
    yield from _changed(part, "structure")


def _types(ops: Sequence[OpRef]) -> str:
    counts = Counter(op.type for op in ops)
    return ", ".join(
        f"{number} {kind}" for kind, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def _changed(part: PartDiff, category: str) -> Iterator[Row]:
    """Ops that changed, those that changed in the same way put together; the rarest ways only counted."""
    counts: Counter[tuple[tuple[str, str, str], Region]] = Counter()
    for diff in part.regions:
        for op in diff.changed:
            if op.category == category:
                counts.update((_aspect(op.a, change), diff.region) for change in op.changes)
    groups: dict[tuple[str, str, str], list[tuple[Region, int]]] = {}
    for (aspect, region), number in counts.items():
        groups.setdefault(aspect, []).append((region, number))
    ordered = sorted(groups.items(), key=lambda item: -sum(number for _, number in item[1]))
    for said, places in ordered[:_MOST_CHANGES]:
        what, one, other = said
        number = sum(number for _, number in places)
        times = f" ({number} ops)" if number > 1 else ""
        yield Row(category, _where([region for region, _ in places], what) + times, one, other)
    rest = ordered[_MOST_CHANGES:]
    if rest:
        ops = sum(number for _, places in rest for _, number in places)
        yield Row(category, f"{plural(ops, 'more change')} of {plural(len(rest), 'other kind')}", "", "")


def _aspect(op: OpRef, change: Change) -> tuple[str, str, str]:
    # Where an input comes from is a name, and the same in no two layers.
    wired = change.what.startswith("input ")
    what = f"{op.type} reads another value" if wired else f"{op.type} {change.what}"
    return (what, "", "") if wired else (what, _side(change.a), _side(change.b))


def weight_rows(part: PartDiff, *, values: bool) -> Iterator[Row]:
    """Weights that differ in precision or shape, or those that differ in their numbers alone."""
    groups: dict[tuple[str, str], list[tuple[WeightChange, Region]]] = {}
    for diff in part.regions:
        for weight in diff.weights:
            if weight.values == values:
                groups.setdefault(_sides(weight), []).append((weight, diff.region))
    for (one, other), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield Row("values" if values else "weights", _roles(found), one, other)


def _sides(weight: WeightChange) -> tuple[str, str]:
    if weight.values:
        return "", "other numbers"
    if weight.precision_a == weight.precision_b:
        return shape_text(weight.shape_a), shape_text(weight.shape_b)
    if weight.shape_a == weight.shape_b:
        return weight.precision_a, weight.precision_b
    return f"{weight.precision_a} {shape_text(weight.shape_a)}", f"{weight.precision_b} {shape_text(weight.shape_b)}"


def _roles(found: Sequence[tuple[WeightChange, Region]]) -> str:
    """Which weights: ``28 MatMul in layers 0-3, embedding, head``."""
    named: dict[str, list[Region]] = {}
    counts: Counter[str] = Counter()
    for weight, region in found:
        role = weight.role if prod(weight.shape_a) > 1 else "scalar"
        named.setdefault(role, []).append(region)
        counts[role] += 1
    order = sorted(named, key=lambda role: (-counts[role], role))
    words = []
    for role in order[:_MOST_KINDS]:
        where = region_text(list(dict.fromkeys(named[role])))
        single = role in ("embedding", "head")
        words.append(role if single else f"{counts[role]} {role}" + (f" in {where}" if where else ""))
    rest = sum(counts[role] for role in order[_MOST_KINDS:] if role not in ("embedding", "head"))
    words += [role for role in order[_MOST_KINDS:] if role in ("embedding", "head")]
    return ", ".join([*words, *([f"{rest} of other ops"] if rest else [])])


_RECORDED = {"mode": "mode", "group_size": "group size", "ratio": "ratio", "backup_mode": "backup"}


def _compression(changes: Sequence[Change]) -> Iterator[Row]:
    """What compression recorded, on one line; entries of both sides in full."""
    one_sided = [change for change in changes if change.a is None or change.b is None]
    both = [change for change in changes if change.a is not None and change.b is not None]
    if one_sided:
        told = {change.what.rsplit("/", 1)[-1]: change for change in one_sided}
        sides = []
        for side in ("a", "b"):
            words = [
                f"{word} {value}" if word != "mode" else str(value)
                for key, word in _RECORDED.items()
                if key in told and (value := getattr(told[key], side)) is not None
            ]
            any_there = any(getattr(change, side) is not None for change in one_sided)
            sides.append(", ".join(words) or ("recorded" if any_there else _MISSING))
        yield Row("weights", "what compression recorded", *sides)
    yield from _plain("weights", both)


def _names(part: PartDiff) -> Iterator[Row]:
    ops = sum(diff.renamed for diff in part.regions)
    states = sum(change.what.startswith("state ") for change in part.names)
    words = [plural(number, noun) for number, noun in ((ops, "op"), (states, "state")) if number]
    if len(part.names) > states:
        words.append("the annotation, which means the same values")
    if words:
        yield Row("names", f"{' and '.join(words)} named otherwise, paired by structure", "", "")


def annotation_rows(part: PartDiff) -> tuple[tuple[str, str, str], ...]:
    """The annotations where they differ: layer, hidden state in ``a`` and in ``b``."""
    return tuple((change.layer or _MISSING, change.a or _MISSING, change.b or _MISSING) for change in part.annotation)


def part_rows(part: PartDiff) -> tuple[Row, ...]:
    """Everything that differs in one part, but for versions and the annotation."""
    rows = [
        *_plain("ports", part.ports),
        *_plain("states", part.states),
        *_structure(part),
        *_changed(part, "shapes"),
        *weight_rows(part, values=False),
        *_compression(part.compression),
        *weight_rows(part, values=True),
        *_plain("rt_info", part.rt_info),
        *_changed(part, "rt_info"),
        *_changed(part, "versions"),
        *_names(part),
    ]
    return tuple(rows)


def comparison_rows(comparison: Comparison) -> tuple[Row, ...]:
    """What differs outside the parts, and the versions of all of them."""
    shared: dict[tuple[str, str | None, str | None], list[str]] = {}
    for part in comparison.parts:
        for change in part.versions:
            shared.setdefault((change.what, change.a, change.b), []).append(part.part)
    for change in comparison.config_versions:
        shared.setdefault((change.what, change.a, change.b), []).append("config.json")
    versions = [
        Row(
            "versions",
            f"{what} ({names[0] if len(names) == 1 else plural(len(names), 'part')})",
            *map(_side, sides),
        )
        for (what, *sides), names in shared.items()
    ]
    return (
        *_plain("parts", comparison.only),
        *versions,
        *_plain("config", comparison.config),
        *_plain("files", comparison.files),
    )


def part_title(part: PartDiff) -> str:
    """What was compared: ``model: 4 layers, 184 ops without constants``."""
    if part.error is not None:
        return part.part
    layers = _both(part.layers_a, part.layers_b, "layer") if part.layers_a or part.layers_b else ""
    return f"{part.part}: " + ", ".join(
        filter(None, (layers, f"{_both(part.ops_a, part.ops_b, 'op')} without constants"))
    )


def _both(one: int, other: int, noun: str) -> str:
    return plural(one, noun) if one == other else f"{one} -> {plural(other, noun)}"
