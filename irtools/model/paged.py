"""What the paged-attention conversion will make of a part, told from the file alone."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.model.part import Part, State

__all__ = ["converts_before_attention", "unconverted_states"]

_KEY, _VALUE = 1, 2


def _above_cache(part: Part, attention: int, operand: int) -> tuple[set[int], bool]:
    """Ops between an operand of an attention and the states above it; whether there is a state."""
    graph = part.graph
    inputs = graph.inputs(attention)
    if len(inputs) <= operand:
        return set(), False
    start = inputs[operand].op
    seen, pending, cached = {start}, [start], False
    while pending:
        key = pending.pop()
        if graph.op_type(key) == "ReadValue":
            cached = True
            continue
        if graph.op_type(key) in ("ShapeOf", "MatMul") or graph.constant(key):
            continue
        for source in graph.producers(key):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return seen, cached


def converts_before_attention(part: Part) -> Iterator[int]:
    """Converts between a cached state and the key or value operand of an attention."""
    graph, found = part.graph, set()
    for attention in part.attentions:
        for operand in (_KEY, _VALUE):
            above, cached = _above_cache(part, attention, operand)
            if not cached:
                continue
            for key in above:
                if graph.op_type(key) == "Convert" and key not in found and _below_state(part, key, above):
                    found.add(key)
    yield from sorted(found)


def _below_state(part: Part, convert: int, within: set[int]) -> bool:
    """Whether a conversion is below a ReadValue, or below the Concat that a ReadValue joins."""
    graph = part.graph
    return any(graph.op_type(key) == "ReadValue" for key in part.ancestors([convert], through_shapes=False) & within)


_HANDS_ON = {
    "Broadcast",
    "Concat",
    "Convert",
    "Gather",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "StridedSlice",
    "Transpose",
    "Unsqueeze",
    "VariadicSplit",
}
_RECURRENCES = {"Loop", "TensorIterator", "GroupConvolution", "Convolution", "ScatterUpdate", "ScatterElementsUpdate"}


def unconverted_states(part: Part) -> Iterator[State]:
    """States that no fused attention, convolution or recurrence reads.

    A state of fixed shape counts as converted without looking further: which recurrences the
    conversion knows is not to be told from the file.
    """
    for state in part.states:
        if state.reads and (state.grows or len(state.shape) == 3) and not _managed(part, state.reads[0]):
            yield state


def _managed(part: Part, read: int) -> bool:
    graph, seen, pending = part.graph, {read}, [read]
    while pending:
        for consumer in graph.consumers(pending.pop()):
            kind = graph.op_type(consumer.op)
            if kind == "ScaledDotProductAttention" and consumer.input in (_KEY, _VALUE):
                return True
            if kind in _RECURRENCES:
                return True
            if kind in _HANDS_ON and consumer.op not in seen:
                seen.add(consumer.op)
                pending.append(consumer.op)
    return False
