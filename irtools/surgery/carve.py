"""The file of a piece: the bytes of the ops that stay, new inputs and outputs where it was cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from irtools.errors import InvalidIRError
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, iter_graphs, read_constants
from irtools.ir.markup import Splice, space_before, spliced
from irtools.ir.op import Port
from irtools.ir.ranges import Ranges
from irtools.ir.rt_info import ANNOTATION_KEY, remove_entry
from irtools.ir.scan import Scan, Span, scan_outline
from irtools.surgery.edits import AddOp, NewPort
from irtools.surgery.piece import PiecePort, Plan
from irtools.surgery.region import Cut, Region
from irtools.surgery.shapes import rank_unknown
from irtools.surgery.spelling import Style, tensor_names

__all__ = ["carve", "state_names"]

_OFFSET = re.compile(rb"""<data(?:\s+[^\s=>/"']+\s*=\s*(?:"[^"]*"|'[^']*'))*?\s+offset\s*=\s*["'](\d+)""")


def state_names(variable: str, names: Iterable[str]) -> tuple[str, str]:
    """What the value of a state is called before and after a call, without states.

    Parameters
    ----------
    variable : str
        Its id, for which exporters join the two names.
    names : iterable of str
        Tensor names of the value that is read.

    Examples
    --------
    >>> state_names("past_key_values.0.keypresent.0.key", ["past_key_values.0.key"])
    ('past_key_values.0.key', 'present.0.key')
    >>> state_names("cache", [])
    ('cache', 'cache.new')
    """
    for name in sorted(names, key=len, reverse=True):
        if name and variable.startswith(name) and variable != name:
            return name, variable[len(name) :]
    past, present, rest = variable.partition("present")
    for ending in ("cache_params.", ""):  # such as cache_params.past.conv.0cache_params.present.conv.0
        if present and past.endswith(ending) and past != ending:
            return past.removesuffix(ending), ending + present + rest
    return variable, f"{variable}.new"


def carve(view: GraphView, region: Region) -> Plan:
    """Work out the file of a piece, and which of the weights it needs.

    Parameters
    ----------
    view : GraphView
    region : Region

    Raises
    ------
    InvalidIRError
        A constant does not say where its values are.
    """
    return _Carver(view, region).plan()


class _Carver:
    def __init__(self, view: GraphView, region: Region) -> None:
        self.view, self.region, self.scan = view, region, view.scan
        self.style = Style.of(view.scan)
        self.names = set(map(view.op_name, region.ops))
        # Of inputs and outputs: when a tensor inside has such a name too, OpenVINO does not confuse them.
        self.tensors = {name for op in region.ops for name in _port_names(view, op)}
        self.new_id = max(view.scan.ids, default=-1)
        self.moved: dict[Source, Source] = {}
        self.inputs: list[PiecePort] = []
        self.outputs: list[PiecePort] = []
        self.read: list[Source] = []  # by the outputs
        self.notes: list[str] = []

    def plan(self) -> Plan:
        view, region = self.view, self.region
        order = [op for op in self.scan.ids if op in region.ops]
        constants = self._constants(order)
        ranges = Ranges.of(constants)
        own = [op for op in order if view.op_type(op) == "Parameter"]
        results = [end.result for end in region.ends if end.result is not None]
        middle = [op for op in order if op not in {*own, *results}]
        layers = dict(self._cut(cut) for cut in region.cuts if cut.kind != "state")
        self.inputs += [self._kept_input(op) for op in own]
        layers.update(self._moved(constants, ranges, own))
        layers.update(self._cut(cut) for cut in region.cuts if cut.kind == "state")
        layers.update(self._moved(constants, ranges, middle))
        tail, edges = self._tail()
        layers.update(tail)
        if self.scan.net.get("version") == "10":
            self._name_ports(layers)
        self._explain_states()
        data = self._file(layers.values(), [*self._edges(), *edges])
        computed = sum(not view.constant(op) for op in region.ops)
        count = len(layers) - (len(region.ops) - computed)
        return Plan(
            data=data,
            ranges=ranges,
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            states=region.states,
            ops=count,
            constants=len(region.ops) - computed,
            notes=tuple(self.notes),
        )

    # -- names -------------------------------------------------------------------------

    def _fresh_name(self, name: str, *taken: set[str]) -> str:
        """The name, or one made from it that is not taken."""
        found, number = name, 0
        while any(found in names for names in taken):
            number += 1
            found = f"{name}_{number}"
        return found

    def _called(self, source: Source, kind: str) -> str:
        """What the input for a value is called."""
        if kind == "shape":
            source = self.view.unreshaped(self.view.inputs(source.op)[0])
            picked = self.view.inputs(source.op)[:1] if self.view.op_type(source.op) == "Gather" else ()
            if picked and self.view.op_type(picked[0].op) == "ReadValue":  # what the state holds, in another order
                source = picked[0]
            return f"shape_of.{self._called(source, '')}"
        variable = self.view.data(source.op).get("variable_id", "")
        if variable and self.view.op_type(source.op) == "ReadValue":
            return state_names(variable, self._port(source).names)[0]
        return self._name(source)

    def _name(self, source: Source) -> str:
        """Friendly name of an op, with the output index where it has several."""
        name = self.view.op_name(source.op)
        several = len(self.view.op(source.op).outputs) > 1
        return f"{name}:{self.view.output_index(source)}" if several else name

    def _fresh_id(self) -> int:
        self.new_id += 1
        return self.new_id

    def _port(self, source: Source) -> Port:
        port = self.view.port(source)
        if port is None:
            raise InvalidIRError(
                f"line {self.view.line(source.op)}: the op {self.view.op_name(source.op)!r} has no output port "
                f"{source.port}, which another op reads; export the model again",
                path=self.scan.path,
            )
        return port

    # -- inputs and outputs ------------------------------------------------------------

    def _cut(self, cut: Cut) -> tuple[int, bytes]:
        """The Parameter in place of a value, and its id."""
        port = self._port(cut.source)
        wanted = self.region.entry_name if cut.source == self.region.entry else self._called(cut.source, cut.kind)
        name = self._fresh_name(wanted, self.names, self.tensors)
        self.names.add(name)
        self.tensors.add(name)
        key = self._fresh_id()
        self.moved[cut.source] = Source(key, 0)
        index = self.view.output_index(cut.source)
        producer = self.view.op_name(cut.source.op)
        self.inputs.append(PiecePort(name, port.element_type, port.shape, cut.kind, producer, index))
        new = NewPort(port.element_type, port.shape, (name,))
        shape = ",".join("?" if dim < 0 else str(dim) for dim in port.shape)
        if rank_unknown(self.view, cut.source):
            shape = "..."
            self.notes.append(f"the rank of the input {name!r} depends on what the whole model is fed: give it a shape")
        attributes = {"shape": shape, "element_type": port.element_type}
        return key, self.style.layer(key, AddOp("Parameter", name, (), (new,), attributes), ())

    def _kept_input(self, op: int) -> PiecePort:
        port = self.view.output(op)
        name = port.names[0] if port.names else self.view.op_name(op)
        return PiecePort(name, port.element_type, port.shape, "model", self.view.op_name(op))

    def _tail(self) -> tuple[dict[int, bytes], list[bytes]]:
        """Results by id, in the order asked for, and the edges into the new ones."""
        layers, edges = {}, []
        for end in self.region.ends:
            if end.result is not None:
                span = self.view.span(end.result)
                layers[end.result] = self.scan.data[span.start : span.end]
                self._add_output(end.name, end.source, "value")
                continue
            key, layer, edge = self._result(end.name, end.source, "value")
            layers[key] = layer
            edges.append(edge)
        for op in self.region.written:
            variable = self.view.data(op).get("variable_id", "")
            source = self.view.inputs(op)[0]
            key, layer, edge = self._result(state_names(variable, self._read_names(variable))[1], source, "state")
            layers[key] = layer
            edges.append(edge)
        return layers, edges

    def _read_names(self, variable: str) -> tuple[str, ...]:
        """Tensor names of the value of a state that is read."""
        reads = self.view.by_type.get("ReadValue", ())
        return tuple(
            name
            for op in reads
            if self.view.data(op).get("variable_id") == variable
            for name in self.view.output(op).names
        )

    def _result(self, wanted: str, source: Source, kind: str) -> tuple[int, bytes, bytes]:
        port = self._port(source)
        name = self._fresh_name(wanted, self.tensors)
        friendly = self._fresh_name(name if name not in self.names else f"{name}/Result", self.names)
        self.names.add(friendly)
        self.tensors.add(name)
        self._add_output(name, source, kind)
        key, start = self._fresh_id(), self.moved.get(source, source)
        new = NewPort(port.element_type, port.shape)
        layer = self.style.layer(key, AddOp("Result", friendly, output_names=(name,)), (new,))
        return key, layer, self.style.edge(start.op, start.port, key, 0)

    def _add_output(self, name: str, source: Source, kind: str) -> None:
        port, index = self._port(source), self.view.output_index(source)
        producer = self.view.op_name(source.op)
        self.outputs.append(PiecePort(name, port.element_type, port.shape, kind, producer, index))
        self.read.append(source)

    def _name_ports(self, layers: dict[int, bytes]) -> None:
        """Name outputs where OpenVINO reads the names of a version 10 file: at the values that they give."""
        for source, output in zip(self.read, self.outputs, strict=True):
            moved = self.moved.get(source)
            op, index = (moved.op, 0) if moved else (source.op, output.output_index)
            names = tensor_names(layers[op], index)
            if output.name not in names:
                layers[op] = self.style.with_tensor_names(layers[op], index, (*names, output.name))

    # -- what stays --------------------------------------------------------------------

    def _constants(self, order: list[int]) -> list[Constant]:
        """Constants of the ops that stay, those in bodies too, in file order."""
        scan, index = self.scan, self.view.index
        places = [index[op] for op in order]
        some = replace(
            scan,
            ids=order,
            names=[scan.names[place] for place in places],
            types=[scan.types[place] for place in places],
            spans=[scan.spans[place] for place in places],
        )
        found = read_constants(iter_graphs(some))
        for constant in found:
            if constant.faults:
                raise InvalidIRError(
                    f"the constant {constant.name!r} has no {constant.faults[0]}; export the model again",
                    path=scan.path,
                )
        return sorted(found, key=lambda constant: constant.span)

    def _moved(self, constants: list[Constant], ranges: Ranges, order: list[int]) -> Iterator[tuple[int, bytes]]:
        """Layers by id, with the new places of their constants."""
        data, places = self.scan.data, []
        for constant in constants:
            match = _OFFSET.search(data, *constant.span)
            assert match is not None, "the offset has been read"
            places.append(Splice(*match.span(1), b"%d" % ranges.moved(constant.offset)))
        inside = _by_layer(places, [self.view.span(op) for op in order])
        for op in order:
            start, end = self.view.span(op)
            here = [Splice(a - start, b - start, new) for a, b, new in inside.get(start, ())]
            yield op, spliced(data[start:end], here)

    def _edges(self) -> Iterator[bytes]:
        ops, moved = self.region.ops, self.moved
        inputs = set(moved.values())
        for edge in self.scan.edges:
            source, target = Source(edge[0], edge[1]), edge[2]
            if target not in ops:
                continue
            source = self.region.rewired.get(target, source)
            source = moved.get(source, source)
            if source.op in ops or source in inputs:
                yield self.style.edge(*source, target, edge[3])

    def _file(self, layers: Iterable[bytes], edges: list[bytes]) -> bytes:
        scan, lead = self.scan, self.style.lead
        sections = [
            _content(scan, scan.layers, b"".join(lead + layer for layer in layers)),
            _content(scan, scan.edges_section, b"".join(lead + edge for edge in edges)),
        ]
        data = spliced(scan.data, sorted(sections))
        return remove_entry(scan_outline(data), ANNOTATION_KEY)

    def _explain_states(self) -> None:
        for variable in self.region.opened:
            past, new = state_names(variable, self._read_names(variable))
            self.notes.append(
                f"the state {variable!r} became the input {past!r} and the output {new!r}: without the states that "
                "begin with the same value OpenVINO 2026.4 does not run it"
            )
        for variable, reads in self.region.split:
            name = state_names(variable, self._read_names(variable))[not reads]
            place = f"the input {name!r}" if reads else f"the output {name!r}"
            where = "read in the piece and not written" if reads else "written in the piece and not read"
            self.notes.append(f"the state {variable!r} is {where} in it: its value is {place}")


def _content(scan: Scan, section: Span, items: bytes) -> Splice:
    """Put elements in place of all that a section holds."""
    start = scan.data.index(b">", section.start) + 1
    end = scan.data.rfind(b"</", section.start, section.end)
    if end < start:  # self-closed, or not there at all
        raise InvalidIRError("there are no edges between the ops; export the model again", path=scan.path)
    return Splice(start, end - len(space_before(scan.data, end)), items)


def _by_layer(places: list[Splice], spans: list[Span]) -> dict[int, list[Splice]]:
    """Changes by the start of the layer that they are in."""
    found: dict[int, list[Splice]] = {}
    pending = sorted(places, reverse=True)
    for start, end in sorted(spans):
        while pending and pending[-1].start < end:
            found.setdefault(start, []).append(pending.pop())
    return found


def _port_names(view: GraphView, op: int) -> tuple[str, ...]:
    """Tensor names of an input or output of the model."""
    kind = view.op_type(op)
    return view.output(op).names if kind == "Parameter" else view.result_names(op) if kind == "Result" else ()
