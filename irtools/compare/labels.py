"""Label the ops of a graph by their computation, independent of names and ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from irtools.compare.blob import Blob
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, read_constants
from irtools.ir.op import INTEGERS, Op, parse_element
from irtools.ir.scan import BODY_OWNERS

__all__ = ["COMMUTATIVE", "Graph", "Palette"]

_ARITHMETIC = ("Add", "Multiply", "Maximum", "Minimum", "Equal", "NotEqual", "SquaredDifference")
_LOGIC = ("LogicalAnd", "LogicalOr", "LogicalXor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
COMMUTATIVE = frozenset((*_ARITHMETIC, *_LOGIC))
"""Types of commutative ops."""
_KINDS = {**dict.fromkeys(INTEGERS, "integer"), "boolean": "boolean", "string": "string"}
_OF_STATES = frozenset(("variable_id", "variable_type", "variable_shape"))
"""Attributes that the comparison of states covers."""
_INNER = frozenset(("internal_layer_id", "from-layer", "to-layer"))


class Palette:
    """Numbers labels; equal labels have equal numbers on both sides."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, label: Hashable) -> int:
        """The number of a label."""
        return self._numbers.setdefault(label, len(self._numbers))


@dataclass(eq=False)
class Graph:
    """A graph of a model or body, with a label for each op.

    Attributes
    ----------
    blob : Blob
        The weights of the file.
    palette : Palette
        Shared by both sides of the comparison.
    body : str
        Path of the body; empty at the top level.
    """

    view: GraphView
    blob: Blob
    palette: Palette
    body: str = ""
    _fine: dict[int, int] = field(default_factory=dict, repr=False)
    _coarse: dict[int, int] = field(default_factory=dict, repr=False)
    _bodies: dict[int, dict[str, Graph]] = field(default_factory=dict, repr=False)

    @cached_property
    def constants(self) -> Mapping[int, Constant]:
        """Constants by layer id."""
        return {constant.id: constant for constant in read_constants((self.view.scan,))}

    @property
    def ops(self) -> tuple[int, ...]:
        """Non-constant ops in topological order."""
        return tuple(op for op in self.view.topological if not self.view.constant(op))

    def text(self, op: int) -> bytes:
        """The ``<layer>`` of an op, as it is in the file."""
        return self.view.scan.data[slice(*self.view.span(op))]

    def number(self, source: Source | tuple[int, int], *, floats: bool = False) -> tuple[float, ...] | None:
        """Values of a small constant that an op reads directly; None for other sources."""
        constant = self.constants.get(source[0])
        return self.blob.numbers(constant, floats=floats) if constant is not None else None

    def bodies(self, op: int) -> Mapping[str, Graph]:
        """Graphs inside a Loop or If."""
        if op not in self._bodies:
            views = self.view.bodies(op) if self.view.op_type(op) in BODY_OWNERS else {}
            path = f"{self.body}/{self.view.op_name(op)}".lstrip("/")
            self._bodies[op] = {
                name: Graph(view, self.blob, self.palette, f"{path}/{name}") for name, view in views.items()
            }
        return self._bodies[op]

    def coarse(self, op: int) -> int:
        """Label by op type, constant inputs, and kinds of the output types."""
        label = self._coarse.get(op)
        if label is None:
            view = self.view
            inputs = [view.constant(source) for source in view.producers(op)]
            if view.op_type(op) in COMMUTATIVE:
                inputs.sort()
            ports = view.op(op).outputs
            kinds = tuple([_KINDS.get(port.element_type, "number") for port in ports])
            # A model input has no inputs that would distinguish it.
            own = [(port.element_type, len(port.shape)) for port in ports] if view.op_type(op) == "Parameter" else ()
            label = self._coarse[op] = self.palette((view.op_type(op), tuple(inputs), kinds, tuple(own)))
        return label

    def fine(self, op: int) -> int:
        """Label by everything that determines the computation: attributes, types, shapes, small constants, bodies."""
        label = self._fine.get(op)
        if label is None:
            label = self._fine[op] = self.palette((self.coarse(op), self._details(op)))
        return label

    def _details(self, key: int) -> Hashable:
        op = self.view.op(key)
        constants = [
            (port.shape, self.number(source)) if self.view.constant(source.op) else None
            for source, port in zip(self.view.inputs(key), op.inputs, strict=False)
        ]
        if op.type in COMMUTATIVE:
            constants.sort(key=repr)
        return (
            attributes(op),
            tuple([(port.element_type, port.shape) for port in op.outputs]),
            tuple(constants),
            tuple((name, body.digest) for name, body in self.bodies(key).items()),
            self.wiring(key) if op.type in BODY_OWNERS else (),
        )

    def widths(self, op: int) -> tuple[object, ...]:
        """Sorted static dimensions of each output, which do not depend on the exporter."""
        return tuple(sorted(dim for dim in port.shape if dim > 1) for port in self.view.op(op).outputs)

    def wiring(self, op: int) -> tuple[object, ...]:
        """Port maps of a Loop or If, without the layer ids of its bodies."""
        element = parse_element(self.view.scan.data, self.view.span(op))
        return tuple(
            (entry.tag, tuple(sorted((str(k), str(v)) for k, v in entry.attrib.items() if k not in _INNER)))
            for section in element
            if str(section.tag).endswith("port_map")
            for entry in section
        )

    @cached_property
    def digest(self) -> int:
        """Label of the whole graph."""
        seen: dict[int, int] = {}
        for key in self.ops:
            inputs = [seen.get(source, -1) for source in self.view.producers(key)]
            if self.view.op_type(key) in COMMUTATIVE:
                inputs.sort()
            seen[key] = self.palette((self.fine(key), tuple(inputs)))
        return self.palette(tuple(sorted(seen.values())))

    def readers(self, op: int) -> Iterable[tuple[int, int, int]]:
        """Consumers of an op: id, input index (0 for commutative ops) and output port."""
        for consumer in self.view.consumers(op):
            swaps = self.view.op_type(consumer.op) in COMMUTATIVE
            yield consumer.op, 0 if swaps else consumer.input, consumer.port


def attributes(op: Op) -> tuple[tuple[str, str], ...]:
    """Sorted attributes of an op, without those of a state."""
    return tuple(sorted((key, value) for key, value in op.attributes.items() if key not in _OF_STATES))
