"""The graph of one part for a page: a column per property, repeated values in tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from irtools.graph.view import GraphView
from irtools.ir.op import DYNAMIC, Port
from irtools.model.document import Document

__all__ = ["Columns", "columns"]


class _Table:
    """Values that repeat, each once, by number."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._numbers: dict[object, int] = {}

    def __getitem__(self, value: object) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


@dataclass(frozen=True, slots=True)
class Body:
    """A graph inside an op.

    Attributes
    ----------
    owner : int
        Position of the Loop, TensorIterator or If.
    name : str
        ``body``, ``then_body`` or ``else_body``.
    ops : range
        Positions of its ops.
    """

    owner: int
    name: str
    ops: range


@dataclass(frozen=True, slots=True)
class Columns:
    """All ops of a part, those in bodies last.

    Attributes
    ----------
    data : dict
        What the page gets: ``ids``, ``names``, ``lines``, ``types``, ``opsets``, ``attributes``, ``rt_info``,
        ``inputs``, ``outputs``, ``constant``, ``bodies`` and the tables ``words``, ``pairs`` and ``ports`` that
        some of these point into.
    position : dict of int to int
        Where an op of the part's own graph is, by layer id.
    bodies : tuple of Body
    starts : sequence of int
        Line that each op begins on.
    end : int
        Line that the last op of the part's own graph ends on.
    """

    data: dict[str, object]
    position: dict[int, int]
    bodies: tuple[Body, ...]
    starts: Sequence[int] = field(repr=False)
    end: int = 0


def columns(document: Document) -> Columns:
    """Read every op of a part.

    Raises
    ------
    InvalidIRError
        The graph cannot be built, or a port is malformed.
    """
    return _Reader(document.graph).read()


class _Reader:
    """Reads the ops of a graph and of the bodies in it."""

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.words, self.pairs, self.ports = _Table(), _Table(), _Table()
        self.rows: list[tuple[object, ...]] = []
        self.bodies: list[Body] = []
        self.starts: list[int] = []
        self._counted = (0, 1)

    def read(self) -> Columns:
        position = self._graph(self.view)
        data_end = max((span.end for span in self.view.scan.spans), default=0)
        names = ("ids", "names", "lines", "types", "opsets", "attributes", "rt_info", "inputs", "outputs", "constant")
        data: dict[str, object] = dict(zip(names, map(list, zip(*self.rows, strict=True)), strict=True))
        data |= {name: [] for name in names if name not in data}
        data |= {"words": self.words.values, "pairs": self.pairs.values, "ports": self.ports.values}
        data["bodies"] = [[body.owner, body.name, body.ops.start, body.ops.stop] for body in self.bodies]
        return Columns(data, position, tuple(self.bodies), self.starts, self._line(data_end))

    def _graph(self, view: GraphView) -> dict[int, int]:
        """Read one graph, then the bodies in it; returns the positions of its ops by layer id."""
        order = sorted(view.scan.ids, key=lambda key: view.span(key).start)
        first = len(self.rows)
        position = {key: first + number for number, key in enumerate(order)}
        self.rows += [self._row(view, key, position) for key in order]
        for key in order:
            if view.op_type(key) in ("Loop", "TensorIterator", "If"):
                for name, body in view.bodies(key).items():
                    start = len(self.rows)
                    inner = len(self._graph(body))
                    self.bodies.append(Body(position[key], name, range(start, start + inner)))
        return position

    def _row(self, view: GraphView, key: int, position: dict[int, int]) -> tuple[object, ...]:
        op = view.op(key)
        line = self._line(op.span.start)
        self.starts.append(line)
        inputs: list[int] = []
        for number, source in enumerate(view.inputs(key)):
            declared = self.ports[_value(op.inputs[number])] if number < len(op.inputs) else -1
            inputs += (position.get(source.op, -1), view.output_index(source), declared)
        outputs: list[int] = []
        for port in op.outputs:
            outputs += (self.ports[_value(port)], self.words[", ".join(port.names)])
        return (
            key,
            op.name,
            line,
            self.words[op.type],
            self.words[op.opset],
            self.pairs[tuple(_flat(op.attributes.items()))],
            self.pairs[tuple(_flat(op.rt_info.items()))],
            inputs,
            outputs,
            int(view.constant(key)),
        )

    def _line(self, offset: int) -> int:
        """Line of an offset; counted on from the last one, which in a file's order is quick."""
        last, line = self._counted
        if offset < last:
            last, line = 0, 1
        line += self.view.scan.data.count(b"\n", last, offset)
        self._counted = (offset, line)
        return line


def _flat(items: object) -> Iterator[str]:
    for pair in items:  # type: ignore[attr-defined]
        yield from pair


def _value(port: Port) -> str:
    """Type and shape: ``f32 [?,?,128]``."""
    return f"{port.element_type} [{','.join('?' if size == DYNAMIC else str(size) for size in port.shape)}]"
