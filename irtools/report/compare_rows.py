"""Comparison as rows: what differs, and its values in ``a`` and ``b``; similar differences share a row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from irtools.anatomy.describe import layers_text
from irtools.compare.differences import (
    ComparedOp,
    Comparison,
    Difference,
    OpChange,
    PartDiff,
    RegionDiff,
    RegionPair,
    WeightChange,
)
from irtools.text import plural, ranges, shape_text

__all__ = [
    "Row",
    "annotation_rows",
    "changed_rows",
    "comparison_rows",
    "part_rows",
    "part_title",
    "region_text",
    "weight_rows",
]

_MISSING = "-"
_SINGLE = ("embedding", "head")
_LONGEST = 120
_MOST_KINDS = 3
_MOST_CHANGES = 6
_MOST_ENTRIES = 12
_NUMBER = re.compile(r"\d+")
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Row:
    """One line; ``a`` and ``b`` are ``-`` where the value is missing."""

    category: str
    what: str
    a: str
    b: str


def _side(text: str | None) -> str:
    """Value of one side; the middle of a very long value is left out."""
    if text is None:
        return _MISSING
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST * 3 // 4 - 5]} ... {text[-_LONGEST // 4 :]}"


# -- regions and layers ------------------------------------------------------------------


def region_text(regions: Sequence[RegionPair]) -> str:
    """Short description of regions: ``inputs, layers 0-3, head``."""
    kinds = [region.kind for region in regions]
    words = ["inputs"] if "inputs" in kinds else []
    same = [region.a for region in regions if region.kind == "layer" and region.a is not None and region.a == region.b]
    moved = [region for region in regions if region.kind == "layer" and region.a != region.b]
    if same:
        words.append(layers_text(same))
    words += [f"layer {region.a} (in b: {region.b})" for region in moved]
    words += ["head"] if "head" in kinds else []
    return ", ".join(words)


def _where(regions: Sequence[RegionPair], what: str) -> str:
    text = region_text(regions)
    return f"{text}: {what}" if text else what


def _grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Values by key, in order of first appearance."""
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


# -- categories --------------------------------------------------------------------------


def _alike(changes: Iterable[Difference]) -> Iterator[tuple[str, str | None, str | None]]:
    """Merge changes whose names differ only in numbers: ``past.0-3.key``."""
    for group in _grouped(((_NUMBER.sub("#", change.what), change.a, change.b), change) for change in changes).values():
        numbers = [_NUMBER.findall(change.what) for change in group]
        columns = list(zip(*numbers, strict=True))
        varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
        # If several numbers vary independently, such as layer and expert, there is no short form.
        if any(columns[place] != columns[varying[0]] for place in varying):
            yield from ((change.what, change.a, change.b) for change in group)
            continue
        pieces = _NUMBER.split(group[0].what)
        for place, number in enumerate(numbers[0]):
            text = ranges(map(int, columns[place])).replace(", ", ",") if place in varying else number
            pieces[place + 1] = text + pieces[place + 1]
        yield "".join(pieces), group[0].a, group[0].b


def _plain(category: str, changes: Iterable[Difference]) -> Iterator[Row]:
    merged = list(_alike(changes))
    for what, one, other in merged[:_MOST_ENTRIES]:
        yield Row(category, what, _side(one), _side(other))
    if len(merged) > _MOST_ENTRIES:
        yield Row(category, f"{len(merged) - _MOST_ENTRIES} more", "", "")


def _structure(part: PartDiff) -> Iterator[Row]:
    alone = [diff.region for diff in part.regions if diff.region.one_sided]
    for (one, other), regions in _grouped(((region.text_a, region.text_b), region) for region in alone).items():
        missing = "a" if regions[0].a is None else "b"
        numbers = [layer for region in regions for layer in (region.a, region.b) if layer is not None]
        yield Row("structure", f"{layers_text(numbers)} (not in {missing})", _side(one or None), _side(other or None))
    edits = [((_types(diff.removed), _types(diff.added)), diff) for diff in part.regions]
    for (one, other), diffs in _grouped(edits).items():
        if one or other:
            sides = _named(one, diffs[0].removed, diffs), _named(other, diffs[0].added, diffs)
            regions = [diff.region for diff in diffs]
            yield Row("structure", _where(regions, "unpaired ops"), *(_side(side or None) for side in sides))
    yield from changed_rows(part, "structure")


def _named(types: str, ops: Sequence[ComparedOp], diffs: Sequence[RegionDiff]) -> str:
    """The type and name of the only op; else the types."""
    return f"{ops[0].type} {ops[0].name}" if len(ops) == 1 and len(diffs) == 1 else types


def _types(ops: Sequence[ComparedOp]) -> str:
    counts = Counter(op.type for op in ops)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number} {kind}" for kind, number in ordered)


def changed_rows(part: PartDiff, category: str, most: int = _MOST_CHANGES) -> Iterator[Row]:
    """Changed ops, grouped by the change; the rarest are only counted, and a change of one op is told with its name."""
    groups = _grouped(
        (_aspect(op, change), (diff.region, op, change))
        for diff in part.regions
        for op in diff.changed
        if op.category == category
        for change in op.changes
    )
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for (what, one, other), places in ordered[:most]:
        if len(places) == 1:
            ((_, op, change),) = places
            wired = change.what.startswith("input ")
            said = f"{change.what} reads another value" if wired else change.what
            name = f"{op.b.body}/{op.b.name}" if op.b.body else op.b.name
            texts = (change.a, change.b)
            sides = _within(op.b.name, *texts) if change.what.startswith("input") else texts
            yield Row(category, f"{name}: {said}", *map(_side, sides))
        else:
            regions = list(dict.fromkeys(region for region, _, _ in places))
            yield Row(category, f"{_where(regions, what)} ({plural(len(places), 'op')})", one, other)
    rest = ordered[most:]
    if rest:
        ops = sum(len(places) for _, places in rest)
        yield Row(category, f"{plural(ops, 'more change')} of {plural(len(rest), 'other kind')}", "", "")


def _within(name: str, *sides: str | None) -> tuple[str | None, ...]:
    """Names of producers without the scope that all of them share with the op that reads them."""
    names = [name, *(one for side in sides if side is not None for one in side.split(", "))]
    depth = 0
    while len({name.split("/")[depth] for name in names}) == 1 and all(name.count("/") > depth for name in names):
        depth += 1
    scope = "".join(f"{one}/" for one in names[0].split("/")[:depth])
    return tuple(side and side.replace(scope, ".../") if scope else side for side in sides)


def _aspect(op: OpChange, change: Difference) -> tuple[str, str, str]:
    # The producer of an input is a name that differs between layers, so it would prevent grouping.
    if change.what.startswith("inputs "):
        return f"{op.b.type}: {change.what}", "", ""
    if change.what.startswith("input "):
        return f"{op.b.type} reads a different value", "", ""
    return f"{op.a.type} {change.what}", _side(change.a), _side(change.b)


def weight_rows(part: PartDiff, *, values: bool) -> Iterator[Row]:
    """Weights that differ in precision or shape or, with ``values``, only in their values."""
    groups = _grouped(
        (_sides(weight), (weight, diff.region))
        for diff in part.regions
        for weight in diff.weights
        if weight.values == values
    )
    for (one, other), weights in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield Row("values" if values else "weights", _roles(weights), one, other)


def _sides(weight: WeightChange) -> tuple[str, str]:
    if weight.values:
        return "", "different values"
    if weight.precision_a == weight.precision_b:
        return shape_text(weight.shape_a), shape_text(weight.shape_b)
    if weight.shape_a == weight.shape_b:
        return weight.precision_a, weight.precision_b
    return f"{weight.precision_a} {shape_text(weight.shape_a)}", f"{weight.precision_b} {shape_text(weight.shape_b)}"


def _roles(weights: Sequence[tuple[WeightChange, RegionPair]]) -> str:
    """Consumers of weights: ``28 MatMul in layers 0-3, embedding, head``."""
    regions = _grouped((weight.role if prod(weight.shape_a) > 1 else "scalar", region) for weight, region in weights)
    order = sorted(regions, key=lambda role: (-len(regions[role]), role))
    words = []
    for role in order[:_MOST_KINDS]:
        where = region_text(list(dict.fromkeys(regions[role])))
        words.append(role if role in _SINGLE else f"{len(regions[role])} {role}" + (f" in {where}" if where else ""))
    rest = sum(len(regions[role]) for role in order[_MOST_KINDS:] if role not in _SINGLE)
    words += [role for role in order[_MOST_KINDS:] if role in _SINGLE]
    return ", ".join([*words, *([f"{rest} of other ops"] if rest else [])])


_RECORDED = {"mode": "mode", "group_size": "group size", "ratio": "ratio", "backup_mode": "backup"}


def _compression(changes: Sequence[Difference]) -> Iterator[Row]:
    """Compression settings: those of one side on one line, those of both sides in full."""
    one_sided = [change for change in changes if change.a is None or change.b is None]
    both = [change for change in changes if change.a is not None and change.b is not None]
    if one_sided:
        recorded = {change.what.rsplit("/", 1)[-1]: change for change in one_sided}
        sides = []
        for side in ("a", "b"):
            words = [
                f"{word} {value}" if word != "mode" else str(value)
                for key, word in _RECORDED.items()
                if key in recorded and (value := getattr(recorded[key], side)) is not None
            ]
            any_there = any(getattr(change, side) is not None for change in one_sided)
            sides.append(", ".join(words) or ("recorded" if any_there else _MISSING))
        yield Row("weights", "compression settings", *sides)
    yield from _plain("weights", both)


def _names(part: PartDiff) -> Iterator[Row]:
    ops = sum(diff.renamed for diff in part.regions)
    states = sum(change.what.startswith("state ") for change in part.names)
    words = [plural(number, noun) for number, noun in ((ops, "op"), (states, "state")) if number]
    if len(part.names) > states:
        words.append("the annotation (of the same values)")
    if words:
        yield Row("names", f"different names of {' and '.join(words)}, paired by structure", "", "")


def annotation_rows(part: PartDiff) -> tuple[tuple[str, str, str], ...]:
    """Differences between the annotations: layer, and its hidden state in ``a`` and ``b``."""
    return tuple((change.layer or _MISSING, change.a or _MISSING, change.b or _MISSING) for change in part.annotation)


def part_rows(part: PartDiff) -> tuple[Row, ...]:
    """Differences in one part, without versions and annotation."""
    return (
        *_plain("ports", part.ports),
        *_plain("states", part.states),
        *_structure(part),
        *changed_rows(part, "shapes"),
        *weight_rows(part, values=False),
        *_compression(part.compression),
        *weight_rows(part, values=True),
        *_plain("rt_info", part.rt_info),
        *changed_rows(part, "rt_info"),
        *changed_rows(part, "versions"),
        *_names(part),
    )


def comparison_rows(comparison: Comparison) -> tuple[Row, ...]:
    """Differences outside the parts, and the versions of all parts."""
    sources = [(part.part, part.versions) for part in comparison.parts]
    sources.append(("config.json", comparison.config_versions))
    shared = _grouped(((change.what, change.a, change.b), name) for name, changes in sources for change in changes)
    versions = [
        Row("versions", f"{what} ({names[0] if len(names) == 1 else f'{len(names)} parts'})", _side(a), _side(b))
        for (what, a, b), names in shared.items()
    ]
    return (
        *_plain("parts", comparison.only),
        *versions,
        *_plain("config", comparison.config),
        *_plain("files", comparison.files),
    )


def part_title(part: PartDiff) -> str:
    """Title of a part: ``model: 4 layers, 184 ops without constants``."""
    if part.error is not None:
        return part.part
    layers = f"{_both(part.layers_a, part.layers_b, 'layer')}, " if part.layers_a or part.layers_b else ""
    return f"{part.part}: {layers}{_both(part.ops_a, part.ops_b, 'op')} without constants"


def _both(one: int, other: int, noun: str) -> str:
    return plural(one, noun) if one == other else f"{one} -> {plural(other, noun)}"
