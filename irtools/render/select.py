"""Which ops a picture is about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from irtools.anatomy.blocks import Block
from irtools.anatomy.kinds import layer_kinds
from irtools.errors import UsageError
from irtools.graph.view import GraphView
from irtools.render.part import DrawnPart

__all__ = ["around", "between", "full_order", "layer_norms", "layer_ops", "shape_ops"]

_REORDERS = ("Gather", "Convert", "Reshape", "Slice")


def users(view: GraphView, op: int) -> list[int]:
    """The op itself, or for a constant the ops that read it, through what decompresses it."""
    found, pending = [], [op]
    for key in pending:
        if not view.constant(key):
            found.append(key)
        else:
            pending += [consumer.op for consumer in view.consumers(key) if consumer.op not in pending]
    return found


def around(view: GraphView, op: int, radius: int) -> list[int]:
    """Ops within some steps of one, nearest first; a constant stands for the ops that read it."""
    starts = users(view, op)
    found, pending = dict.fromkeys(starts, 0), list(starts)
    for key in pending:
        if found[key] < radius:
            fresh = [other for other in (*view.pred[key], *view.succ[key]) if other not in found]
            found |= dict.fromkeys(fresh, found[key] + 1)
            pending += dict.fromkeys(fresh)
    return sorted(found, key=lambda key: (found[key], view.rank[key]))


def _reached(neighbours: Mapping[int, Iterable[int]], starts: Collection[int]) -> set[int]:
    """Everything that can be reached from some ops, themselves included."""
    found, pending = set(starts), list(starts)
    while pending:
        for key in neighbours[pending.pop()]:
            if key not in found:
                found.add(key)
                pending.append(key)
    return found


def between(view: GraphView, start: int, end: int) -> list[int]:
    """Ops on a path from one op to another, in the order of computation.

    Raises
    ------
    UsageError
        No path leads from either to the other.
    """
    for first, last in ((start, end), (end, start)):
        ops = _reached(view.succ, users(view, first)) & _reached(view.pred, users(view, last))
        if ops:
            return sorted(ops, key=view.rank.__getitem__)
    raise UsageError(f"no path leads from {view.op_name(start)!r} to {view.op_name(end)!r} or back")


def full_order(part: DrawnPart) -> list[int]:
    """All ops, those of one layer of each kind and those outside layers first."""
    view = part.view
    everything = [key for key in view.topological if not view.constant(key)]
    if part.stack is None or part.blocks is None:
        return everything
    shown = {kind.indices[0] for kind in layer_kinds(part.blocks.layers)}
    late = {op for layer in part.stack.layers if layer.index not in shown for op in layer.ops}
    return [key for key in everything if key not in late] + [key for key in everything if key in late]


def shape_ops(view: GraphView) -> frozenset[int]:
    """Ops that only look at shapes: ShapeOf and what is computed from such alone."""
    found: set[int] = set()
    for key in view.topological:
        if view.constant(key) or view.op_type(key) == "ReadValue":
            continue
        sources = [source for source in view.producers(key) if not view.constant(source)]
        if view.op_type(key) == "ShapeOf" or (sources and all(source in found for source in sources)):
            found.add(key)
    return frozenset(found)


def layer_ops(part: DrawnPart, index: int) -> tuple[list[int], int]:
    """Ops of a decoder layer and its states, and how many ops of shape arithmetic are left out.

    Raises
    ------
    UsageError
        There is no such layer.
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
    states = {state.op for block in layers[index].blocks for state in block.states}
    wanted = inside | states | _reads(view, states, ops) | _writes(view, states, inside)
    skipped = wanted & shape_ops(view)
    return sorted(wanted - skipped, key=view.rank.__getitem__), len(skipped)


def _reads(view: GraphView, states: Collection[int], ops: Collection[int]) -> set[int]:
    """What stands between the states of a layer and its ops: reordering by beam."""
    found: set[int] = set()
    pending = list(states)
    while pending:
        for key in set(view.succ[pending.pop()]) - found:
            if key not in ops and view.op_type(key) in _REORDERS:
                found.add(key)
                pending.append(key)
    return found


def _writes(view: GraphView, states: Collection[int], inside: Collection[int]) -> set[int]:
    """The ops that write the states of a layer, and what stands between its ops and them."""
    variables = {view.data(key).get("variable_id") for key in states} - {None}
    found = {key for key in view.by_type.get("Assign", ()) if view.data(key).get("variable_id") in variables}
    above, pending = set(found), list(found)
    while pending:
        for key in view.pred[pending.pop()]:
            if key not in inside and key not in above:
                above.add(key)
                pending.append(key)
    for key in sorted(above, key=view.rank.__getitem__):
        if any(source in inside or source in found for source in view.pred[key]):
            found.add(key)
    return found


def layer_norms(part: DrawnPart, index: int) -> list[Block]:
    """Norms of a layer, those inside its blocks included."""
    if part.blocks is None:
        return []
    blocks = part.blocks.layers[index].blocks
    inner = [norm for block in blocks if block.kind != "norm" for norm in part.blocks.norms_within(block)]
    return [block for block in blocks if block.kind == "norm"] + inner
