"""Witness: walk the residual stream from the head back to the embeddings."""

from __future__ import annotations

from irtools.decoder.stream import Stream, Sum

__all__ = ["walk"]


def walk(stream: Stream) -> tuple[Sum, ...]:
    """Find the residual sums by following the stream upwards.

    At a sum the walk goes on with the operand that all others are computed from; at any other
    op with the nearest op that all paths pass. Values that bypass layers (keys shared between
    layers, inputs injected into every layer) do not disturb it, because it never asks about
    paths beyond the next step.

    Returns
    -------
    tuple of Sum
        From the embeddings to the head.
    """
    found: list[Sum] = []
    current: int | None = stream.end.op
    while current is not None and current in stream.ops:
        residual = stream.residual(current)
        if residual is not None:
            found.append(residual)
            current = residual.skip
        else:
            carrier = stream.carrier(current)
            current = carrier if carrier is not None else stream.above(current)
    return tuple(reversed(found))
