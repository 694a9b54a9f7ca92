"""Reasons for rejecting the other candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from irtools.decoder.stack import DecoderLayer, Rejection
from irtools.decoder.verdicts import Evidence

__all__ = ["rejections"]

_BLOCKS = {"dense": "a dense feed-forward block", "experts": "experts"}


def rejections(
    evidence: Evidence, layers: Sequence[DecoderLayer], twins: Mapping[int, Sequence[int]]
) -> tuple[Rejection, ...]:
    """Values that look like a hidden state but are not one, ordered by layer.

    ``twins`` are, by layer, the ops that carry the same numbers as its hidden state.
    """
    view = evidence.stream.view
    rejected: list[Rejection] = []
    for layer, members in zip(layers, evidence.grouping.layers(), strict=True):
        sublayers = [evidence.sublayers[member] for member in members]
        reasons: list[tuple[int, str]] = []
        for sublayer, after in pairwise(sublayers):
            reader = _BLOCKS.get(after.feed_forward, "a block")
            reasons.append((sublayer.sum.op, f"inside layer {layer.index}: the next block ({reader}) mixes no tokens"))
        for sublayer in sublayers:
            reasons += [(op, f"a partial sum of {view.op_name(sublayer.sum.op)!r}") for op in sublayer.sum.inner]
        if sublayers[-1].sum.op not in (layer.source.op, *twins[layer.index]):
            final = layer.index == len(layers) - 1
            start = "before the final norm: the head reads" if final else "the next layer starts from"
            reasons.append((sublayers[-1].sum.op, f"{start} {layer.locator.producer!r}"))
        same = f"carries the same numbers as {layer.locator.producer!r}"
        reasons += [(op, f"{same}, {_unfit(evidence, op)}") for op in twins[layer.index]]
        sums = {op for sublayer in sublayers for op in (sublayer.sum.op, *sublayer.sum.inner)}
        branch = f"inside a branch of layer {layer.index}: the residual stream bypasses it"
        reasons += [(op, branch) for op in _hidden_adds(evidence, layer, sums)]
        rejected += [Rejection(view.op_name(op), layer.index, reason) for op, reason in reasons]
    return tuple(rejected)


def _unfit(evidence: Evidence, op: int) -> str:
    shape = evidence.stream.view.output(op).shape
    if len(shape) != 3:
        return f"but has rank {len(shape)}, not 3"
    return "which is nearer to the original value"


def _hidden_adds(evidence: Evidence, layer: DecoderLayer, sums: set[int]) -> Iterator[int]:
    """Adds of the hidden size inside a layer's branches."""
    view = evidence.stream.view
    for op in sorted(layer.ops & frozenset(view.by_type.get("Add", ()))):
        if op not in sums and len(evidence.stream.sources[op]) > 1:
            shape = view.output(op).shape
            if len(shape) == 3 and shape[-1] == layer.shape[-1]:
                yield op
