"""Where an MTP head joins the embeddings of the next token with the hidden state."""

from __future__ import annotations

from irtools.graph.match import Match, Mismatch, Probe, pattern

_NORMS = {"Multiply", "Divide", "Power", "ReduceMean", "Add", "Sqrt", "MVN", "Convert", "Subtract"}


@pattern("mtp_fusion", "concat-projection", "Concat")
def concat_projection(probe: Probe, op: int) -> Match | Mismatch:
    """``MatMul(Concat(norm(embeddings), norm(hidden states)), weights)`` from twice the width to the width.

    The kind says which input comes first: ``embeddings_first`` as the runtime's models have it,
    ``hidden_first``, or ``unnamed`` when the inputs have other names.
    """
    sources = probe.inputs(op)
    if len(sources) != 2:
        return probe.fail(f"it joins {len(sources)} values, not two", op)
    width = probe.shape(op)[-1:] or (-1,)
    halves = [probe.input_shape(op, index)[-1:] for index in (0, 1)]
    if halves[0] != halves[1] or not halves[0] or width[0] != 2 * halves[0][0]:
        return probe.fail("its operands are not two values of the same width", op)
    products = [consumer.op for consumer in probe.view.consumers(op) if probe.type(consumer.op) == "MatMul"]
    if not products or not any(probe.constant(source) for source in probe.inputs(products[0])):
        return probe.fail("no MatMul with constant weights reads it", op)
    starts = [_input_above(probe, source) for source in sources]
    if None in starts:
        return probe.fail("an operand is not a normalised input of the model", op)
    names = [{probe.view.op_name(start), *probe.view.output(start).names} for start in starts if start is not None]
    first = "embeddings_first" if "inputs_embeds" in names[0] else "hidden_first"
    kind = first if "inputs_embeds" in names[0] | names[1] else "unnamed"
    found = {"first": starts[0] or 0, "second": starts[1] or 0, "projection": products[0]}
    return probe.match(kind, op, found)


def _input_above(probe: Probe, op: int) -> int | None:
    """The one input of the model that a value is a normalised form of."""
    if probe.type(op) == "Parameter":
        return op
    found = {
        above
        for above in probe.ancestors(op, stop=lambda above: probe.type(above) not in _NORMS, limit=64)
        if probe.type(above) == "Parameter"
    }
    return found.pop() if len(found) == 1 else None
