"""Label the ops of a graph by what they compute, whatever they are called and numbered."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from irtools.compare.blob import Blob
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, read_constants
from irtools.ir.op import Op, parse_element

__all__ = ["COMMUTATIVE", "Graph", "Palette"]

COMMUTATIVE = frozenset(
    f"{kind}{suffix}"
    for kind, suffixes in (
        ("", ("Add", "Multiply", "Maximum", "Minimum", "Equal", "NotEqual", "SquaredDifference")),
        ("Logical", ("And", "Or", "Xor")),
        ("Bitwise", ("And", "Or", "Xor")),
    )
    for suffix in suffixes
)
"""Ops whose operands may be swapped."""
_KINDS = {
    **dict.fromkeys(("i64", "i32", "u64", "u32"), "integer"),
    "boolean": "boolean",
    "string": "string",
}
_OF_STATES = frozenset(("variable_id", "variable_type", "variable_shape"))
"""Attributes that are compared with the states."""
_WITH_BODIES = frozenset(("Loop", "TensorIterator", "If"))
_INNER = frozenset(("internal_layer_id", "from-layer", "to-layer"))


class Palette:
    """Numbers for labels: equal ones get the same, on both sides."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def __call__(self, label: Hashable) -> int:
        """The number of a label."""
        return self._known.setdefault(label, len(self._known))


@dataclass(eq=False)
class Graph:
    """One graph, the model's or a body's, with a label for each of its ops.

    Attributes
    ----------
    view : GraphView
    blob : Blob
        The weights of the file.
    palette : Palette
        Of the comparison.
    body : str
        Where it is, when not at the top level.
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
        """Ops that are no constants, in topological order."""
        return tuple(op for op in self.view.topological if not self.view.constant(op))

    def number(self, source: Source | tuple[int, int], *, floats: bool = False) -> tuple[float, ...] | None:
        """The numbers of a small constant that an op reads as it is."""
        constant = self.constants.get(source[0])
        return self.blob.numbers(constant, floats=floats) if constant is not None else None

    def bodies(self, op: int) -> Mapping[str, Graph]:
        """Graphs inside a Loop or If."""
        found = self._bodies.get(op)
        if found is None:
            inside = self.view.bodies(op) if self.view.op_type(op) in _WITH_BODIES else {}
            path = f"{self.body}/{self.view.op_name(op)}".lstrip("/")
            found = self._bodies[op] = {
                name: Graph(view, self.blob, self.palette, f"{path}/{name}") for name, view in inside.items()
            }
        return found

    def coarse(self, op: int) -> int:
        """Label by type, by which inputs are constants, and by the kind of its values."""
        found = self._coarse.get(op)
        if found is None:
            view = self.view
            inputs = [view.constant(source) for source in view.producers(op)]
            if view.op_type(op) in COMMUTATIVE:
                inputs.sort()
            kinds = tuple([_KINDS.get(port.element_type, "number") for port in view.op(op).outputs])
            found = self._coarse[op] = self.palette((view.op_type(op), tuple(inputs), kinds, self._port(op)))
        return found

    def _port(self, op: int) -> tuple[object, ...]:
        """Type and rank of a model input: nothing else tells one from another."""
        if self.view.op_type(op) != "Parameter":
            return ()
        return tuple((port.element_type, len(port.shape)) for port in self.view.op(op).outputs)

    def fine(self, op: int) -> int:
        """Label by everything that says what an op computes: attributes, types, shapes, small constants, bodies."""
        found = self._fine.get(op)
        if found is None:
            found = self._fine[op] = self.palette((self.coarse(op), self._details(op)))
        return found

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
            self.values(key),
            tuple(constants),
            tuple((name, body.digest) for name, body in self.bodies(key).items()),
            self.wiring(key) if op.type in _WITH_BODIES else (),
        )

    def values(self, op: int) -> tuple[object, ...]:
        """Types and shapes of what an op computes."""
        return tuple((port.element_type, port.shape) for port in self.view.op(op).outputs)

    def widths(self, op: int) -> tuple[object, ...]:
        """Static dimensions of what an op computes, in no order: what another exporter keeps."""
        return tuple(sorted(dim for dim in port.shape if dim > 1) for port in self.view.op(op).outputs)

    def wiring(self, op: int) -> tuple[object, ...]:
        """How the inputs and outputs of a Loop or If are connected to its bodies, without the ids inside."""
        element = parse_element(self.view.scan.data, self.view.span(op))
        return tuple(
            (entry.tag, tuple(sorted((str(k), str(v)) for k, v in entry.attrib.items() if k not in _INNER)))
            for section in element
            if str(section.tag).endswith("port_map")
            for entry in section
        )

    @cached_property
    def digest(self) -> int:
        """A label of the graph as a whole."""
        seen: dict[int, int] = {}
        for key in self.ops:
            inputs = [seen.get(source, -1) for source in self.view.producers(key)]
            if self.view.op_type(key) in COMMUTATIVE:
                inputs.sort()
            seen[key] = self.palette((self.fine(key), tuple(inputs)))
        return self.palette(tuple(sorted(seen.values())))

    def readers(self, op: int) -> Iterable[tuple[int, int, int]]:
        """Ops that read an op: id, input index (0 where operands may be swapped) and output port."""
        for consumer in self.view.consumers(op):
            swaps = self.view.op_type(consumer.op) in COMMUTATIVE
            yield consumer.op, 0 if swaps else consumer.input, consumer.port


def attributes(op: Op) -> tuple[tuple[str, str], ...]:
    """Attributes of an op, sorted; what says something about a state is left out."""
    return tuple(sorted((key, value) for key, value in op.attributes.items() if key not in _OF_STATES))
