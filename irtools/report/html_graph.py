"""Graph of a part as page data: one column per property, with tables for repeated values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from irtools.graph.view import GraphView
from irtools.ir.op import Port
from irtools.model.document import Document
from irtools.text import shape_text, shortened

__all__ = ["Columns", "columns"]

_LONGEST = 1000
"""Longest names on the page; no exporter writes names near that length, and no browser lays them out well."""


class _Numbering(dict[object, int]):
    """Distinct values, numbered in the order of first use."""

    def __missing__(self, value: object) -> int:
        number = self[value] = len(self)
        return number


@dataclass(frozen=True, slots=True)
class Body:
    """Graph inside an op.

    Attributes
    ----------
    owner : int
        Position of the Loop, TensorIterator or If.
    name : str
        ``body``, ``then_body`` or ``else_body``.
    ops : range
        Positions of the ops in the body.
    """

    owner: int
    name: str
    ops: range


@dataclass(frozen=True, slots=True)
class Columns:
    """All ops of a part; the ops of bodies follow those of the part's own graph.

    Attributes
    ----------
    data : dict
        Data of the page: the columns ``ids``, ``names``, ``lines``, ``types``, ``opsets``, ``attributes``,
        ``rt_info``, ``inputs``, ``outputs`` and ``constant``, the list ``bodies``, and the tables ``words``,
        ``pairs`` and ``ports``, to which columns refer by number.
    position : dict of int to int
        Positions of the ops of the part's own graph, by layer id.
    starts : sequence of int
        Line in the file at which each op starts.
    end : int
        Line at which the last op of the part's own graph ends.
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
    return _GraphReader(document.graph).read()


class _GraphReader:
    """Reader of the ops of a graph and of its bodies."""

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.words, self.pairs, self.ports = _Numbering(), _Numbering(), _Numbering()
        self._forms: dict[tuple[str, tuple[int, ...]], int] = {}
        self.rows: list[tuple[object, ...]] = []
        self.bodies: list[Body] = []
        self.starts: list[int] = []
        self._counted = (0, 1)

    def read(self) -> Columns:
        position = self._graph(self.view)
        data_end = max((span.end for span in self.view.scan.spans), default=0)
        names = ("ids", "names", "lines", "types", "opsets", "attributes", "rt_info", "inputs", "outputs", "constant")
        data: dict[str, object] = {name: [row[number] for row in self.rows] for number, name in enumerate(names)}
        data |= {"words": list(self.words), "pairs": list(self.pairs), "ports": list(self.ports)}
        data["bodies"] = [[body.owner, body.name, body.ops.start, body.ops.stop] for body in self.bodies]
        return Columns(data, position, tuple(self.bodies), self.starts, self._line(data_end))

    def _graph(self, view: GraphView) -> dict[int, int]:
        """Read a graph and then its bodies; return the positions of the graph's ops by layer id."""
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
        op = view.op(key, keep=False)
        line = self._line(op.span.start)
        self.starts.append(line)
        inputs: list[int] = []
        for number, source in enumerate(view.wires(key)):
            declared = self._port(op.inputs[number]) if number < len(op.inputs) else -1
            inputs += (position.get(source[0], -1), view.output_index(source), declared)
        outputs: list[int] = []
        for port in op.outputs:
            outputs += (self._port(port), self.words[shortened(", ".join(port.names), _LONGEST)])
        return (
            key,
            shortened(op.name, _LONGEST),
            line,
            self.words[op.type],
            self.words[op.opset],
            self.pairs[tuple(chain.from_iterable(op.attributes.items()))],
            self.pairs[tuple(chain.from_iterable(op.rt_info.items()))],
            inputs,
            outputs,
            int(view.constant(key)),
        )

    def _port(self, port: Port) -> int:
        """Number of the type and shape of a port: ``f32 [?,?,128]``."""
        form = port.element_type, port.shape
        number = self._forms.get(form)
        if number is None:
            number = self._forms[form] = self.ports[f"{port.element_type} {shape_text(port.shape)}"]
        return number

    def _line(self, offset: int) -> int:
        """Line of an offset; counting continues at the previous offset, so ops should be read in file order."""
        last, line = self._counted
        if offset < last:
            last, line = 0, 1
        line += self.view.scan.data.count(b"\n", last, offset)
        self._counted = (offset, line)
        return line
