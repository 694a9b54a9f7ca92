"""Patterns for the start of the residual stream."""

from __future__ import annotations

from irtools.authoring import Match, Mismatch, Probe, pattern
from irtools.ir.op import FLOATS

_SAME_IDS = {"Convert", "Reshape", "Squeeze", "Unsqueeze", "Clamp", "Maximum", "Minimum", "Select", "Multiply"}


@pattern("embedding", "token-embedding", "Gather", "Embedding", "EmbeddingBagOffsetsSum", priority=10)
def token_embedding(probe: Probe, op: int) -> Match | Mismatch:
    """A Gather of rows from a constant table, indexed by an integer input of the model.

    The input may be converted or reshaped first, or have its image tokens replaced. A Gather
    with computed indices (Range, ShapeOf, CumSum) is a positional embedding.
    """
    sources = probe.inputs(op)
    if len(sources) < 2 or not probe.constant(sources[0]):
        return probe.fail("its data is not a constant table", op)
    if probe.constant(sources[1]):
        return probe.fail("its indices are constant", op)
    table = probe.input_shape(op, 0)
    if len(table) != 2:
        return probe.fail(f"its table has rank {len(table)}, not 2 (rows and width)", op)
    start = probe.upward(sources[1], _SAME_IDS)
    if probe.type(start) != "Parameter":
        return probe.fail(f"its indices are computed by {probe.type(start)}, not taken from a model input", start)
    element = probe.view.output(start).element_type
    if element not in ("i64", "i32", "u32", "u64"):
        return probe.fail(f"its index input is {element}, not an integer type", start)
    return probe.match("tokens", op, {"table": sources[0], "ids": start})


@pattern("embedding", "embeddings-input", "Parameter", priority=20)
def embeddings_input(probe: Probe, op: int) -> Match | Mismatch:
    """A floating-point model input of rank 3: `[batch, sequence, width]`."""
    port = probe.view.output(op)
    if port.element_type not in FLOATS:
        return probe.fail(f"the input is {port.element_type}, not a floating-point type", op)
    if len(port.shape) != 3:
        return probe.fail(f"the input has rank {len(port.shape)}, not 3", op)
    return probe.match("embeddings", op)
