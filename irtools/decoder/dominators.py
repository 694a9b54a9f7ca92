"""Witness: what every path from the embeddings to the head passes."""

from __future__ import annotations

import networkx as nx

from irtools.decoder.stream import Stream, Sum

__all__ = ["chain", "dominating_sums"]

_ROOT = -1  # layer ids are not negative


def chain(stream: Stream) -> tuple[int, ...]:
    """Ops that every path from the embeddings to the head input passes, in order.

    Returns
    -------
    tuple of int
        Layer ids, ending with the head input.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from((source, op) for op, sources in stream.sources.items() for source in sources)
    graph.add_edges_from((_ROOT, root) for root in stream.roots)
    nearest = nx.immediate_dominators(graph, _ROOT)
    found: list[int] = []
    current = stream.end.op
    while current is not None and current != _ROOT:
        found.append(current)
        current = nearest.get(current, _ROOT)
    return tuple(reversed(found))


def dominating_sums(stream: Stream) -> tuple[Sum, ...]:
    """Find the residual sums among the dominators of the head input.

    A dominating Add is a residual sum when one operand is the dominator above it, perhaps
    scaled or reshaped. Reshapes in the stream and sums of three do not disturb this; a value
    that bypasses a layer hides that layer's sums.

    Returns
    -------
    tuple of Sum
        From the embeddings to the head.
    """
    found: list[Sum] = []
    passed: list[int] = []
    for op in chain(stream):
        for skip in reversed(passed):
            residual = stream.residual(op, skip)
            if residual is not None:
                found.append(residual)
            if residual is not None or stream.view.op_type(skip) == "Add":
                break
        passed.append(op)
    return tuple(found)
