"""States that OpenVINO 2026.4 does not run after a piece has been cut around them.

Observed by running pieces of about a hundred exports on the CPU. A state whose first value is computed and empty
(no token is cached yet) runs only if another state starts with the same value, or if attention reads it together
with its counterpart. The states of a whole model start with the same value, but a piece can have a single state.
"""

from __future__ import annotations

from collections.abc import Collection

from irtools.graph.closure import closure
from irtools.graph.view import GraphView
from irtools.ir.op import op_types
from irtools.surgery.extraction.shapes import SameShape
from irtools.surgery.reach import data_above

__all__ = ["fragile_states"]

_ATTENTION = "ScaledDotProductAttention"
_ON_THE_WAY = op_types("Gather Concat Unsqueeze Squeeze Broadcast Reshape Transpose Convert")


def fragile_states(view: GraphView, ops: Collection[int], starts: Collection[int]) -> list[int]:
    """Return the ReadValues of the piece ``ops`` that would not run; the inputs of ``starts`` are cut."""
    reads = [op for op in view.by_type.get("ReadValue", ()) if op in ops and view.inputs(op)]
    same = SameShape(view)
    attended = {op: _attention(view, op, ops) for op in reads}
    fragile = []
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
        # If the first value depends on an op with cut inputs, less is known of its shape.
        if not safe or (starts and not data_above(view, [first.op]).isdisjoint(starts)):
            fragile.append(op)
    return fragile


def _empty(view: GraphView, op: int) -> bool:
    """True if the first value of a state has no tokens."""
    ports = view.op(op).inputs
    return bool(ports) and 0 in ports[0].shape


def _attention(view: GraphView, read: int, ops: Collection[int]) -> set[tuple[int, int]]:
    """Return the attention ops that read a state, each with the input index."""

    def step(op: int) -> list[int]:
        return [user.op for user in view.consumers(op) if view.op_type(user.op) in _ON_THE_WAY and user.op in ops]

    readers = (user for op in closure([read], step) for user in view.consumers(op))
    return {(user.op, user.input) for user in readers if view.op_type(user.op) == _ATTENTION and user.op in ops}
