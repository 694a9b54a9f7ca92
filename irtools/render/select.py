"""Select the ops of a picture."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import islice

import networkx as nx

from irtools.anatomy.blocks import Block
from irtools.anatomy.roles import state_ops
from irtools.errors import UsageError
from irtools.graph.closure import closure
from irtools.graph.view import GraphView
from irtools.render.part import DrawnPart

__all__ = ["LAST_LAYER", "around", "between", "columns", "full_order", "layer_norms", "layer_ops", "shape_ops"]

LAST_LAYER = -1
"""Number that stands for the last decoder layer."""
_ACROSS = 12.0
"""Ranks below each other that are as high as one box in each rank and what is beside it are wide."""


def users(view: GraphView, op: int) -> list[int]:
    """The op itself, or the ops that read a constant, directly or after decompression."""
    pending = [op]
    for key in pending:
        if view.constant(key):
            pending += [consumer.op for consumer in view.consumers(key) if consumer.op not in pending]
    return [key for key in dict.fromkeys(pending) if not view.constant(key)]


def around(view: GraphView, op: int, radius: int) -> list[int]:
    """Ops at most ``radius`` edges from an op, nearest first; a constant is replaced by the ops that read it."""
    layers = nx.bfs_layers(view.to_undirected(as_view=True), users(view, op))
    return [key for layer in islice(layers, radius + 1) for key in sorted(layer, key=view.rank.__getitem__)]


def between(view: GraphView, start: int, end: int) -> list[int]:
    """Ops on the paths between two ops, in topological order.

    Raises
    ------
    UsageError
        No path connects the ops in either direction.
    """
    for first, last in ((start, end), (end, start)):
        ops = closure(users(view, first), view.succ.__getitem__) & closure(users(view, last), view.pred.__getitem__)
        if ops:
            return sorted(ops, key=view.rank.__getitem__)
    raise UsageError(f"no path connects {view.op_name(start)!r} and {view.op_name(end)!r}; give two ops on one path")


def full_order(part: DrawnPart, most: int) -> tuple[list[int], list[int]]:
    """All ops without constants in the order of computation; beyond ``most``, the first and the last of them.

    Everything is in the first list unless ops are left out. With decoder layers, the ops left out are those in the
    middle of the layers: embedding, masks, head and logits stay.
    """
    view = part.view
    ends = _only_for_states(view)
    order = _as_needed(view, ends)
    if most < 2 or len(order) <= most:  # one op has no two ends
        return order, []
    layered = {op for layer in part.stack.layers for op in layer.ops} if part.stack is not None else set()
    starts: set[int] = set()
    for key in reversed(view.topological):  # the states of a layer go with it, and what they start and end with
        readers = {user.op for user in view.consumers(key)}
        state = view.op_type(key) == "ReadValue"
        before = bool(readers) and readers <= starts
        if before or (readers and readers <= layered and (state or _reorders(view, key))):
            layered.add(key)
            starts.update([key] if state or before else ())
    layered.difference_update(view.parameters)
    for key in view.topological:
        layered.update([key] if key in ends and not layered.isdisjoint(view.producers(key)) else ())
    inner = [op for op in order if op in layered]
    if len(inner) < len(order) - most:  # without the layers, there is still too much
        inner = [op for op in order if view.op_type(op) not in ("Parameter", "Result")]
    if len(inner) <= len(order) - most:
        inner = order
    kept = most - (len(order) - len(inner))
    first = kept - kept // 2
    gone = set(inner[first : len(inner) - kept // 2])
    place = order.index(inner[first])
    return [op for op in order[:place] if op not in gone], [op for op in order[place:] if op not in gone]


def columns(
    view: GraphView, drawn: Collection[int], layer_of: Mapping[int, int], gap: Collection[int]
) -> dict[int, int]:
    """Column of each op of a deep picture that is folded between layers; the layers of ``gap`` are in one column.

    An op outside the layers is in the first column in which its value is read.
    """
    level: dict[int, int] = {}
    spans: dict[int, list[int]] = {}
    order = [key for key in view.topological if key in drawn]
    for key in order:
        level[key] = 1 + max((level[source] for source in view.producers(key) if source in level), default=0)
        if key in layer_of:
            spans.setdefault(layer_of[key], []).append(level[key])
    depth = max(level.values(), default=0)
    width = _ACROSS * max(len(order) / max(depth, 1), 1.0)
    count = min(round(math.sqrt(depth / width)), len(spans))
    if count < 2:
        return {}
    of_layer = {layer: (min(at) + max(at)) * count // (2 * depth + 2) for layer, at in sorted(spans.items())}
    of_layer |= {layer: of_layer[min(gap)] for layer in gap}
    column: dict[int, int] = {}
    for key in reversed(order):
        read = [column[user.op] for user in view.consumers(key) if user.op in column]
        column[key] = of_layer[layer_of[key]] if key in layer_of else min(read, default=count - 1)
    for key in view.by_type.get("Assign", ()):
        if key in column:
            column[key] = max((column[source] for source in view.producers(key) if source in column), default=0)
    return column


def _as_needed(view: GraphView, ends: Collection[int]) -> list[int]:
    """Ops without constants in the order of computation, each state beside its first reader and what writes it.

    ``ends`` are the ops that are needed only to write states.
    """
    rank = dict(view.rank)
    for key in reversed(view.topological):
        users = view.consumers(key)
        if users and (view.op_type(key) in ("ReadValue", "Parameter") or _reorders(view, key)):
            rank[key] = min(rank[user.op] for user in users)
    for key in [key for key in view.topological if key in ends]:
        rank[key] = max(
            (rank[source] for source in view.producers(key) if not view.constant(source)), default=rank[key]
        )
    order = [key for key in view.topological if not view.constant(key)]
    return sorted(order, key=lambda key: (rank[key], view.rank[key]))


def _only_for_states(view: GraphView) -> set[int]:
    """The ops that write states, and the ops whose values only they read."""
    ends = set(view.by_type.get("Assign", ()))
    for key in reversed(view.topological):
        readers = {user.op for user in view.consumers(key)}
        if readers and ends.issuperset(readers):
            ends.add(key)
    return ends


def _reorders(view: GraphView, op: int) -> bool:
    """True if an op reads nothing but states, inputs and constants."""
    return all(view.constant(key) or view.op_type(key) in ("ReadValue", "Parameter") for key in view.producers(op))


def shape_ops(view: GraphView) -> frozenset[int]:
    """Shape arithmetic: ShapeOf ops and ops computed from their values alone."""
    ops: set[int] = set()
    for key in view.topological:
        if view.constant(key) or view.op_type(key) == "ReadValue":
            continue
        sources = [source for source in view.producers(key) if not view.constant(source)]
        if view.op_type(key) == "ShapeOf" or (sources and ops.issuperset(sources)):
            ops.add(key)
    return frozenset(ops)


def layer_ops(part: DrawnPart, index: int) -> tuple[list[int], int]:
    """Ops of a decoder layer and its states, and the number of omitted shape-arithmetic ops.

    Raises
    ------
    UsageError
        The layer does not exist.
    """
    view, stack = part.view, part.stack
    layers = part.blocks.layers if part.blocks else ()
    if part.blocks is None or not 0 <= index < len(layers):
        last = f"0 to {len(layers) - 1}" if layers else "none"
        raise UsageError(f"{part.document.path.name} has no layer {index} (layers: {last})")
    ops = {op for block in layers[index].blocks for op in block.ops}
    inside = set(stack.layers[index].ops) | ops if stack else ops
    if index == len(layers) - 1:
        inside -= {op for block in part.blocks.closing.blocks for op in block.ops}
    wanted = inside.union(*(state_ops(view, block, ops, inside) for block in layers[index].blocks))
    skipped = wanted & shape_ops(view)
    return sorted(wanted - skipped, key=view.rank.__getitem__), len(skipped)


def layer_norms(part: DrawnPart, index: int) -> list[Block]:
    """Norms of a layer, including those inside its blocks."""
    if part.blocks is None:
        return []
    blocks = part.blocks.layers[index].blocks
    inner = [norm for block in blocks if block.kind != "norm" for norm in part.blocks.norms_within(block)]
    return [block for block in blocks if block.kind == "norm"] + inner
