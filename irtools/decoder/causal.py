"""Whether a stack is a decoder: tokens see only earlier ones, and nothing of another model."""

from __future__ import annotations

from collections.abc import Iterable

from irtools.decoder.stream import SHAPE_OPS
from irtools.decoder.stretch import Stretch
from irtools.graph.view import GraphView

__all__ = ["cross_attention", "looks_causal"]

_COMPARISONS = {"Less", "LessEqual", "Greater", "GreaterEqual"}
_IN_ORDER = {"linear_attention", "state_space", "convolution"}


def cross_attention(pieces: Iterable[Stretch]) -> Stretch | None:
    """The first stretch whose keys come from somewhere else than the residual stream."""
    return next((piece for piece in pieces if piece.mixer == "cross_attention"), None)


def looks_causal(view: GraphView, pieces: Iterable[Stretch]) -> bool:
    """Whether any token mixer keeps a state, masks the future, or runs in order.

    An encoder's attention has none of these: no cached values, and a mask that only hides
    padding.
    """
    masks: dict[int, bool] = {}
    for piece in pieces:
        if piece.states or piece.mixer in _IN_ORDER:
            return True
        if piece.mixing_branch is None:
            continue
        match = piece.mixing_branch[1]
        if view.data(match.anchor).get("causal", "false") == "true":
            return True
        for mask in (op for name, op in match.ops.items() if name.startswith("mask")):
            if mask not in masks:
                masks[mask] = _hides_future(view, mask)
            if masks[mask]:
                return True
    return False


def _hides_future(view: GraphView, mask: int) -> bool:
    """Whether positions are compared with positions, or a constant table of both is used."""
    if _is_table(view, mask):
        return True
    seen, pending = {mask}, [mask]
    while pending:
        op = pending.pop()
        kind = view.op_type(op)
        sources = view.producers(op)
        if kind in _COMPARISONS and sum(not view.constant(source) for source in sources) == 2:
            return True
        if kind not in ("MatMul", "Gather") and any(_is_table(view, source) for source in sources):
            return True  # a table that is looked up or multiplied holds weights, not a mask
        if kind not in SHAPE_OPS:
            fresh = [source for source in sources if source not in seen and not view.constant(source)]
            seen.update(fresh)
            pending += fresh
    return False


def _is_table(view: GraphView, op: int) -> bool:
    """A constant with a square of positions in its last two axes."""
    if not view.constant(op):
        return False
    ports = view.op(op).outputs
    shape = ports[0].shape if ports else ()
    return len(shape) >= 2 and shape[-1] == shape[-2] > 1
