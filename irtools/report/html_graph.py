"""Graph of a part as page data: one column per property, with tables for repeated values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from irtools.graph.view import GraphView
from irtools.ir.op import Port, parse_pairs, plain_layer, plain_sections
from irtools.ir.scan import BODY_OWNERS
from irtools.model.document import Document
from irtools.text import shape_text, shortened

__all__ = ["COLUMNS", "Columns", "columns"]

COLUMNS = ("ids", "names", "lines", "types", "opsets", "attributes", "rt_info", "inputs", "outputs", "constant")
"""Names of the columns that have one value for each op."""

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


class _Form(NamedTuple):
    """Ports and rt_info of an op, which thousands of ops share.

    Attributes
    ----------
    inputs : tuple of int
        Number of each port.
    outputs : tuple of int
        Number of each port and of the word with its names.
    places : dict of int to int
        Output index by port id.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    rt_info: tuple[str, ...]
    places: dict[int, int]


class _GraphReader:
    """Reader of the ops of a graph and of its bodies."""

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.words, self.pairs, self.ports = _Numbering(), _Numbering(), _Numbering()
        self._numbers: dict[tuple[str, tuple[int, ...]], int] = {}
        self._forms: dict[bytes, _Form | None] = {}
        self._attributes: dict[bytes, int] = {}
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self.bodies: list[Body] = []
        self._counted = (0, 1)

    def read(self) -> Columns:
        position = self._graph(self.view)
        data_end = max((span.end for span in self.view.scan.spans), default=0)
        data: dict[str, object] = dict(self.columns)
        data |= {"words": list(self.words), "pairs": list(self.pairs), "ports": list(self.ports)}
        data["bodies"] = [[body.owner, body.name, body.ops.start, body.ops.stop] for body in self.bodies]
        return Columns(data, position, tuple(self.bodies), self.columns["lines"], self._line(data_end))

    def _graph(self, view: GraphView) -> dict[int, int]:
        """Read a graph and then its bodies; return the positions of the graph's ops by layer id."""
        order = sorted(view.scan.ids, key=lambda key: view.span(key).start)
        columns = self.columns
        first = len(columns["ids"])
        position = {key: first + number for number, key in enumerate(order)}
        forms = [self._row(view, key) for key in order]
        columns["ids"] += order
        columns["names"] += [shortened(view.op_name(key), _LONGEST) for key in order]
        columns["lines"] += [self._line(view.span(key).start) for key in order]
        columns["constant"] += [int(view.constant(key)) for key in order]
        columns["outputs"] += [form.outputs for form in forms]
        columns["inputs"] += [
            _inputs(view.wires(key), form, position, forms, first) for key, form in zip(order, forms, strict=True)
        ]
        for key in order:
            if view.op_type(key) in BODY_OWNERS:
                for name, body in view.bodies(key).items():
                    start = len(columns["ids"])
                    inner = len(self._graph(body))
                    self.bodies.append(Body(position[key], name, range(start, start + inner)))
        return position

    def _row(self, view: GraphView, key: int) -> _Form:
        """Append type, opset, attributes and rt_info of an op to the columns.

        The tables number what an op refers to in the order of this function.
        """
        layer = plain_layer(view.scan.data, view.span(key))
        form = self._form(layer[2]) if layer is not None else None
        if layer is not None and form is not None:
            opset, attributes = layer[0].decode(), self._pairs(layer[1])
        else:  # another spelling than that of OpenVINO
            op = view.op(key, keep=False)
            form = self._numbered(op.inputs, op.outputs, op.rt_info.items())
            opset, attributes = op.opset, self.pairs[tuple(chain.from_iterable(op.attributes.items()))]
        columns = self.columns
        columns["types"].append(self.words[view.op_type(key)])
        columns["opsets"].append(self.words[opset])
        columns["attributes"].append(attributes)
        columns["rt_info"].append(self.pairs[form.rt_info])
        return form

    def _form(self, text: bytes) -> _Form | None:
        """The ports and rt_info in what follows ``<data>``; None for another spelling than that of OpenVINO."""
        if text in self._forms:
            return self._forms[text]
        sections = plain_sections(text)
        form = self._numbered(sections[1], sections[2], sections[0]) if sections is not None else None
        if b' names="' not in text:  # names are those of one op
            self._forms[text] = form
        return form

    def _numbered(self, inputs: Iterable[Port], outputs: Iterable[Port], rt_info: Iterable[tuple[str, str]]) -> _Form:
        declared = tuple([self._port(port) for port in inputs])
        own: list[int] = []
        places: dict[int, int] = {}
        for number, port in enumerate(outputs):
            own += (self._port(port), self.words[shortened(", ".join(port.names), _LONGEST)])
            places.setdefault(port.id, number)
        return _Form(declared, tuple(own), tuple(chain.from_iterable(rt_info)), places)

    def _pairs(self, attributes: bytes) -> int:
        number = self._attributes.get(attributes)
        if number is None:
            number = self.pairs[parse_pairs(attributes)]
            if b" offset=" not in attributes:  # which only one constant has
                self._attributes[attributes] = number
        return number

    def _port(self, port: Port) -> int:
        """Number of the type and shape of a port: ``f32 [?,?,128]``."""
        form = port.element_type, port.shape
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = self.ports[f"{port.element_type} {shape_text(port.shape)}"]
        return number

    def _line(self, offset: int) -> int:
        """Line of an offset; counting continues at the previous offset, so ops should be read in file order."""
        last, line = self._counted
        if offset < last:
            last, line = 0, 1
        line += self.view.scan.data.count(b"\n", last, offset)
        self._counted = (offset, line)
        return line


def _inputs(
    wires: Iterable[tuple[int, int]], form: _Form, position: Mapping[int, int], forms: Sequence[_Form], first: int
) -> tuple[int, ...]:
    """Position and output index of the source, and number of the port, for each input of an op."""
    inputs: list[int] = []
    declared = form.inputs
    for number, (op, port) in enumerate(wires):
        at = position.get(op, -1)
        index = forms[at - first].places.get(port, 0) if at >= 0 else 0
        inputs += (at, index, declared[number] if number < len(declared) else -1)
    return tuple(inputs)
