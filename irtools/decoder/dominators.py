"""Witness: what every path from the embeddings to the head passes."""

from __future__ import annotations

import networkx as nx

from irtools.decoder.stream import Stream, Sum

__all__ = ["chain", "dominating_sums"]

_ROOT = -1  # layer ids are not negative


def chain(stream: Stream) -> tuple[int, ...]:
    """Meeting points that every path from the embeddings to the head input passes, in order.

    An op that reads one value of the stream is passed exactly when that value is, so only ops
    that read several, and the embeddings, are looked at: less than half of the graph, and half
    the time.

    Returns
    -------
    tuple of int
        Layer ids.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_edges_from((_ROOT, root) for root in stream.roots)
    graph.add_edges_from(
        (stream.meeting_point(source), op)
        for op, sources in stream.sources.items()
        if len(sources) > 1
        for source in sources
    )
    nearest = nx.immediate_dominators(graph, _ROOT)
    found: list[int] = []
    current: int | None = stream.meeting_point(stream.end.op)
    while current is not None and current != _ROOT:
        found.append(current)
        current = nearest.get(current, _ROOT)
    return tuple(reversed(found))


def dominating_sums(stream: Stream) -> tuple[Sum, ...]:
    """Find the residual sums among the dominators of the head input.

    A dominating Add is a residual sum when the value it adds to comes from a dominator, too.
    Reshapes in the stream and sums of three do not disturb this; a value that bypasses a layer
    hides that layer's sums.

    Returns
    -------
    tuple of Sum
        From the embeddings to the head.
    """
    passed = chain(stream)
    known = set(passed)
    residuals = (stream.residual(op) for op in passed)
    return tuple(found for found in residuals if found is not None and stream.meeting_point(found.skip) in known)
