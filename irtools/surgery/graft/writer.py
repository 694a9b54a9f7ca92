"""Copy the weights of lm_head, restricted to some tokens, as new ops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from irtools.errors import EditError
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, byte_size, read_constants
from irtools.model.head_weights import HeadWeights, head_weights
from irtools.surgery.edits import AddOp, Edit, NewPort, OpOutput, OpRef
from irtools.surgery.spelling import runtime_attributes

__all__ = ["HeadCopy", "OpWriter", "head_bytes", "head_constants", "lm_head"]


def lm_head(graph: GraphView) -> tuple[HeadWeights, int]:
    """Find the weights of lm_head and the Result of its logits.

    Raises
    ------
    EditError
        The weights have a form that is not known.
    LocateRefusedError
        There are no logits that one MatMul with constant weights computes.
    """
    from irtools.decoder.head import find_head

    head = find_head(graph)
    return head_weights(graph, head.op), head.logits


def head_constants(graph: GraphView, head: HeadWeights) -> Mapping[int, Constant]:
    """Constants of lm_head with one element per token, by layer id."""
    constants = {constant.id: constant for constant in read_constants((graph.scan,)) if constant.id in head.axes}
    for constant in constants.values():
        if constant.faults or byte_size(constant.element_type, constant.elements) != constant.size:
            raise EditError(f"the constant {constant.name!r} of lm_head is malformed; `irtools verify` says how")
    return constants


def head_bytes(graph: GraphView, head: HeadWeights) -> int:
    """Bytes of the weights of lm_head."""
    return sum(constant.size for constant in head_constants(graph, head).values())


@dataclass(slots=True)
class OpWriter:
    """Collector of new ops with a common start of their names.

    Attributes
    ----------
    graph : GraphView
        The graph that gets the ops.
    before : str, int or None
        Op of the file that they are written before.
    """

    graph: GraphView
    prefix: str
    before: OpRef | None = None
    edits: list[Edit] = field(default_factory=list)

    def add(
        self,
        kind: str,
        name: str,
        inputs: Sequence[OpOutput] = (),
        output: NewPort | None = None,
        attributes: Mapping[str, str] | None = None,
        *,
        opset: str = "opset1",
        rt_info: bytes = b"",
        output_names: tuple[str, ...] = (),
    ) -> OpOutput:
        """Add an op and return its output."""
        name = f"{self.prefix}{name}"
        outputs = (output,) if output is not None else ()
        op = AddOp(kind, name, tuple(inputs), outputs, attributes or {}, opset, output_names, self.before, rt_info)
        self.edits.append(op)
        return OpOutput(name)

    def of(self, source: Source) -> OpOutput:
        """Return a value of the file."""
        return OpOutput(source.op, self.graph.output_index(source))

    def constant(self, name: str, element_type: str, shape: Sequence[int], offset: int, size: int) -> OpOutput:
        """Add a constant over bytes of the weights file."""
        dims = ", ".join(map(str, shape))
        attributes = {"element_type": element_type, "shape": dims, "offset": str(offset), "size": str(size)}
        return self.add("Const", name, (), NewPort(element_type, tuple(shape)), attributes)


class HeadCopy(ABC):
    """Copy of the weights of lm_head that covers some tokens.

    Attributes
    ----------
    rows : int
        Number of tokens.
    read : int
        Bytes that the copy is read from.
    """

    def __init__(self, writer: OpWriter, target: GraphView, head: HeadWeights, rows: int) -> None:
        self.writer = writer
        self.rows = rows
        self.read = 0
        self._target = target
        self._head = head
        self._constants = head_constants(target, head)

    @abstractmethod
    def _selected(self, constant: Constant, axis: int, name: str) -> OpOutput | None:
        """Add a constant with the elements of the tokens; None if they must be selected after its conversion."""

    def _converted(self, convert: int, output: NewPort, axis: int, name: str) -> OpOutput:
        """Add the conversion of a constant that :meth:`_selected` skipped, with the elements of the tokens."""
        raise NotImplementedError

    @abstractmethod
    def _whole(self, source: Source) -> OpOutput:
        """Return a value that has no element per token, such as a scale of the whole tensor."""

    @abstractmethod
    def _shape(self, dims: tuple[int, int], name: str) -> OpOutput:
        """Add a tensor with two dimensions, of which one may be -1."""

    def make(self) -> OpOutput:
        """Add the ops and return the weights, ``[rows, width]`` or ``[width, rows]``."""
        graph = self._target
        made: dict[int, OpOutput | None] = {}  # None: selected after the conversion
        for key, axis in self._head.axes.items():
            name = f"weights/{len(made)}"
            if key in self._constants:
                made[key] = self._selected(self._constants[key], axis, name)
                continue
            op = graph.op(key)
            port = op.outputs[0]
            output = NewPort(port.element_type, (*port.shape[:axis], self.rows, *port.shape[axis + 1 :]))
            attributes, sources = op.attributes, graph.inputs(key)
            if sources[0].op in made and made[sources[0].op] is None:
                made[key] = self._converted(key, output, axis, name)
                continue
            if op.type == "Reshape":
                dims = (self.rows, -1) if axis == 0 else (-1, self.rows)
                inputs = [made.get(sources[0].op), self._shape(dims, f"{name}/shape")]
                attributes = {"special_zero": "false"}
            else:
                inputs = [made.get(source.op) or self._whole(source) for source in sources]
            start, end = graph.span(key)
            rt_info = runtime_attributes(graph.scan.data[start:end])
            values = [value for value in inputs if value is not None]
            made[key] = self.writer.add(op.type, name, values, output, attributes, opset=op.opset, rt_info=rt_info)
        weights = made[self._head.weights]
        assert weights is not None, "MatMul reads no 4-bit values"
        return weights

    def matmul(self, hidden: OpOutput, weights: OpOutput, output: NewPort) -> OpOutput:
        """Add the MatMul."""
        attributes = {"transpose_a": "false", "transpose_b": "true" if self._head.transposed else "false"}
        return self.writer.add("MatMul", "MatMul", (hidden, weights), output, attributes)
