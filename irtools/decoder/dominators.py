"""Witness: dominators, the ops on every path from the embeddings to the lm_head."""

from __future__ import annotations

import networkx as nx

from irtools.decoder.stream import Stream, Sum

__all__ = ["chain", "dominating_sums"]

_ROOT = -1  # layer ids are not negative


def chain(stream: Stream) -> tuple[int, ...]:
    """Layer ids of the meeting points on every path from the embeddings to the lm_head input, in order.

    A path passes an op with one input from the stream exactly if it passes that input. The graph is therefore
    reduced to the embeddings and the ops with several inputs: less than half of the ops, and half the time.
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
    dominators: list[int] = []
    current = stream.meeting_point(stream.end.op)
    while current != _ROOT:
        dominators.append(current)
        current = nearest.get(current, _ROOT)
    return tuple(reversed(dominators))


def dominating_sums(stream: Stream) -> tuple[Sum, ...]:
    """Find the residual sums among the dominators of the lm_head input, from the embeddings to the lm_head.

    A dominating Add is a residual sum if its skip value comes from a dominator, too. Reshapes in the stream and sums
    of three values do not matter. A value that bypasses a layer hides that layer's sums.
    """
    dominators = dict.fromkeys(chain(stream))
    sums = map(stream.residual, dominators)
    return tuple(
        residual for residual in sums if residual is not None and stream.meeting_point(residual.skip) in dominators
    )
