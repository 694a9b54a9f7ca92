"""The file of a piece: the bytes of the ops that stay, with new inputs and outputs at the cuts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, count

from irtools.errors import InvalidIRError
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, iter_graphs, read_constants
from irtools.ir.markup import Splice, space_before, spliced
from irtools.ir.op import Port
from irtools.ir.ranges import Ranges
from irtools.ir.rt_info import ANNOTATION_KEY, remove_entry
from irtools.ir.scan import ATTRIBUTES, Scan, Span, scan_outline
from irtools.surgery.edits import AddOp, NewPort
from irtools.surgery.extraction.piece import PiecePort, Plan
from irtools.surgery.extraction.region import Cut, PieceRegion
from irtools.surgery.extraction.shapes import rank_unknown
from irtools.surgery.reach import variable_id
from irtools.surgery.spelling import Spelling, tensor_names
from irtools.text import shape_text

__all__ = ["carve", "state_names"]

_OFFSET = re.compile(rb"<data" + ATTRIBUTES + rb"""?\s+offset\s*=\s*["']([0-9]+)""")  # lazy: the first offset


def state_names(variable: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the names of a state's input and output in a stateless export.

    Parameters
    ----------
    variable : str
        Variable id, into which exporters join the two names.
    names : iterable of str
        Tensor names of the ReadValue's output.

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


def carve(view: GraphView, region: PieceRegion, *, fed: bool = False) -> Plan:
    """Work out the file of a piece and the weights that it needs.

    Parameters
    ----------
    fed : bool
        True if another piece gives all inputs, so that none needs an explanation.

    Raises
    ------
    InvalidIRError
        A constant has no offset or size.
    """
    plan = _Carver(view, region).plan()
    return plan if fed else replace(plan, notes=(*plan.notes, *_shape_notes(view, region, plan.inputs)))


def _shape_notes(view: GraphView, region: PieceRegion, inputs: Iterable[PiecePort]) -> Iterator[str]:
    """Explain inputs that are shapes of values outside of the piece."""
    shaped = {
        view.op_name(cut.source.op): view.op_name(view.inputs(cut.source.op)[0].op)
        for cut in region.cuts
        if cut.kind == "shape"
    }
    for port in inputs:
        if port.kind == "shape":
            yield (
                f"the input {port.name!r} is the shape of a value that the piece neither takes nor computes: give the "
                f"shape that {shaped[port.producer]!r} has in the whole model"
            )


class _Carver:
    def __init__(self, view: GraphView, region: PieceRegion) -> None:
        self.view, self.region, self.scan = view, region, view.scan
        self.style = Spelling.of(view.scan)
        self.names = set(map(view.op_name, region.ops))
        # Names of inputs and outputs only: OpenVINO does not confuse them with equal names of inner tensors.
        self.tensors = {name for op in region.ops for name in _port_names(view, op)}
        self.ids = count(max(view.scan.ids, default=-1) + 1)
        self.moved: dict[Source, Source] = {}
        self.inputs: list[PiecePort] = []
        self.outputs: list[PiecePort] = []
        self.output_sources: list[Source] = []
        self.layers: dict[int, bytes] = {}
        self.result_edges: list[bytes] = []
        self.notes: list[str] = []

    def plan(self) -> Plan:
        view, region = self.view, self.region
        order = [op for op in self.scan.ids if op in region.ops]
        constants = self._constants(order)
        ranges = Ranges.of(constants)
        own = [op for op in order if view.op_type(op) == "Parameter"]
        for cut in region.cuts:
            if cut.kind != "state":
                self._cut(cut)
        for op in own:
            self._keep_input(op)
        for cut in region.cuts:
            if cut.kind == "state":
                self._cut(cut)
        ends = {end.result for end in region.ends}
        self._keep([op for op in order if op not in ends and op not in self.layers], constants, ranges)
        self._add_outputs()
        if self.scan.net.get("version") == "10":
            self._name_ports()
        self._explain_states()
        data = self._file()
        constant = sum(map(view.constant, region.ops))
        return Plan(
            data=data,
            ranges=ranges,
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            states=region.states,
            ops=len(self.layers) - constant,
            constants=constant,
            notes=tuple(self.notes),
        )

    # -- names -------------------------------------------------------------------------

    def _input_name(self, source: Source, kind: str) -> str:
        """Return the name of the input that replaces a value."""
        view = self.view
        if kind == "shape":
            source = view.unreshaped(view.inputs(source.op)[0])
            picked = view.inputs(source.op)[:1] if view.op_type(source.op) == "Gather" else ()
            if picked and view.op_type(picked[0].op) == "ReadValue":  # the state, reordered by beam_idx
                source = picked[0]
            return f"shape_of.{self._input_name(source, '')}"
        variable = variable_id(view, source.op)
        if variable and view.op_type(source.op) == "ReadValue":
            return state_names(variable, self._port(source).names)[0]
        name = view.op_name(source.op)
        return f"{name}:{view.output_index(source)}" if len(view.op(source.op).outputs) > 1 else name

    def _state_names(self, variable: str) -> tuple[str, str]:
        reads = [op for op in self.view.by_type.get("ReadValue", ()) if variable_id(self.view, op) == variable]
        return state_names(variable, [name for op in reads for name in self.view.output(op).names])

    def _port(self, source: Source) -> Port:
        port = self.view.port(source)
        if port is None:
            raise InvalidIRError(
                f"line {self.view.line(source.op)}: the op {self.view.op_name(source.op)!r} has no output port "
                f"{source.port}, but another op reads it; export the model again",
                path=self.scan.path,
            )
        return port

    # -- inputs and outputs ------------------------------------------------------------

    def _describe(self, name: str, source: Source, kind: str, variable: str = "") -> PiecePort:
        port, view = self._port(source), self.view
        producer = view.op_name(source.op)
        return PiecePort(name, port.element_type, port.shape, kind, producer, view.output_index(source), variable)

    def _cut(self, cut: Cut) -> None:
        """Add a Parameter in place of a value."""
        source, port = cut.source, self._port(cut.source)
        wanted = self.region.entry_name if source == self.region.entry else self._input_name(source, cut.kind)
        name = _fresh_name(wanted, self.names, self.tensors)
        self.names.add(name)
        self.tensors.add(name)
        key = next(self.ids)
        self.moved[source] = Source(key, 0)
        variable = variable_id(self.view, source.op) if cut.kind == "state" else ""
        self.inputs.append(self._describe(name, source, cut.kind, variable))
        shape = shape_text(port.shape)[1:-1]
        if rank_unknown(self.view, source):
            shape = "..."
            self.notes.append(f"the rank of the input {name!r} depends on the inputs of the whole model: set its shape")
        attributes = {"shape": shape, "element_type": port.element_type}
        output = NewPort(port.element_type, port.shape, (name,))
        self.layers[key] = self.style.layer(key, AddOp("Parameter", name, (), (output,), attributes), ())

    def _keep_input(self, op: int) -> None:
        source = Source(op, self.view.output(op).id)
        self.inputs.append(self._describe(self.view.input_name(op), source, "model"))
        self._copy(op)

    def _copy(self, op: int) -> None:
        start, end = self.view.span(op)
        self.layers[op] = self.scan.data[start:end]

    def _add_outputs(self) -> None:
        """Add the outputs in the requested order, then the new values of states."""
        for end in self.region.ends:
            if end.result is None:
                self._add_result(end.name, end.source, "value")
            else:
                self._copy(end.result)
                self._add_output(end.name, end.source, "value")
        for op in self.region.written:
            variable = variable_id(self.view, op)
            self._add_result(self._state_names(variable)[1], self.view.inputs(op)[0], "state", variable)

    def _add_result(self, wanted: str, source: Source, kind: str, variable: str = "") -> None:
        port = self._port(source)
        name = _fresh_name(wanted, self.tensors)
        friendly = _fresh_name(name if name not in self.names else f"{name}/Result", self.names)
        self.names.add(friendly)
        self.tensors.add(name)
        self._add_output(name, source, kind, variable)
        key, start = next(self.ids), self.moved.get(source, source)
        result = AddOp("Result", friendly, output_names=(name,))
        self.layers[key] = self.style.layer(key, result, (NewPort(port.element_type, port.shape),))
        self.result_edges.append(self.style.edge(start.op, start.port, key, 0))

    def _add_output(self, name: str, source: Source, kind: str, variable: str = "") -> None:
        self.outputs.append(self._describe(name, source, kind, variable))
        self.output_sources.append(source)

    def _name_ports(self) -> None:
        """Add the output names to the values: OpenVINO reads them there in a file of version 10."""
        for source, output in zip(self.output_sources, self.outputs, strict=True):
            moved = self.moved.get(source)
            op, index = (moved.op, 0) if moved else (source.op, output.output_index)
            names = tensor_names(self.layers[op], index)
            if output.name not in names:
                self.layers[op] = self.style.with_tensor_names(self.layers[op], index, (*names, output.name))

    # -- the ops that stay -------------------------------------------------------------

    def _constants(self, order: list[int]) -> list[Constant]:
        """Return the constants of the ops that stay, including those in bodies, in file order."""
        scan = self.scan
        places = [self.view.index[op] for op in order]
        some = replace(
            scan,
            ids=order,
            names=[scan.names[place] for place in places],
            types=[scan.types[place] for place in places],
            spans=[scan.spans[place] for place in places],
        )
        constants = read_constants(iter_graphs(some))
        for constant in constants:
            if constant.faults:
                raise InvalidIRError(
                    f"the constant {constant.name!r} has no {constant.faults[0]}; export the model again",
                    path=scan.path,
                )
        return sorted(constants, key=lambda constant: constant.span)

    def _keep(self, order: list[int], constants: list[Constant], ranges: Ranges) -> None:
        """Copy ops, with the new offsets of their constants."""
        data = self.scan.data
        starts = sorted(self.view.span(op).start for op in order)
        offsets: defaultdict[int, list[Splice]] = defaultdict(list)
        for constant in constants:
            match = _OFFSET.search(data, *constant.span)
            assert match is not None, "the offset has been read"
            layer = starts[bisect_right(starts, match.start(1)) - 1]
            new = b"%d" % ranges.moved(constant.offset)
            offsets[layer].append(Splice(match.start(1) - layer, match.end(1) - layer, new))
        for op in order:
            start, end = self.view.span(op)
            self.layers[op] = spliced(data[start:end], offsets.get(start, ()))

    def _edges(self) -> Iterator[bytes]:
        inputs = set(self.moved.values())
        for producer, port, reader, reader_port in self.scan.edges:
            if reader not in self.region.ops:
                continue
            source = self.region.rewired.get(reader, Source(producer, port))
            source = self.moved.get(source, source)
            if source.op in self.region.ops or source in inputs:
                yield self.style.edge(*source, reader, reader_port)

    def _file(self) -> bytes:
        lead, scan = self.style.lead, self.scan
        layers = b"".join(lead + layer for layer in self.layers.values())
        edges = b"".join(lead + edge for edge in (*self._edges(), *self.result_edges))
        sections = [_content(scan, scan.layers, layers), _content(scan, scan.edges_section, edges)]
        data = spliced(scan.data, sorted(sections))
        return remove_entry(scan_outline(data), ANNOTATION_KEY)

    def _explain_states(self) -> None:
        for variable in self.region.opened:
            past, new = self._state_names(variable)
            self.notes.append(
                f"the state {variable!r} became the input {past!r} and the output {new!r}: OpenVINO 2026.4 does not "
                "run it without the states that start with the same value"
            )
        for variable, reads in self.region.split:
            past, new = self._state_names(variable)
            reason = "read in the piece but not written" if reads else "written in the piece but not read"
            place = f"the input {past!r}" if reads else f"the output {new!r}"
            self.notes.append(f"the state {variable!r} is {reason}, so its value became {place}")


def _fresh_name(name: str, *taken: set[str]) -> str:
    """Return the name, with a number if it is taken."""
    candidates = chain([name], (f"{name}_{number}" for number in count(1)))
    return next(candidate for candidate in candidates if not any(candidate in names for names in taken))


def _content(scan: Scan, section: Span, items: bytes) -> Splice:
    """Replace the content of a section."""
    start = scan.data.index(b">", section.start) + 1
    end = scan.data.rfind(b"</", section.start, section.end)
    if end < start:  # self-closed, or missing
        raise InvalidIRError("there are no edges between the ops; export the model again", path=scan.path)
    return Splice(start, end - len(space_before(scan.data, end)), items)


def _port_names(view: GraphView, op: int) -> tuple[str, ...]:
    """Return the tensor names of an input or output of the model; empty for another op."""
    kind = view.op_type(op)
    return view.output(op).names if kind == "Parameter" else view.result_names(op) if kind == "Result" else ()
