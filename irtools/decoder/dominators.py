"""Witness: dominators, the ops on every path from the embeddings to the lm_head."""

from __future__ import annotations

from irtools.decoder.stream import Stream, Sum

__all__ = ["chain", "dominating_sums"]


def chain(stream: Stream) -> tuple[int, ...]:
    """Layer ids of the meeting points on every path from the embeddings to the lm_head input, in order.

    All ops of the stream are on such a path. So an op is on every path exactly if no edge leads past it, from an op
    before it in topological order to one after it.
    """
    rank = stream.rank
    found = []
    earliest = rank[stream.end.op]  # the first op that the ops after the current one read
    for op in sorted(stream.ops, key=rank.__getitem__, reverse=True):
        if rank[op] <= earliest:
            found.append(op)
        sources = stream.sources[op]
        if not sources:
            earliest = -1  # an embedding: the paths begin at it
        for source in sources:
            if rank[source] < earliest:
                earliest = rank[source]
    return tuple(op for op in reversed(found) if len(stream.sources[op]) != 1)


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
