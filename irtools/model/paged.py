"""Predictions about the paged-attention conversion of a part, from the file alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from irtools.graph.closure import closure
from irtools.ir.op import op_types
from irtools.model.part import PartFacts, State

__all__ = ["converts_before_attention", "unconverted_states"]

_KEY, _VALUE = 1, 2


def _above(part: PartFacts, attention: int, operand: int) -> set[int]:
    """Ops between an operand of an attention and the states above it, both included."""
    graph = part.graph

    def producers(key: int) -> Iterable[int]:
        stop = graph.op_type(key) in ("ReadValue", "ShapeOf", "MatMul") or graph.constant(key)
        return () if stop else graph.producers(key)

    return closure(graph.producers(attention)[operand : operand + 1], producers)


def converts_before_attention(part: PartFacts) -> Iterator[int]:
    """Converts between a cached state and the key or value operand of an attention; of several in a row, the first."""
    graph = part.graph
    converts: set[int] = set()
    for attention in part.attentions:
        for operand in (_KEY, _VALUE):
            above = _above(part, attention, operand)
            reads = {key for key in above if graph.op_type(key) == "ReadValue"}
            for key in above - converts if reads else ():
                # The operand can also depend on converts that are beside the state, not below it.
                if graph.op_type(key) == "Convert" and reads & part.ancestors([key], through_shapes=False):
                    converts.add(key)
    yield from sorted(key for key in converts if converts.isdisjoint(graph.producers(key)))


_VALUE_PRESERVING = op_types(
    "Broadcast Concat Convert Gather Reshape Slice Split Squeeze StridedSlice Transpose Unsqueeze VariadicSplit"
)
_RECURRENCES = {"Loop", "TensorIterator", "GroupConvolution", "Convolution", "ScatterUpdate", "ScatterElementsUpdate"}


def unconverted_states(part: PartFacts) -> Iterator[State]:
    """States that no fused attention, convolution or recurrence reads.

    A state of fixed shape always counts as converted, because the file does not show which
    recurrences the conversion supports.
    """
    for state in part.states:
        if state.reads and (state.grows or len(state.shape) == 3) and not _managed(part, state.reads[0]):
            yield state


def _managed(part: PartFacts, read: int) -> bool:
    graph = part.graph

    def preserved(key: int) -> Iterator[int]:
        return (consumer.op for consumer in graph.consumers(key) if graph.op_type(consumer.op) in _VALUE_PRESERVING)

    consumers = [consumer for key in closure([read], preserved) for consumer in graph.consumers(key)]
    return any(
        graph.op_type(consumer.op) in _RECURRENCES
        or (graph.op_type(consumer.op) == "ScaledDotProductAttention" and consumer.input in (_KEY, _VALUE))
        for consumer in consumers
    )
