"""Checks that a stack is a decoder: causal, and without cross-attention."""

from __future__ import annotations

from collections.abc import Iterable

from irtools.decoder.mixers import MIXERS
from irtools.decoder.stream import SHAPE_OPS
from irtools.decoder.sublayer import Sublayer
from irtools.graph.closure import closure
from irtools.graph.view import GraphView

__all__ = ["cross_attention", "looks_causal"]

_COMPARISONS = {"Less", "LessEqual", "Greater", "GreaterEqual"}
_IN_ORDER = {kind for kind, mixer in MIXERS.items() if mixer.in_order}


def cross_attention(sublayers: Iterable[Sublayer]) -> Sublayer | None:
    """The first sublayer whose keys come from outside the residual stream."""
    return next((sublayer for sublayer in sublayers if sublayer.mixer == "cross_attention"), None)


def looks_causal(view: GraphView, sublayers: Iterable[Sublayer]) -> bool:
    """True if any token mixer keeps a state, masks the future, or runs in order.

    An encoder has none of these: its attention caches nothing, and its mask only hides padding.
    """
    masks: dict[int, bool] = {}
    for sublayer in sublayers:
        if sublayer.states or sublayer.mixer in _IN_ORDER:
            return True
        match = sublayer.mixing_match
        if match is None:
            continue
        if view.data(match.anchor).get("causal", "false") == "true":
            return True
        for mask in (op for name, op in match.ops.items() if name.startswith("mask")):
            if mask not in masks:
                masks[mask] = _hides_future(view, mask)
            if masks[mask]:
                return True
    return False


def _hides_future(view: GraphView, mask: int) -> bool:
    """True if the mask compares positions with positions, or reads a constant table of both."""
    if _is_table(view, mask):
        return True

    def moving(op: int) -> list[int]:
        return [source for source in view.producers(op) if not view.constant(source)]

    for op in closure([mask], lambda op: () if view.op_type(op) in SHAPE_OPS else moving(op)):
        kind = view.op_type(op)
        # A table that a MatMul or Gather reads holds weights, not a mask.
        tables = () if kind in ("MatMul", "Gather") else view.producers(op)
        if (kind in _COMPARISONS and len(moving(op)) == 2) or any(_is_table(view, table) for table in tables):
            return True
    return False


def _is_table(view: GraphView, op: int) -> bool:
    """True for a constant whose last two axes have the same size."""
    shape = view.output_shape(op) if view.constant(op) else ()
    return len(shape) >= 2 and shape[-1] == shape[-2] > 1
