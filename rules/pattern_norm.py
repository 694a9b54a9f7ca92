"""Patterns for normalisation over the hidden size."""

from __future__ import annotations

from irtools.authoring import Match, Mismatch, Probe, pattern

_WITHIN = {"Multiply", "Divide", "Add", "Sqrt", "Power", "ReduceMean", "Convert", "Subtract", "Reshape"}


@pattern("norm", "layer-norm", "MVN", priority=10)
def layer_norm(probe: Probe, op: int) -> Match | Mismatch:
    """An MVN over the last axis."""
    return probe.match("layer_norm", op, {"input": probe.inputs(op)[0]})


@pattern("norm", "rms-norm", "Multiply", "Divide", priority=20)
def rms_norm(probe: Probe, op: int) -> Match | Mismatch:
    """A value divided by its root mean square, ``x * (mean(x^2) + eps)^-0.5``, optionally scaled."""
    plain = None
    for above in probe.ancestors(op, stop=lambda above: probe.type(above) not in _WITHIN, limit=24):
        if probe.type(above) == "ReduceMean":
            squared = probe.inputs(above)[0]
            if probe.type(squared) not in ("Power", "Multiply"):
                plain = squared  # the mean that a layer norm subtracts
                continue
            value = probe.inputs(squared)[0]
            centred = probe.type(value) == "Subtract"
            return probe.match("layer_norm" if centred else "rms_norm", op, {"mean": above, "input": value})
    if plain is not None:
        return probe.fail("the mean above it is not of a square", plain)
    return probe.fail("no mean of a square above it", op)
