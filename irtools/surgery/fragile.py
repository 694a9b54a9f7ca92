"""States that OpenVINO 2026.4 does not run once a piece has been cut off around them.

Found by running pieces of some hundred exports on the CPU. A state whose first value is computed and empty
(no token is cached yet) runs as long as another state begins with the same, or attention reads it and its
counterpart together. The states of a whole model begin with the same value; a piece can hold just one.
"""

from __future__ import annotations

from collections.abc import Collection

from irtools.graph.view import GraphView
from irtools.surgery.reach import data_above
from irtools.surgery.shapes import SameShape

__all__ = ["fragile_states"]

_ATTENTION = "ScaledDotProductAttention"
_ON_THE_WAY = frozenset({"Gather", "Concat", "Unsqueeze", "Squeeze", "Broadcast", "Reshape", "Transpose", "Convert"})


def fragile_states(view: GraphView, ops: Collection[int], starts: Collection[int]) -> list[int]:
    """ReadValues of a piece that would not run.

    Parameters
    ----------
    view : GraphView
    ops : collection of int
        Of the piece.
    starts : collection of int
        Ops of the piece whose inputs are cut off.
    """
    reads = [op for op in view.by_type.get("ReadValue", ()) if op in ops and view.inputs(op)]
    same = SameShape(view)
    attended = {op: _attention(view, op, ops) for op in reads}
    found = []
    for op in reads:
        first = view.inputs(op)[0]
        if view.constant(first.op):
            continue
        others = [other for other in reads if other != op]
        safe = (
            not _empty(view, op)
            or any((at, 3 - side) in attended[other] for at, side in attended[op] for other in others)
            or any(same.same_value(first, view.inputs(other)[0]) for other in others)
        )
        if not safe or _unknown(view, first.op, starts):
            found.append(op)
    return found


def _unknown(view: GraphView, first: int, starts: Collection[int]) -> bool:
    """Whether the first value is computed from what was cut off, so that less is known of its shape."""
    return bool(starts) and not data_above(view, [first]).isdisjoint(starts)


def _empty(view: GraphView, op: int) -> bool:
    """Whether a state begins without a token."""
    ports = view.op(op).inputs
    return bool(ports) and 0 in ports[0].shape


def _attention(view: GraphView, read: int, ops: Collection[int]) -> set[tuple[int, int]]:
    """Attention ops that read a state, and as which input."""
    found, seen, pending = set(), {read}, [read]
    while pending:
        for user in view.consumers(pending.pop()):
            kind = view.op_type(user.op)
            if kind == _ATTENTION and user.op in ops:
                found.add((user.op, user.input))
            elif kind in _ON_THE_WAY and user.op in ops and user.op not in seen:
                seen.add(user.op)
                pending.append(user.op)
    return found
