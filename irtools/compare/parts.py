"""Compare one part of two exports."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from irtools.compare.differences import Difference, PartDiff, RegionDiff, Surroundings
from irtools.compare.entries import metadata, ports
from irtools.compare.named import compare_annotations, compare_states, read_states
from irtools.compare.ops import Found, OpComparer
from irtools.compare.sides import Configs, PartPair, pair_up
from irtools.compare.stored import StoredPair
from irtools.compare.surroundings import surroundings
from irtools.model.document import Document

__all__ = ["compare_parts"]

_FIELDS = ("ports", "states", "rt_info", "versions", "names", "annotation")


def compare_parts(part: str, a: Document, b: Document, configs: Configs | None, ignored: Collection[str]) -> PartDiff:
    """Compare two IRs without the ignored categories; for ``configs`` and the errors see :func:`pair_up`."""
    pair = pair_up(a, b, configs)
    wanted = not {"weights", "values"} & set(ignored)
    stored = StoredPair(pair.a.graph, pair.b.graph, pair.a.roles(), values=wanted and not pair.unread)
    regions = tuple(_regions(pair, stored))
    entries = metadata(a, b)
    states, names = compare_states(pair)
    annotation, reworded = compare_annotations(pair)
    if reworded:
        names = (*names, Difference("annotation", a.annotation, b.annotation))
    notes = () if wanted else tuple(f"small constants were not compared: {fault}" for fault in pair.unread)
    diff = PartDiff(
        part=part,
        a=a.path,
        b=b.path,
        layers_a=len(pair.a.regions.layers),
        layers_b=len(pair.b.regions.layers),
        ops_a=len(pair.a.regions.of),
        ops_b=len(pair.b.regions.of),
        states_a=len(read_states(pair.a.view)),
        states_b=len(read_states(pair.b.view)),
        ports=ports(pair.a.view, pair.b.view),
        states=states,
        rt_info=entries["rt_info"],
        versions=entries["versions"],
        compression=entries["compression"],
        names=names,
        annotation=annotation,
        annotated=(a.annotation is not None, b.annotation is not None),
        regions=regions,
        notes=(*pair.notes, *notes),
        unread=pair.unread if wanted else (),
        uncompared=stored.uncompared,
        surroundings=surroundings(pair.alignment, regions),
    )
    return _without(diff, frozenset(ignored))


def _regions(pair: PartPair, stored: StoredPair) -> Iterator[RegionDiff]:
    comparer = OpComparer(stored)
    quiet = pair.same and (stored.same or not stored.values)
    for region in pair.regions:
        ops_a, ops_b = pair.a.ops(region, region.a), pair.b.ops(region, region.b)
        found = Found()
        if not region.one_sided and not quiet:
            comparer.compare(pair.alignment, ops_a, ops_b, found)
        ops = (tuple(found.removed), tuple(found.added), tuple(found.changed))
        yield RegionDiff(region, len(ops_a), len(ops_b), *ops, tuple(found.weights), found.renamed)


def _without(diff: PartDiff, ignored: frozenset[str]) -> PartDiff:
    """Drop the ignored categories."""
    empty: dict[str, Any] = {name: () for name in _FIELDS if name in ignored}
    if "weights" in ignored:
        empty["compression"] = ()
    if "structure" in ignored:
        empty["surroundings"] = Surroundings()
    regions = tuple(
        _kept(region, ignored) for region in diff.regions if not (region.region.one_sided and "structure" in ignored)
    )
    return replace(diff, regions=regions, **empty)


def _kept(region: RegionDiff, ignored: frozenset[str]) -> RegionDiff:
    structure = "structure" not in ignored
    return replace(
        region,
        removed=region.removed if structure else (),
        added=region.added if structure else (),
        changed=tuple(change for change in region.changed if change.category not in ignored),
        weights=() if "weights" in ignored else region.weights,
        renamed=0 if "names" in ignored else region.renamed,
    )
