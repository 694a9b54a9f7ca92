"""Patterns for the feed-forward sublayer: dense blocks and experts."""

from __future__ import annotations

from irtools.authoring import Match, Mismatch, Probe, pattern


@pattern("feed_forward", "experts", "TopK", priority=10)
def experts(probe: Probe, op: int) -> Match | Mismatch:
    """A TopK over router scores, which are a MatMul of the residual stream with constant weights."""
    scores = probe.inputs(op)[0]
    if not probe.on_stream(scores):
        return probe.fail("its scores do not come from the residual stream", scores)
    for above in (scores, *probe.ancestors(scores, stop=lambda above: probe.type(above) == "MatMul", limit=64)):
        if probe.type(above) == "MatMul":
            if not any(probe.constant(source) for source in probe.inputs(above)):
                return probe.fail("the MatMul above it has no constant weights, so it is not a router", above)
            return probe.match("experts", op, {"router": above})
    return probe.fail("no router (a MatMul with constant weights) lies above it", op)


@pattern("feed_forward", "dense", "MatMul", "Convolution", priority=20)
def dense(probe: Probe, op: int) -> Match | Mismatch:
    """A MatMul or convolution of the residual stream with constant weights."""
    sources = probe.inputs(op)
    if not any(probe.constant(source) for source in sources):
        return probe.fail("it multiplies two activations", op)
    if not probe.streaming(op):
        return probe.fail("its input does not come from the residual stream", op)
    return probe.match("dense", op)
