"""Graph of a part as page data: what ops have in common is in a table of forms, to which each op refers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

from irtools.anatomy.alike import alike
from irtools.anatomy.dims import Dims
from irtools.graph.view import GraphView, Source
from irtools.ir.op import Port, parse_pairs, plain_layer, plain_sections, split_names
from irtools.ir.scan import BODY_OWNERS, attribute_text
from irtools.model.document import Document
from irtools.text import shape_text, shortened

__all__ = ["Columns", "columns", "lettered"]

_LONGEST = 1000
"""Longest names on the page; no exporter writes names near that length, and no browser lays them out well."""
_TYPE = b'" type="'
_DYNAMIC = "?"
_OFFSET, _NAMES = b' offset="', b' names="'

Form: TypeAlias = tuple[Any, ...]
"""What many ops have in common, see :class:`Columns`."""


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


@dataclass(slots=True)
class Columns:
    """All ops of a part; the ops of bodies follow those of the part's own graph.

    Attributes
    ----------
    ids, names, types, lines : list
        Layer id, friendly name, type, and line in the file at which the op starts.
    constant : list of str
        ``"1"`` for constants and what is computed from constants alone, else ``"0"``.
    forms : list of int
        Position in ``table``.
    table : list of Form
        Type, opset, attributes and rt_info as names and values by turns, type and shape of each input and of
        each output, and the tensor names of each output, or none if there are no names. None stands for the value
        of ``offset`` and for the tensor names that each op of the form has of its own. Where the graph has another
        number of edges to an op than the op has inputs, that number comes last.
    offsets, tensors : dict
        These values, by position of the op.
    sources : list of sequence of int
        Positions of the producers by input; -1 without one.
    picks : dict
        Output indices by input, for the ops that read another output than the first one.
    bodies : list of Body
    position : dict of int to int
        Positions of the ops of the part's own graph, by layer id.
    end : int
        Line at which the last op of the part's own graph ends.
    """

    ids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)
    forms: list[int] = field(default_factory=list)
    table: list[Form] = field(default_factory=list)
    offsets: dict[int, str] = field(default_factory=dict)
    tensors: dict[int, str] = field(default_factory=dict)
    sources: list[Sequence[int]] = field(default_factory=list)
    picks: dict[int, list[int]] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)
    position: dict[int, int] = field(default_factory=dict)
    end: int = 0


def columns(document: Document) -> Columns:
    """Read every op of a part.

    Raises
    ------
    InvalidIRError
        The graph cannot be built, or a port is malformed.
    """
    return _GraphReader().read(document.graph)


def lettered(data: Columns, dims: Dims) -> None:
    """Write letters for the dimensions of outputs that are known, in forms of their own; bodies have none."""
    view, forms = dims.view, data.forms
    own: dict[int, int] = {}
    numbers: dict[tuple[int, tuple[str, ...]], int] = {}
    for op, first in alike(dims, forms, data.offsets).items():
        place = data.position[op]
        number = own.get(first)
        if number is None:
            number, form = forms[place], data.table[forms[place]]
            if any(_DYNAMIC in port for port in form[5]):
                shapes = [",".join(dims.of(Source(op, port.id))) for port in view.outputs(op)]
                outputs = tuple(f"{port.split()[0]} [{shape}]" for port, shape in zip(form[5], shapes, strict=True))
                number = numbers.setdefault((number, outputs), len(data.table)) if outputs != form[5] else number
                if number == len(data.table):
                    data.table.append((*form[:5], outputs, *form[6:]))
            own[first] = number
        forms[place] = number


class _GraphReader:
    """Reader of the ops of a graph and of its bodies."""

    def __init__(self) -> None:
        self.found = Columns()
        self._known: dict[object, int] = {}
        self._numbers: dict[tuple[Form, tuple[int, ...]], int] = {}
        self._ports: list[tuple[int, ...]] = []
        self._counted = (0, 1)

    def read(self, view: GraphView) -> Columns:
        self.found.position = self._graph(view)
        self.found.end = self._line(view, max((span.end for span in view.scan.spans), default=0))
        return self.found

    def _graph(self, view: GraphView) -> dict[int, int]:
        """Read a graph and then its bodies; return the positions of the graph's ops by layer id."""
        scan, found, constants = view.scan, self.found, view.constants
        first = len(found.ids)
        position = {key: first + number for number, key in enumerate(scan.ids)}
        found.ids += scan.ids
        long = max(map(len, scan.names), default=0) > _LONGEST
        found.names += [shortened(name, _LONGEST) for name in scan.names] if long else scan.names
        found.types += scan.types
        found.lines += [self._line(view, start) for start, _ in scan.spans]
        found.constant += ["1" if key in constants else "0" for key in scan.ids]
        self._read_forms(view, first)
        self._read_wires(view, position, first)
        for key, kind in zip(scan.ids, scan.types, strict=True):
            if kind in BODY_OWNERS:
                for name, body in view.bodies(key).items():
                    start = len(found.ids)
                    inner = len(self._graph(body))
                    found.bodies.append(Body(position[key], name, range(start, start + inner)))
        return position

    # -- forms ---------------------------------------------------------------------------

    def _read_forms(self, view: GraphView, first: int) -> None:
        """Find the form of each op by what follows its name in the file: thousands of ops share such a text."""
        data, find, known, forms = view.scan.data, view.scan.data.find, self._known, self.found.forms
        for op, (start, end) in enumerate(view.scan.spans, first):
            at = find(_TYPE, start, end)
            text = data[at if at >= 0 else start : end]
            form = known.get(text)
            forms.append(self._form(view, op, text) if form is None else form)

    def _form(self, view: GraphView, op: int, text: bytes) -> int:
        """Form of an op whose text is not known. An offset and tensor names, which are those of one op, are cut out."""
        key, offset, tensors = _cut(text)
        form = self._known.get(key)
        if form is None:
            content, ports, plain = _content(view, self.found.ids[op])
            rest = _without(content, offset, tensors)
            form = self._numbered(rest or content, ports)
            if rest is None:
                return form
            if plain:
                self._known[key] = form
        if offset:
            self.found.offsets[op] = offset
        if tensors:
            self.found.tensors[op] = tensors
        return form

    def _numbered(self, content: Form, ports: tuple[int, ...]) -> int:
        """Number of a form with these ids of its output ports, which is a new one at the first time."""
        number = self._numbers.setdefault((content, ports), len(self.found.table))
        if number == len(self.found.table):
            self.found.table.append(content)
            self._ports.append(ports)
        return number

    # -- wires ---------------------------------------------------------------------------

    def _read_wires(self, view: GraphView, position: Mapping[int, int], first: int) -> None:
        """Read the producers of each op."""
        found, forms, sources = self.found, self.found.forms, self.found.sources
        counts = [len(form[4]) for form in found.table]
        many = {form for form, ports in enumerate(self._ports) if len(ports) > 1}
        for op, key in enumerate(view.scan.ids, first):
            wires = view.wires(key)
            own = [position.get(source, -1) for source, _ in wires] if wires else ()
            sources.append(own)
            if len(own) != counts[forms[op]]:
                forms[op] = self._numbered((*found.table[forms[op]], len(own)), self._ports[forms[op]])
                counts += [len(own)] * (len(found.table) - len(counts))
        wide = {op for op in range(first, first + len(position)) if forms[op] in many} if many else set()
        if wide:
            for op, key in enumerate(view.scan.ids, first):
                if not wide.isdisjoint(sources[op]):
                    self._pick(op, view.wires(key))

    def _pick(self, op: int, wires: Iterable[tuple[int, int]]) -> None:
        """Note which outputs an op reads, if it reads another than the first."""
        picks = []
        for source, (_, port) in zip(self.found.sources[op], wires, strict=True):
            ports = self._ports[self.found.forms[source]] if source >= 0 else ()
            picks.append(ports.index(port) if port in ports else 0)
        if any(picks):
            self.found.picks[op] = picks

    def _line(self, view: GraphView, offset: int) -> int:
        """Line of an offset; counting continues at the previous offset, so ops should be read in file order."""
        last, line = self._counted
        if offset < last:
            last, line = 0, 1
        line += view.scan.data.count(b"\n", last, offset)
        self._counted = (offset, line)
        return line


def _cut(text: bytes) -> tuple[object, str, str]:
    """What is left of the text of an op without an offset and without tensor names, and these."""
    head, offset, rest = _once(_OFFSET, text)
    middle, names, tail = _once(_NAMES, rest)
    if names:
        tensors = shortened(", ".join(split_names(attribute_text(names))), _LONGEST)
        return (head, middle, not offset, tail), offset.decode(), tensors
    return ((head, tail), offset.decode(), "") if offset else (text, "", "")


def _once(attribute: bytes, text: bytes) -> tuple[bytes, bytes, bytes]:
    """What is before and after the value of an attribute, and the value; an attribute in several places is left."""
    at = text.find(attribute)
    start = at + len(attribute)
    end = text.find(b'"', start)
    if at < 0 or end <= start or text.find(attribute, end) >= 0:
        return b"", b"", text
    return text[:at], text[start:end], text[end:]


def _content(view: GraphView, key: int) -> tuple[Form, tuple[int, ...], bool]:
    """Form of an op, the ids of its output ports, and whether it is spelled as by OpenVINO."""
    layer = plain_layer(view.scan.data, view.span(key))
    sections = plain_sections(layer[2]) if layer is not None else None
    if layer is not None and sections is not None:
        opset, attributes = layer[0].decode(), parse_pairs(layer[1])
        rt_info, inputs, outputs = sections
    else:
        op = view.op(key, keep=False)
        opset, attributes = op.opset, tuple(chain.from_iterable(op.attributes.items()))
        rt_info, inputs, outputs = tuple(op.rt_info.items()), op.inputs, op.outputs
    tensors = tuple(shortened(", ".join(port.names), _LONGEST) for port in outputs)
    form = (
        view.op_type(key),
        opset,
        attributes,
        tuple(chain.from_iterable(rt_info)),
        tuple(map(_port, inputs)),
        tuple(map(_port, outputs)),
        tensors if any(tensors) else (),
    )
    return form, tuple(port.id for port in outputs), sections is not None


def _port(port: Port) -> str:
    """Type and shape of a port: ``f32 [?,?,128]``."""
    return f"{port.element_type} {shape_text(port.shape)}"


def _without(form: Form, offset: str, tensors: str) -> Form | None:
    """A form with None in place of an offset and of tensor names; None if they are not where they should be."""
    attributes, names = list(form[2]), list(form[6])
    if offset:
        at = next((place + 1 for place in range(0, len(attributes), 2) if attributes[place] == "offset"), None)
        if at is None or attributes[at] != offset:
            return None
        attributes[at] = None
    if tensors:
        if [name for name in names if name] != [tensors]:
            return None
        names[names.index(tensors)] = None
    return (*form[:2], tuple(attributes), *form[3:6], tuple(names))
