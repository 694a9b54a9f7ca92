"""Compare one part of two exports."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from irtools.compare.entries import metadata, ports
from irtools.compare.model import Change, PartDiff, RegionDiff
from irtools.compare.named import compare_annotations, compare_states, read_states
from irtools.compare.ops import Found, OpComparer
from irtools.compare.sides import Configs, Pair, pair_up
from irtools.compare.stored import StoredPair
from irtools.model.document import Document
from irtools.text import plural

__all__ = ["compare_parts"]

_FIELDS = ("ports", "states", "rt_info", "versions", "names", "annotation")


def compare_parts(part: str, a: Document, b: Document, configs: Configs | None, ignored: Collection[str]) -> PartDiff:
    """Compare two IRs.

    Parameters
    ----------
    part : str
        Name of the part.
    a, b : Document
    configs : tuple of mapping, optional
        Content of config.json on both sides, when there is a decoder stack to locate.
    ignored : collection of str
        Categories to leave out.

    Raises
    ------
    InvalidIRError
        One is no IR, or its edges make no sense.
    ExportError
        One cannot be read.
    """
    pair = pair_up(a, b, configs)
    stored = StoredPair(pair.a.graph, pair.b.graph, pair.a.roles(), values=not {"weights", "values"} & set(ignored))
    regions = tuple(_regions(pair, stored))
    found = metadata(a, b)
    states, names = compare_states(pair)
    annotation, other_words = compare_annotations(pair)
    if other_words:
        names = (*names, Change("annotation", a.annotation, b.annotation))
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
        rt_info=found["rt_info"],
        versions=found["versions"],
        compression=found["compression"],
        names=names,
        annotation=annotation,
        annotated=(a.annotation is not None, b.annotation is not None),
        regions=regions,
        notes=(*pair.notes, *_unread(stored)),
    )
    return _without(diff, frozenset(ignored))


def _unread(stored: StoredPair) -> Iterator[str]:
    if stored.unread:
        yield f"the numbers of {plural(stored.unread, 'weight')} could not be read: a .bin is missing or too short"


def _regions(pair: Pair, stored: StoredPair) -> Iterator[RegionDiff]:
    comparer = OpComparer(stored)
    quiet = pair.same and (stored.same or not stored.values)
    for region in pair.regions:
        ops_a, ops_b = pair.a.ops(region, region.a), pair.b.ops(region, region.b)
        found = Found()
        if not region.one_sided and not quiet:
            comparer.compare(pair.alignment, ops_a, ops_b, found)
        yield RegionDiff(
            region,
            len(ops_a),
            len(ops_b),
            tuple(found.removed),
            tuple(found.added),
            tuple(found.changed),
            tuple(found.weights),
            found.renamed,
        )


def _without(diff: PartDiff, ignored: frozenset[str]) -> PartDiff:
    """Leave out what is ignored."""
    empty: dict[str, Any] = {name: () for name in _FIELDS if name in ignored}
    if "weights" in ignored:
        empty["compression"] = ()
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
