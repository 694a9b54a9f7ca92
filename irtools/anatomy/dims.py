"""Letters for the dynamic dimensions of single values: batch, tokens of the call, tokens in the state.

The IR records a dynamic dimension as ``-1`` everywhere. The letters start at the model inputs, the states and the
residual stream, and follow the ops from there. A dimension that cannot be followed is ``?``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from irtools.anatomy.describe import letters
from irtools.graph.view import GraphView, Source
from irtools.ir.op import DYNAMIC, op_types
from irtools.model.integers import GraphIntegers
from irtools.text import whole_number

__all__ = ["Dims"]

Shape = tuple[str, ...]
"""A dimension each: a number, a letter, a product of letters, or ``?``."""

_UNKNOWN = "?"
_TIMES = "\N{MIDDLE DOT}"
"""Sign in a dimension that is a product: ``B\N{MIDDLE DOT}S`` tokens of all sequences."""
_LENGTHS = frozenset({"P", "S"})
_HUGE = 2**31 - 1
"""End of a slice that means the end of the dimension."""
_ALIGNED = op_types(
    "Abs Add BitwiseAnd BitwiseNot BitwiseOr Ceiling Clamp Convert ConvertLike Cos CumSum Divide Elu Equal Erf Exp "
    "FakeQuantize Floor FloorMod Gelu Greater GreaterEqual HSigmoid HSwish Less LessEqual Log LogSoftmax LogicalAnd "
    "LogicalNot LogicalOr LogicalXor Maximum Minimum Mish Mod Multiply MVN Negative NormalizeL2 NotEqual PRelu Power "
    "ReadValue Relu ReLU Result RMS ReverseSequence Select Sigmoid Sign Sin SoftMax SoftPlus Softmax SoftSign Sqrt "
    "SquaredDifference Subtract Swish Tanh"
)
"""Ops whose dimensions are those of their inputs, aligned at the last one."""


class Dims:
    """Shapes with letters, for the values of one graph.

    Parameters
    ----------
    view : GraphView
    stream : collection of int
        Ops whose value is that of the residual stream, if it has the rank and width for it.
    blocks : collection of int
        Ops between those. Most values of that rank and width have the same dimensions.
    hidden : int
        Width of the residual stream; 0 without one.
    integers : GraphIntegers
        Constants that shape the graph.
    """

    def __init__(
        self, view: GraphView, stream: Collection[int], blocks: Collection[int], hidden: int, integers: GraphIntegers
    ) -> None:
        self.view = view
        self.stream = stream
        self.blocks = blocks
        self._hidden = hidden
        self._integers = integers
        self._shapes: dict[int, Shape | None] = {}
        self._values: dict[int, Shape | None] = {}

    def text(self, source: Source) -> str:
        """Shape of a value, such as ``[B, 4, S, 8]``."""
        return f"[{', '.join(self.of(source))}]"

    def of(self, source: Source) -> Shape:
        """Dimensions of a value."""
        shape = self.view.shape(source)
        if DYNAMIC not in shape:
            return tuple(map(str, shape))
        self._follow(source.op)
        return self._written(source)

    def _written(self, source: Source) -> Shape:
        """The shape in the file, with the letters that were found for the op."""
        shape, found = self.view.shape(source), self._shapes.get(source.op)
        if found is None or len(found) != len(shape):
            found = (_UNKNOWN,) * len(shape)
        known = (letter if letter[:1].isalpha() else _UNKNOWN for letter in found)
        return tuple(letter if dim == DYNAMIC else str(dim) for dim, letter in zip(shape, known, strict=True))

    def _follow(self, op: int) -> None:
        """Find the letters of an op and of all ops before it, down to values whose letters are known at once."""
        pending, found = [op], []
        seen = set(pending)
        while pending:
            current = pending.pop()
            if current in self._shapes:
                continue
            found.append(current)
            start = self._start(current)
            if start is not None:
                self._shapes[current], self._values[current] = start, None
                continue
            fresh = [source for source in self.view.producers(current) if source not in seen]
            seen.update(fresh)
            pending += fresh
        for current in sorted(found, key=self.view.rank.__getitem__):
            if current not in self._shapes:
                self._find(current)

    def _find(self, op: int) -> None:
        """Find the letters of an op whose inputs are known."""
        try:
            self._shapes[op] = self._completed(op, self._inferred(op))
            self._values[op] = self._computed(op)
        except (IndexError, ValueError):  # a value of unknown rank has no dimensions
            self._shapes[op] = self._values[op] = None

    def found(self, op: int, like: Mapping[int, int]) -> tuple[Shape | None, Shape | None]:
        """Letters of an op and, for a vector of integers, its elements; ``like`` has ops with those of the inputs."""
        for source in self.view.producers(op):
            known = like.get(source, source)
            self._shapes[source], self._values[source] = self._shapes.get(known), self._values.get(known)
        start = self._start(op)
        if start is None:
            self._find(op)
        else:
            self._shapes[op], self._values[op] = start, None
        return self._shapes[op], self._values[op]

    def _start(self, op: int) -> Shape | None:
        """Dimensions that follow from the meaning of a value: an input, a state, the residual stream."""
        view, kind = self.view, self.view.op_type(op)
        shape = view.output_shape(op)
        on_stream = op in self.stream and self._wide(shape)
        if kind == "Parameter":
            name = view.input_name(op) if view.outputs(op) else ""
            found = letters(shape, name) or letters(shape, stream=on_stream)
        elif kind == "ReadValue":
            found = letters(shape, state=True)
        elif on_stream:
            found = letters(shape, stream=True)
        else:
            return None
        return tuple(found.get(place, _UNKNOWN) if dim == DYNAMIC else str(dim) for place, dim in enumerate(shape))

    def _wide(self, shape: Sequence[int]) -> bool:
        return len(shape) == 3 and shape[-1] == self._hidden

    def _completed(self, op: int, found: Shape | None) -> Shape | None:
        """Dimensions in which the letter of the residual stream replaces ``?``, if the first one agrees with it."""
        if found is None or _UNKNOWN not in found or op not in self.blocks:
            return found
        shape = self.view.output_shape(op)
        usual = letters(shape, stream=True) if self._wide(shape) else {}
        if len(found) != len(shape) or found[0] not in ("1", usual.get(0, str(shape[0]))):
            return found
        return tuple(usual.get(place, dim) if dim == _UNKNOWN else dim for place, dim in enumerate(found))

    # -- dimensions ----------------------------------------------------------------------

    def _inferred(self, op: int) -> Shape | None:
        kind, sources = self.view.op_type(op), self.view.inputs(op)
        if self.view.constant(op) or not sources or not self.view.op(op).outputs:
            return None
        inputs = [self._written(source) for source in sources]
        if kind in _ALIGNED:
            return _aligned(inputs)
        rule = _RULES.get(kind)
        return rule(self, op, inputs) if rule is not None else None

    def _ints(self, op: int, index: int) -> tuple[int, ...] | None:
        """Constant integers at an input."""
        sources = self.view.inputs(op)
        values = self._integers.of(sources[index]) if index < len(sources) else None
        found = tuple(value for value in values or () if value is not None)
        return found if values is not None and len(found) == len(values) else None

    def _axis(self, op: int, index: int, rank: int) -> int | None:
        """One axis at an input, counted from the first dimension."""
        values = self._ints(op, index)
        if values is None or len(values) != 1 or not -rank <= values[0] < rank:
            return None
        return values[0] % rank

    def _transpose(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        order = self._ints(op, 1)
        if order is None or sorted(order) != list(range(len(inputs[0]))):
            return None
        return tuple(inputs[0][axis] for axis in order)

    def _reshape(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        target, data = self._read(self.view.inputs(op)[1]), inputs[0]
        if target is None:
            return None
        keeps = self.view.flag(op, "special_zero")
        wanted = [
            data[place] if dim == "0" and keeps and place < len(data) else dim for place, dim in enumerate(target)
        ]
        left = Counter(factor for dim in data for factor in dim.split(_TIMES))
        left.subtract(factor for dim in wanted if dim != "-1" for factor in dim.split(_TIMES))
        rest = [dim for dim, count in left.items() for _ in range(count)]
        spare = [dim for dim, count in left.items() for _ in range(-count)]
        numbers, others = _product(rest), _product(spare)
        symbols = [dim for dim in rest if not dim.isdigit()]
        unknown = [dim for dim in (*spare, *symbols) if not dim.isdigit() and dim in (*spare, _UNKNOWN)]
        inferred = _TIMES.join(symbols) if symbols and not unknown and numbers == others else _UNKNOWN
        return tuple(inferred if dim == "-1" else dim for dim in wanted)

    def _unsqueeze(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        axes = self._ints(op, 1)
        rank = len(inputs[0]) + len(axes or ())
        if axes is None or any(not -rank <= axis < rank for axis in axes):
            return None
        dims = list(inputs[0])
        for axis in sorted(axis % rank for axis in axes):
            dims.insert(axis, "1")
        return tuple(dims)

    def _squeeze(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        axes, rank = self._ints(op, 1), len(inputs[0])
        if axes is None:
            return None
        gone = {axis % rank for axis in axes if -rank <= axis < rank}
        return tuple(dim for place, dim in enumerate(inputs[0]) if place not in gone)

    def _concat(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        axis, rank = whole_number(self.view.data(op).get("axis", "")), len(inputs[0])
        if axis is None or not -rank <= axis < rank or any(len(dims) != rank for dims in inputs):
            return None
        joined = [_agreed(dims[place] for dims in inputs) for place in range(rank)]
        joined[axis % rank] = _sum([dims[axis % rank] for dims in inputs])
        return tuple(joined)

    def _gather(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        axis = self._axis(op, 2, len(inputs[0])) if len(inputs) > 2 else None
        if axis is None or whole_number(self.view.data(op).get("batch_dims", "0")) != 0:
            return None
        return (*inputs[0][:axis], *inputs[1], *inputs[0][axis + 1 :])

    def _slice(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        rank, sources = len(inputs[0]), self.view.inputs(op)
        begins, ends = (self._read(source) for source in sources[1:3])
        steps = self._read(sources[3])
        axes = self._ints(op, 4) if len(inputs) > 4 else tuple(range(len(begins or ()) or rank))
        if axes is None:
            return None
        dims = list(inputs[0])
        for number, axis in enumerate(axes):
            begin, end, step = ((values or ())[number : number + 1] or (_UNKNOWN,) for values in (begins, ends, steps))
            if -rank <= axis < rank:
                dims[axis] = _cut(dims[axis], begin[0], end[0], step[0])
        return tuple(dims)

    def _strided(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        data, rank, sources = self.view.data(op), len(inputs[0]), self.view.inputs(op)
        if len(self.view.output_shape(op)) != rank or "1" in data.get("ellipsis_mask", ""):
            return None
        masks = [data.get(name, "").replace(" ", "").split(",") for name in ("begin_mask", "end_mask")]
        begins, ends, steps = ([*(self._read(source) or ())] for source in (*sources, None)[1:4])
        return tuple(
            # A mask of 1 means that the number is not in use; beyond the numbers, all is kept.
            _cut(
                dim,
                begins[place] if place < len(begins) and masks[0][place : place + 1] != ["1"] else "0",
                ends[place] if place < len(ends) and masks[1][place : place + 1] != ["1"] else dim,
                steps[place] if place < len(steps) else "1",
            )
            for place, dim in enumerate(inputs[0])
        )

    def _range(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        ends = [self._read(source) for source in self.view.inputs(op)]
        if len(ends) != 3 or any(end is None or len(end) != 1 for end in ends):
            return None
        start, stop, step = (end[0] for end in ends if end)
        return (_difference(stop, start) if step == "1" else _UNKNOWN,)

    def _split(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        axis = self._axis(op, 1, len(inputs[0]))
        return tuple(_UNKNOWN if axis is None or place == axis else dim for place, dim in enumerate(inputs[0]))

    def _matmul(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        first, second = inputs
        if min(len(first), len(second)) < 2:
            return None
        rows = first[-1] if self.view.flag(op, "transpose_a") else first[-2]
        columns = second[-2] if self.view.flag(op, "transpose_b") else second[-1]
        return (*_aligned([first[:-2], second[:-2]]), rows, columns)

    def _attention(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        return (*inputs[0][:-1], inputs[2][-1]) if len(inputs) > 2 and inputs[0] and inputs[2] else None

    def _broadcast(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        target = self._read(self.view.inputs(op)[1])
        return _aligned([inputs[0], target] if target is not None else [inputs[0]])

    def _reduced(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        axes, rank = self._ints(op, 1), len(inputs[0])
        if axes is None:
            return None
        gone = {axis % rank for axis in axes if -rank <= axis < rank}
        if self.view.flag(op, "keep_dims"):
            return tuple("1" if place in gone else dim for place, dim in enumerate(inputs[0]))
        return tuple(dim for place, dim in enumerate(inputs[0]) if place not in gone)

    def _topk(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        axis = whole_number(self.view.data(op).get("axis", ""))
        rank = len(inputs[0])
        if axis is None or not -rank <= axis < rank:
            return None
        return tuple(_UNKNOWN if place == axis % rank else dim for place, dim in enumerate(inputs[0]))

    def _convolution(self, op: int, inputs: Sequence[Shape]) -> Shape | None:
        return (inputs[0][0], *(_UNKNOWN for _ in inputs[0][1:]))

    # -- shapes as values ----------------------------------------------------------------

    def _read(self, source: Source | None) -> Shape | None:
        """Elements of a vector of integers."""
        if source is None:
            return None
        constant = self._integers.of(source) if self.view.constant(source.op) else None
        if constant is not None:
            return tuple(_UNKNOWN if value is None else str(value) for value in constant)
        return self._values.get(source.op)

    def _computed(self, op: int) -> Shape | None:
        """Elements of an integer vector that is computed from shapes."""
        kind, sources = self.view.op_type(op), self.view.inputs(op)
        if not sources or self.view.constant(op):
            return None
        if kind == "ShapeOf":
            return self._written(sources[0])
        if kind in ("Convert", "Reshape", "Squeeze", "Unsqueeze"):
            return self._read(sources[0])
        if kind == "Concat":
            pieces = [self._read(source) for source in sources]
            return None if None in pieces else tuple(dim for piece in pieces for dim in piece or ())
        if kind == "Gather":
            values, places = self._read(sources[0]), self._ints(op, 1)
            if values is None or places is None or any(not -len(values) <= place < len(values) for place in places):
                return None
            return tuple(values[place] for place in places)
        if kind == "Add" and len(sources) == 2:
            pair = [self._read(source) for source in sources]
            if all(piece is not None and len(piece) == 1 for piece in pair):
                return (_sum([piece[0] for piece in pair if piece]),)
        if kind == "Multiply" and ("-1",) in (negative := [self._read(source) for source in sources]):
            others = [value for value in negative if value != ("-1",)]
            return tuple(f"-{dim}" for dim in others[0]) if len(others) == 1 and others[0] is not None else None
        if kind == "Subtract":
            first, second = (self._read(source) for source in sources)
            if first and second and len(first) == len(second) == 1:
                return (_difference(first[0], second[0]),)
        return None


_RULES: Mapping[str, Callable[[Dims, int, Sequence[Shape]], Shape | None]] = {
    "Transpose": Dims._transpose,
    "Reshape": Dims._reshape,
    "Unsqueeze": Dims._unsqueeze,
    "Squeeze": Dims._squeeze,
    "Concat": Dims._concat,
    "Gather": Dims._gather,
    "Range": Dims._range,
    "Slice": Dims._slice,
    "StridedSlice": Dims._strided,
    "Split": Dims._split,
    "VariadicSplit": Dims._split,
    "MatMul": Dims._matmul,
    "ScaledDotProductAttention": Dims._attention,
    "Broadcast": Dims._broadcast,
    "TopK": Dims._topk,
    "Convolution": Dims._convolution,
    "GroupConvolution": Dims._convolution,
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"), Dims._reduced),
}


def _agreed(dims: Iterable[str]) -> str:
    """The one letter or number that dimensions have which must be equal; 1 and ``?`` give way to all others."""
    found = {*dims}
    known = found - {"1", _UNKNOWN}
    if len(known) == 1:
        return known.pop()
    return _UNKNOWN if known or _UNKNOWN in found else "1"


def _aligned(shapes: Sequence[Shape]) -> Shape:
    """Dimensions of shapes that are broadcast against each other."""
    rank = max(map(len, shapes))
    padded = [("1",) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(_agreed(dims) for dims in zip(*padded, strict=True))


def _sum(dims: Sequence[str]) -> str:
    """Sum of dimensions: the tokens in the state and those of the call are all tokens."""
    found = [dim for dim in dims if dim != "0"]
    if all(dim.isdigit() for dim in found):
        return str(sum(map(int, found)))
    if len(found) == 1:
        return found[0]
    return "T" if len(found) == len(_LENGTHS) and set(found) == _LENGTHS else _UNKNOWN


def _difference(whole: str, part: str) -> str:
    """Difference of two dimensions: without the tokens of the call, all tokens are those in the state."""
    if part == "0":
        return whole
    if whole.isdigit() and part.isdigit():
        return str(max(int(whole) - int(part), 0))
    if whole == "T" and part in _LENGTHS:
        return "S" if part == "P" else "P"
    return "0" if whole == part != _UNKNOWN else _UNKNOWN


def _cut(dim: str, begin: str, end: str, step: str) -> str:
    """Length of what is left of a dimension from ``begin`` to ``end``; exporters write a huge end for the whole."""
    number = whole_number(end)
    if number is not None and number >= _HUGE:
        end = dim
    if step != "1" or (end != dim and end.startswith("-")):
        return _UNKNOWN
    if begin.startswith("-"):
        return begin[1:] if end == dim else _UNKNOWN
    return _difference(end, begin)


def _product(dims: Sequence[str]) -> int:
    """Product of the numbers among dimensions."""
    product = 1
    for dim in dims:
        product *= int(dim) if dim.isdigit() else 1
    return product
