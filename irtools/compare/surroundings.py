"""The changed ops of two aligned graphs and their neighbours, for a picture."""

from __future__ import annotations

from collections.abc import Sequence

from irtools.compare.align import Alignment
from irtools.compare.differences import NearEdge, NearOp, RegionDiff, Surroundings
from irtools.compare.labels import COMMUTATIVE, Graph

__all__ = ["surroundings"]

_MOST_CHANGED = 12
_MOST_NEAR = 6
"""Neighbours of one op in each direction."""


def surroundings(alignment: Alignment, regions: Sequence[RegionDiff]) -> Surroundings:
    """Collect the first ops that were removed, added or changed at the top level, and their neighbours."""
    changes = {
        op.a.id: tuple(_text(change.what, change.a, change.b) for change in op.changes)
        for diff in regions
        for op in diff.changed
        if op.category == "structure" and not op.a.body
    }
    found = _Found(alignment, changes)
    changed = [f"p{op}" for op in changes]
    changed += [f"a{op.id}" for diff in regions for op in diff.removed if not op.body]
    changed += [f"b{op.id}" for diff in regions for op in diff.added if not op.body]
    for key in changed[:_MOST_CHANGED]:
        found.add(key)
    return Surroundings(found.ops(), found.edges(), max(0, len(changed) - _MOST_CHANGED))


def _text(what: str, one: str | None, other: str | None) -> str:
    short = all(side is not None and len(side) <= 20 for side in (one, other))
    return f"{what}: {one} -> {other}" if short and not what.startswith("input") else what


class _Found:
    """Ops by key: ``p`` and the layer id in ``a`` for a pair, ``a`` or ``b`` and the layer id for an op of one side."""

    def __init__(self, alignment: Alignment, changes: dict[int, tuple[str, ...]]) -> None:
        self._alignment, self._changes = alignment, changes
        self._keys: dict[str, None] = {}

    def _key(self, graph: Graph, op: int) -> str:
        if graph is self._alignment.a:
            return f"p{op}" if op in self._alignment.to_b else f"a{op}"
        one = self._alignment.to_a.get(op)
        return f"b{op}" if one is None else f"p{one}"

    def _sides(self, key: str) -> list[tuple[Graph, int]]:
        side, op = key[0], int(key[1:])
        a, b = self._alignment.a, self._alignment.b
        return [(a, op), (b, self._alignment.to_b[op])] if side == "p" else [(a if side == "a" else b, op)]

    def add(self, key: str) -> None:
        """Add an op and its neighbours on both sides."""
        for graph, op in self._sides(key):
            sources = [source for source in graph.view.producers(op) if not graph.view.constant(source)]
            for near in sources[:_MOST_NEAR]:
                self._keys.setdefault(self._key(graph, near))
            self._keys.setdefault(key)
            for consumer in list(graph.view.consumers(op))[:_MOST_NEAR]:
                self._keys.setdefault(self._key(graph, consumer.op))

    def ops(self) -> tuple[NearOp, ...]:
        """The ops, those of a pair with the name in ``b``."""
        sides = {"p": "both", "a": "a", "b": "b"}
        ops = []
        for key in self._keys:
            graph, op = self._sides(key)[-1]
            changes = self._changes.get(int(key[1:]), ()) if key[0] == "p" else ()
            ops.append(NearOp(key, graph.view.op_name(op), graph.view.op_type(op), sides[key[0]], changes))
        return tuple(ops)

    def edges(self) -> tuple[NearEdge, ...]:
        """The edges between the ops; one edge stands for equal edges of both sides."""
        sides: dict[tuple[str, str, int], set[str]] = {}
        for key in self._keys:
            for graph, op in self._sides(key):
                side = "a" if graph is self._alignment.a else "b"
                swaps = graph.view.op_type(op) in COMMUTATIVE
                for index, source in enumerate(graph.view.inputs(op)):
                    tail = self._key(graph, source.op)
                    if tail in self._keys:
                        sides.setdefault((tail, key, 0 if swaps else index), set()).add(side)
        return tuple(NearEdge(*edge, "both" if len(where) == 2 else where.pop()) for edge, where in sides.items())
