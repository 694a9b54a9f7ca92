"""Regions of a graph (inputs, each layer, head) and the pairing of the layers of two graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from irtools.anatomy.describe import kind_text
from irtools.compare.differences import RegionPair
from irtools.decoder.stack import DecoderLayer, DecoderStack
from irtools.graph.view import GraphView

__all__ = ["INPUTS", "Regions", "find_regions", "pair_layers"]

INPUTS = -1
"""Region key of the ops before the layers. A layer's key is its position; the head's key is the number of layers."""
_SINKS = ("Assign", "Result")


@dataclass(frozen=True)
class Regions:
    """Assignment of ops to regions.

    Attributes
    ----------
    of : mapping of int to int
        Region of each op that is not constant.
    ops : mapping of int to tuple of int
        Ops by region, in topological order.
    layers : tuple of DecoderLayer
        Empty if no decoder stack was located; every op is then in ``INPUTS``.
    """

    of: Mapping[int, int]
    ops: Mapping[int, tuple[int, ...]]
    layers: tuple[DecoderLayer, ...] = ()


def find_regions(view: GraphView, stack: DecoderStack | None) -> Regions:
    """Assign every op to a region; an op with readers in one layer only, such as a ReadValue, belongs to that layer."""
    order = [op for op in view.topological if not view.constant(op)]
    of: dict[int, int] = {}
    if stack is not None:
        of = {op: layer.index for layer in stack.layers for op in layer.ops}
        _add_head(view, stack, order, of)
        _add_private(view, stack, order, of)
    ops: dict[int, list[int]] = {}
    for op in order:
        ops.setdefault(of.setdefault(op, INPUTS), []).append(op)
    return Regions(of, {key: tuple(members) for key, members in ops.items()}, stack.layers if stack else ())


def _add_head(view: GraphView, stack: DecoderStack, order: Sequence[int], of: dict[int, int]) -> None:
    """Assign the ops after the last residual sum to the head."""
    below = {stack.last_sum}
    for op in order:
        if op not in of and below.intersection(view.producers(op)):
            below.add(op)
            of[op] = len(stack.layers)


def _add_private(view: GraphView, stack: DecoderStack, order: Sequence[int], of: dict[int, int]) -> None:
    """Assign ops that only one layer uses: its states and inputs, and the ops that write them."""
    for op in order:
        if op not in of and view.op_type(op) in _SINKS:
            # A Result can return the keys of a layer (stateless models); its producer then gives the region.
            homes = {of[source] for source in view.producers(op) if source in of}
            if len(homes) == 1:
                of[op] = homes.pop()
    shared = {stack.embedding, stack.stream_start}
    cached: set[int] = set()
    for op in reversed(order):
        if op in shared:
            shared.update(view.producers(op))
            continue
        # A ShapeOf reads the shape of a state and not its values.
        readers = [consumer.op for consumer in view.consumers(op) if view.op_type(consumer.op) != "ShapeOf"]
        homes = {of.get(reader, INPUTS) for reader in readers}
        if op in of or len(homes) != 1 or not 0 <= (home := homes.pop()) < len(stack.layers):
            continue
        # With one layer, masks and positions have only one reader as well; then only states are assigned.
        if len(stack.layers) > 1 or _serves_state(view, op, readers, cached):
            of[op] = home
            cached.add(op)


def _serves_state(view: GraphView, op: int, readers: Sequence[int], cached: Set[int]) -> bool:
    """True if an op is a state, reads one, or prepares one."""
    if "ReadValue" in (view.op_type(op), *map(view.op_type, view.producers(op))):
        return True
    return all(reader in cached and view.op_type(reader) != "Gather" for reader in readers)


def pair_layers(a: tuple[GraphView, Regions], b: tuple[GraphView, Regions]) -> list[RegionPair]:
    """Layer regions in order, paired by position; with unequal layer counts, by structure and name."""
    first, second = a[1].layers, b[1].layers
    if len(first) == len(second):
        return [_region(one, other) for one, other in zip(first, second, strict=True)]
    counts = [
        [Counter(map(view.op_type, regions.ops[layer.index])) for layer in regions.layers] for view, regions in (a, b)
    ]
    scores = [
        [_likeness(one, other, types, counts[1][other.index]) for other in second]
        for one, types in zip(first, counts[0], strict=True)
    ]
    return [
        _region(None if one is None else first[one], None if other is None else second[other])
        for one, other in _aligned(scores, len(first), len(second))
    ]


def _likeness(one: DecoderLayer, other: DecoderLayer, types: Counter[str], other_types: Counter[str]) -> float:
    same_kind = (one.mixer, one.feed_forward) == (other.mixer, other.feed_forward)
    return 1 + 8 * same_kind + 4 * (types == other_types) + 0.5 * (one.scope == other.scope != "")


def _aligned(scores: Sequence[Sequence[float]], rows: int, columns: int) -> list[tuple[int | None, int | None]]:
    """Monotonic alignment with the highest sum of scores; on equal sums, pairs are preferred.

    Layers match by degrees, and ``difflib.SequenceMatcher`` only knows equal or unequal items.
    """
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            best[i][j] = max(scores[i][j] + best[i + 1][j + 1], best[i + 1][j], best[i][j + 1])
    steps: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < rows and j < columns:
        if best[i][j] == scores[i][j] + best[i + 1][j + 1]:
            steps.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            steps.append((i, None))
            i += 1
        else:
            steps.append((None, j))
            j += 1
    return [*steps, *((row, None) for row in range(i, rows)), *((None, column) for column in range(j, columns))]


def _region(one: DecoderLayer | None, other: DecoderLayer | None) -> RegionPair:
    index_a = None if one is None else one.index
    index_b = None if other is None else other.index
    return RegionPair("layer", index_a, index_b, _text(one), _text(other))


def _text(layer: DecoderLayer | None) -> str:
    return "" if layer is None else kind_text(layer.mixer.replace("_", " "), layer.feed_forward)
