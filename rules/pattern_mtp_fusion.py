"""Pattern for the fusion of next-token embeddings and hidden state in an MTP head."""

from __future__ import annotations

from irtools.authoring import Match, Mismatch, Probe, pattern

_NORMS = {"Multiply", "Divide", "Power", "ReduceMean", "Add", "Sqrt", "MVN", "Convert", "Subtract"}


@pattern("mtp_fusion", "concat-projection", "Concat")
def concat_projection(probe: Probe, op: int) -> Match | Mismatch:
    """``MatMul(Concat(norm(embeddings), norm(hidden states)), weights)`` from twice the width to the width.

    The kind is the order of the inputs: ``embeddings_first`` as in the models that the runtime
    supports, ``hidden_first``, or ``unnamed`` if the inputs have other names.
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
    return probe.match(kind, op, {"first": starts[0] or 0, "second": starts[1] or 0, "projection": products[0]})


def _input_above(probe: Probe, op: int) -> int | None:
    """The single model input that a value normalises; None if there is no such input."""
    if probe.type(op) == "Parameter":
        return op
    ancestors = probe.ancestors(op, stop=lambda above: probe.type(above) not in _NORMS, limit=64)
    inputs = {above for above in ancestors if probe.type(above) == "Parameter"}
    return inputs.pop() if len(inputs) == 1 else None
