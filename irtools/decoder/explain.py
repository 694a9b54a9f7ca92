"""Why the other candidates were not taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from irtools.decoder.stack import DecoderLayer, Rejection
from irtools.decoder.verdicts import Evidence

__all__ = ["rejections"]


def rejections(
    evidence: Evidence, layers: Sequence[DecoderLayer], twins: Mapping[int, Sequence[int]]
) -> tuple[Rejection, ...]:
    """Every value that looks like a hidden state and is none.

    Parameters
    ----------
    evidence : Evidence
    layers : sequence of DecoderLayer
    twins : mapping of int to sequence of int
        By layer, ops that carry the same numbers as its hidden state.

    Returns
    -------
    tuple of Rejection
        By layer.
    """
    view = evidence.stream.view
    found: list[Rejection] = []
    for layer, members in zip(layers, evidence.grouping.layers(), strict=True):
        pieces = [evidence.pieces[member] for member in members]
        for piece, after in pairwise(pieces):
            reason = f"inside layer {layer.index}: what reads it next ({_block(after.feed_forward)}) mixes no tokens"
            found.append(Rejection(view.op_name(piece.sum.op), layer.index, reason))
        for piece in pieces:
            found += [
                Rejection(view.op_name(op), layer.index, f"one part of the sum {view.op_name(piece.sum.op)!r}")
                for op in piece.sum.inner
            ]
        if pieces[-1].sum.op not in (layer.source.op, *twins[layer.index]):
            final = layer.index == len(layers) - 1
            reason = "before the final norm: the head reads " if final else "the next layer starts from "
            reason += repr(layer.locator.producer)
            found.append(Rejection(view.op_name(pieces[-1].sum.op), layer.index, reason))
        reason = f"carries the same numbers as {layer.locator.producer!r}"
        found += [
            Rejection(view.op_name(op), layer.index, f"{reason}, {_unfit(evidence, op)}") for op in twins[layer.index]
        ]
        found += _hidden_adds(evidence, layer, {op for piece in pieces for op in (piece.sum.op, *piece.sum.inner)})
    return tuple(found)


def _block(feed_forward: str) -> str:
    return {"dense": "a dense feed-forward block", "experts": "experts"}.get(feed_forward, "a block")


def _unfit(evidence: Evidence, op: int) -> str:
    shape = evidence.stream.view.output(op).shape
    if len(shape) != 3:
        return f"but has rank {len(shape)}, not 3"
    return "which is nearer to the value itself"


def _hidden_adds(evidence: Evidence, layer: DecoderLayer, sums: set[int]) -> list[Rejection]:
    """Adds of hidden width inside a layer's branches."""
    view, found = evidence.stream.view, []
    for op in sorted(layer.ops & frozenset(view.by_type.get("Add", ()))):
        if op in sums or len(evidence.stream.sources[op]) < 2:
            continue
        shape = view.output(op).shape
        if len(shape) == 3 and shape[-1] == layer.shape[-1]:
            reason = f"inside a branch of layer {layer.index}: the residual stream goes past it"
            found.append(Rejection(view.op_name(op), layer.index, reason))
    return found
