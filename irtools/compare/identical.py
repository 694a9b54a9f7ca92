"""Ops that are the same bytes with the same producers on both sides, so that nothing in them needs comparing."""

from __future__ import annotations

from dataclasses import dataclass, field

from irtools.graph.view import GraphView
from irtools.ir.scan import BODY_OWNERS

__all__ = ["Identical", "identical_ops"]


@dataclass(frozen=True, slots=True)
class Identical:
    """Layer ids of ops that are the same on both sides: id, name, bytes, and ids and ports of the producers.

    Attributes
    ----------
    ops : set of int
        Ops that are not constant; those with bodies are left out, because their weights are not compared here.
    constants : set of int
        Constants, and ops that are computed from such constants alone.
    """

    ops: set[int] = field(default_factory=set)
    constants: set[int] = field(default_factory=set)


def identical_ops(a: GraphView, b: GraphView) -> Identical:
    """Find the ops that are the same in two graphs."""
    found = Identical()
    one, other = a.scan, b.scan
    constants, places = found.constants, b.index
    for key in a.topological:
        place = places.get(key)
        if place is None or a.wires(key) != b.wires(key):
            continue
        (start, end), (first, last) = one.spans[a.index[key]], other.spans[place]
        if one.data[start:end] != other.data[first:last]:
            continue
        if not a.constant(key):
            if not b.constant(key) and a.op_type(key) not in BODY_OWNERS:
                found.ops.add(key)
        elif b.constant(key) and all(source in constants for source, _ in a.wires(key)):
            constants.add(key)
    return found
