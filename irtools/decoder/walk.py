"""Witness: walk along the residual stream from the lm_head back to the embeddings."""

from __future__ import annotations

from irtools.decoder.stream import Stream, Sum

__all__ = ["walk"]


def walk(stream: Stream) -> tuple[Sum, ...]:
    """Find the residual sums by following the stream upwards; return them from the embeddings to the lm_head.

    At a sum the walk continues at the operand that all others are computed from. At any other op it continues at the
    nearest op on all paths. It never looks beyond the next step, so values that bypass layers (keys shared between
    layers, inputs added to every layer) do not matter.
    """
    sums: list[Sum] = []
    current: int | None = stream.end.op
    while current is not None and current in stream.ops:
        residual = stream.residual(current)
        if residual is not None:
            sums.append(residual)
            current = residual.skip
        else:
            carrier = stream.carrier(current)
            current = carrier if carrier is not None else stream.above(current)
    return tuple(reversed(sums))
