"""Values of a piece that provably have the shape of a value outside of it.

Exporters compute the length of the sequence, or of the cache, from the shape of a value in the first layer, and
use it in every layer. A piece of later layers has a value of its own that is computed in the same way from the
hidden state, which has the same shape in all layers. The length can be read from that value instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from irtools.graph.view import GraphView, Source
from irtools.ir.op import FLOATS, op_types
from irtools.ir.scan import BODY_OWNERS
from irtools.surgery.reach import state_writers

__all__ = ["SameShape", "rank_unknown"]

_DEEPEST = 150


# Ops whose output has the shape of the first input.
_SAME = op_types(
    "Abs Clamp Convert Cos Elu Erf Exp Floor Gelu HSigmoid HSwish HardSigmoid Log MVN Mish Negative "
    "NormalizeL2 RMS ReLU Selu Sigmoid Sin SoftMax SoftPlus Softmax Sqrt Swish Tanh"
)
_BROADCAST = op_types("Add Divide Maximum Minimum Multiply Power SquaredDifference Subtract")
_REDUCE = op_types("ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum")
# Ops whose output shape follows from the shapes of the inputs and the values of the integer inputs.
_OTHERS = op_types(
    "Broadcast Concat Convolution FakeQuantize Gather GatherElements GroupConvolution MatMul PRelu Pad "
    "Reshape ScaledDotProductAttention Select Slice Split Squeeze StridedSlice Tile Transpose Unsqueeze "
    "VariadicSplit"
)
_REGULAR = _SAME | _BROADCAST | _REDUCE | _OTHERS


def rank_unknown(view: GraphView, source: Source) -> bool:
    """True if a port without dimensions has an unknown rank; the XML spells it like a scalar.

    The branches of an If can return different ranks, and the rank of values computed from them is unknown too.
    """
    pending, seen = [source], {source}
    while pending:  # by hand: ``closure`` takes ops, and this walk goes over values
        value = pending.pop()
        port, kind = view.port(value), view.op_type(value.op)
        if port is None or port.shape or view.constant(value.op):
            continue
        if kind in BODY_OWNERS or (kind == "Parameter" and view.data(value.op).get("shape") == "..."):
            return True
        fresh = set(view.inputs(value.op)) - seen
        seen |= fresh
        pending += fresh
    return False


class SameShape:
    """Comparison of shapes by the way the values are computed.

    Two values get the same key only if their shapes agree for every input of the model, provided that all
    values of ``stream`` have the same shape. The computation of the values of ``stops`` is not followed.
    """

    def __init__(self, view: GraphView, stream: Collection[Source] = (), stops: Collection[Source] = ()) -> None:
        self.view = view
        self._stream, self._stops = frozenset(stream), frozenset(stops)
        self._keys: dict[tuple[object, ...], int] = {}
        self._answers: dict[tuple[object, ...], int] = {}
        self._reduced: dict[int, set[int]] = {}
        self._writers = state_writers(view)

    def like(self, source: Source, ops: Iterable[int]) -> Iterator[Source]:
        """Yield the values of ops that have the shape of a given value."""
        view = self.view
        port, kind = view.port(source), view.op_type(source.op)
        if port is None:
            return
        wanted = self._shape(source, (), 0)
        for op in ops:
            if op != source.op and view.op_type(op) == kind:
                for other in view.op(op).outputs:
                    value = Source(op, other.id)
                    if other.shape == port.shape and self._shape(value, (), 0) == wanted:
                        yield value

    def in_stream(self, source: Source) -> bool:
        """True if a value has the common shape of ``stream``."""
        return self._shape(source, (), 0) == self._key("stream")

    def same_value(self, one: Source, two: Source) -> bool:
        """True if two values are computed in the same way from the same inputs."""
        return self._value(one, (), 0) == self._value(two, (), 0)

    def _key(self, *parts: object) -> int:
        """Return a number that is unique to a description."""
        return self._keys.setdefault(parts, len(self._keys))

    def _remembered(self, mode: str, source: Source, env: tuple[str, ...], depth: int) -> int:
        if depth > _DEEPEST:
            return self._key("unknown", source)
        query = (mode, source, env)
        if query not in self._answers:
            work = self._read_shape if mode == "shape" else self._read_value
            self._answers[query] = work(source, env, depth + 1)
        return self._answers[query]

    def _shape(self, source: Source, env: tuple[str, ...], depth: int) -> int:
        return self._remembered("shape", source, env, depth)

    def _value(self, source: Source, env: tuple[str, ...], depth: int) -> int:
        return self._remembered("value", source, env, depth)

    def _read_shape(self, source: Source, env: tuple[str, ...], depth: int) -> int:
        view = self.view
        kind, port = view.op_type(source.op), view.port(source)
        if source in self._stream:
            return self._key("stream")
        if port is None or source in self._stops:
            return self._key("unknown", source)
        if view.constant(source.op) and min(port.shape, default=0) >= 0:
            return self._key("constant", port.shape)
        if kind == "ReadValue":
            return self._read_state(source, env, depth)
        if kind not in _REGULAR:
            return self._key("unknown", source)
        inputs = view.inputs(source.op)
        if kind in _SAME and inputs:
            return self._shape(inputs[0], env, depth)
        if kind in _BROADCAST and len(inputs) == 2:
            for whole, other in (inputs, inputs[::-1]):
                if self._widens_nothing(whole, other, env, depth):
                    return self._shape(whole, env, depth)
        return self._computed("shape", source, env, depth)

    def _widens_nothing(self, whole: Source, other: Source, env: tuple[str, ...], depth: int) -> bool:
        """True if a value keeps its shape when it is broadcast with another value."""
        one, two = self.view.port(whole), self.view.port(other)
        if one is None or two is None or not one.shape or len(two.shape) > len(one.shape):
            return False
        ends = one.shape[len(one.shape) - len(two.shape) :]
        if all(dim in (1, at) and dim > 0 for dim, at in zip(two.shape, ends, strict=True)):
            return bool(two.shape) or self.view.constant(other.op)
        wide, narrow = self._shape(whole, env, depth), self._shape(other, env, depth)
        return wide == narrow or narrow in self._reduced.get(wide, ())

    def _read_state(self, source: Source, env: tuple[str, ...], depth: int) -> int:
        """Key a state by two shapes: it has the first shape initially and the second afterwards."""
        attributes = self.view.data(source.op)
        variable = attributes.get("variable_id", "")
        if variable in env:
            return self._key("itself", env.index(variable))
        writers, first = self._writers.get(variable, []), self.view.inputs(source.op)
        if len(writers) != 1 or len(first) != 1:
            return self._key("unknown", source)
        inner = (*env, variable)
        new = self._shape(self.view.inputs(writers[0])[0], inner, depth)
        return self._key("state", attributes.get("variable_shape"), self._shape(first[0], inner, depth), new)

    def _computed(self, mode: str, source: Source, env: tuple[str, ...], depth: int) -> int:
        view = self.view
        inputs = []
        for value in view.inputs(source.op):
            port = view.port(value)
            whole = mode == "value" or port is None or port.element_type not in FLOATS
            inputs.append(self._value(value, env, depth) if whole else self._shape(value, env, depth))
        attributes, kind = view.data(source.op), view.op_type(source.op)
        key = self._key(mode, kind, tuple(sorted(attributes.items())), view.output_index(source), tuple(inputs))
        if mode == "shape" and kind in _REDUCE and attributes.get("keep_dims") in ("true", "1", "True"):
            self._reduced.setdefault(inputs[0], set()).add(key)
        return key

    def _read_value(self, source: Source, env: tuple[str, ...], depth: int) -> int:
        view = self.view
        kind = view.op_type(source.op)
        if kind in ("Const", "Constant"):  # equal attributes: the same bytes of the .bin
            return self._key("bytes", *sorted(view.data(source.op).items()))
        if kind == "ShapeOf":
            shape = self._shape(view.inputs(source.op)[0], env, depth)
            return self._key("shape of", shape, *sorted(view.data(source.op).items()))
        if kind not in _REGULAR:
            return self._key("unknown", source)
        return self._computed("value", source, env, depth)
