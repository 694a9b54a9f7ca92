"""The NetworkX view of one IR graph."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import networkx as nx

from irtools.errors import IrtoolsError, MalformedValueError, about
from irtools.ir.integrity import prove
from irtools.ir.op import (
    RESHAPES,
    Op,
    Port,
    Ports,
    bare_ports,
    data_attributes,
    layer_attributes,
    output_ports,
    parse_element,
    parse_op,
    port_shapes,
    split_names,
)
from irtools.ir.scan import Scan, Span, bodies
from irtools.text import clipped, plural, short_repr, whole_number

__all__ = ["Consumer", "GraphView", "Source"]

if TYPE_CHECKING:
    _DiGraph = nx.DiGraph[int]
else:
    _DiGraph = nx.DiGraph  # networkx before 3.4 cannot be subscripted at run time

T = TypeVar("T")
_RANDOM = {"RandomUniform", "Multinomial"}


class Source(NamedTuple):
    """Producer of an input: layer id and output port id."""

    op: int
    port: int


_SOURCE = Source._make


class Consumer(NamedTuple):
    """Consumer of a value: layer id, input index, and the id of the output port that it reads."""

    op: int
    input: int
    port: int


_CONSUMER = Consumer._make


@contextmanager
def _collector_off() -> Iterator[None]:
    """Disable the cyclic garbage collector while millions of small objects are created.

    On 265,000 ops this saves 4 s of 15 s: the collector traverses all new tuples repeatedly, and none of
    them is garbage.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class GraphView(_DiGraph):
    """Directed graph of one IR whose nodes are layer ids (int).

    Nodes have the attributes ``name`` and ``type``. Constants, and ops computed from constants alone
    (decompressed weights), are not nodes. ``inputs`` includes them, ``constant`` identifies them, and
    ``to_networkx`` adds them as nodes. ``op`` returns ports, shapes and attributes.

    Parameters
    ----------
    scan : Scan
        Scan of a file or a body. Without it the graph is empty; NetworkX requires such a constructor.

    Raises
    ------
    InvalidIRError
        The wiring has a fault, such as a cycle: every walk of a view ends.

    Examples
    --------
    >>> import irtools
    >>> graph = irtools.open_export("fixtures/falcon").target.graph
    >>> [graph.nodes[n]["name"] for n in graph.parameters]
    ['input_ids', 'attention_mask', 'position_ids', 'beam_idx']
    """

    def __init__(self, scan: Scan | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.scan = scan if scan is not None else Scan(b"")
        self._types = self.scan.types
        self._ops: dict[int, Op] = {}
        self._outputs: dict[int, tuple[Port, ...]] = {}
        self._shapes: dict[int, Sequence[tuple[int, ...]]] = {}
        with _collector_off():
            self._build()

    @classmethod
    def of_same(cls, other: GraphView, scan: Scan) -> GraphView:
        """The view of a file whose layers and edges are the same bytes at the same places; it shares its contents."""
        view = cls()
        view.scan, view._types = scan, scan.types
        view.index, view._inputs, view._order = other.index, other._inputs, other._order
        view._constant, view._ops, view._outputs = other._constant, other._ops, other._outputs
        into: Any = view
        of: Any = other
        into._node, into._adj, into._pred = of._node, of._adj, of._pred
        return view

    def __repr__(self) -> str:
        return short_repr(self, str(self.scan.path or ""), f"{plural(len(self), 'op')} without constants")

    def __reduce__(self) -> tuple[type[GraphView], tuple[Scan]]:
        return GraphView, (self.scan,)

    def _build(self) -> None:
        scan = self.scan
        wiring = prove(scan)
        self.index, self._inputs, self._order = wiring.index, wiring.inputs, wiring.order
        self._constant = self._find_constants()
        self._fill()

    def _fill(self) -> None:
        """Add nodes and edges as ``add_nodes_from`` and ``add_edges_from`` do, in a quarter of the time."""
        scan, constant = self.scan, self._constant
        own: Any = self  # the types of networkx do not have these attributes
        nodes, after, before = own._node, own._succ, own._pred
        for key, name, kind in zip(scan.ids, scan.names, scan.types, strict=True):
            if key not in constant:
                nodes[key] = {"name": name, "type": kind}
                after[key], before[key] = {}, {}
        for target, sources in self._inputs.items():
            if target not in constant:
                into = before[target]
                for source, _ in sources:
                    if source not in constant:
                        into[source] = after[source][target] = {}

    def _find_constants(self) -> set[int]:
        """Layer ids of constants and of ops computed from constants alone."""
        constants: set[int] = set()
        inputs, never = self._inputs, {"Parameter", "Result", "Assign", "ReadValue"} | _RANDOM
        ids, types = self.scan.ids, self.scan.types
        for position in self._order:
            key, kind = ids[position], types[position]
            sources = inputs.get(key, ())
            computed = sources and kind not in never and constants.issuperset([source for source, _ in sources])
            if computed or kind in ("Const", "Constant"):
                constants.add(key)
        return constants

    # -- ops ---------------------------------------------------------------------------

    def op_type(self, key: int) -> str:
        """Type of an op, constants included."""
        return self._types[self.index[key]]

    def op_name(self, key: int) -> str:
        """Friendly name of an op, constants included."""
        return self.scan.names[self.index[key]]

    def span(self, key: int) -> Span:
        """Byte range of an op in the file."""
        return self.scan.spans[self.index[key]]

    def line(self, key: int) -> int:
        """Line number of an op in the file."""
        return self.scan.line(self.span(key).start)

    def op(self, key: int, *, keep: bool = True) -> Op:
        """Op with its ports, attributes and rt_info, constants included.

        Without ``keep`` only its output ports are kept for later calls; for a pass over all ops of a large graph.
        """
        op = self._ops.get(key)
        if op is None:
            op = self._parsed(parse_op, key)
            self._outputs[key] = op.outputs
            if keep:
                self._ops[key] = op
        return op

    def outputs(self, key: int) -> tuple[Port, ...]:
        """Output ports of an op, constants included; with less time and memory than ``op``."""
        ports = self._outputs.get(key)
        if ports is None:
            bare = self._bare(key)
            if bare is not None and not bare.named:
                return bare.outputs
            ports = self._outputs[key] = self._parsed(output_ports, key)
        return ports

    def _bare(self, key: int) -> Ports | None:
        """Input and output ports of an op without tensor names, which ops of equal content share; None if unknown."""
        contents = self.scan.contents
        return bare_ports(contents[self.index[key]]) if contents else None

    def _parsed(self, parse: Callable[[bytes, Span], T], key: int) -> T:
        try:
            return parse(self.scan.data, self.scan.spans[self.index[key]])
        except IrtoolsError:
            with about(self.scan.path):  # only then: entering the block takes as long as reading the op
                raise

    def data(self, key: int) -> Mapping[str, str]:
        """Attributes of an op; faster than ``op`` if the ports are not needed."""
        op = self._ops.get(key)
        return op.attributes if op is not None else data_attributes(self.scan.data, self.span(key))

    def constant(self, key: int) -> bool:
        """True if an op is a constant or computed from constants alone."""
        return key in self._constant

    @property
    def constants(self) -> frozenset[int]:
        """Layer ids of constants and of ops computed from constants alone."""
        return frozenset(self._constant)

    # -- wiring ------------------------------------------------------------------------

    def inputs(self, key: int) -> tuple[Source, ...]:
        """Sources of an op by input index, constants included."""
        return tuple(map(_SOURCE, self._inputs.get(key, ())))

    def wires(self, key: int) -> tuple[tuple[int, int], ...]:
        """The same as ``inputs``, as plain tuples: for passes over all ops."""
        return self._inputs.get(key, ())

    def producers(self, key: int) -> tuple[int, ...]:
        """Layer ids of the producers of an op by input index, constants included."""
        return tuple([source for source, _ in self._inputs.get(key, ())])

    @cached_property
    def _consumers(self) -> dict[int, list[tuple[int, int, int]]]:
        consumers: dict[int, list[tuple[int, int, int]]] = {}
        with _collector_off():
            for target, sources in self._inputs.items():
                for index, (source, port) in enumerate(sources):
                    consumers.setdefault(source, []).append((target, index, port))
        return consumers

    def consumers(self, key: int) -> tuple[Consumer, ...]:
        """Consumers of the outputs of an op, constants included."""
        return tuple(map(_CONSUMER, self._consumers.get(key, ())))

    def readers(self, key: int) -> Sequence[tuple[int, int, int]]:
        """The same as ``consumers``, as plain tuples: for passes over all ops."""
        return self._consumers.get(key, ())

    def constant_readers(self) -> dict[int, list[int]]:
        """Layer ids of the consumers of each constant value, one for each input; smaller than ``consumers``."""
        readers: dict[int, list[int]] = {}
        constant = self._constant
        for target, sources in self._inputs.items():
            for source, _ in sources:
                if source in constant:
                    readers.setdefault(source, []).append(target)
        return readers

    def output_index(self, source: Source | tuple[int, int]) -> int:
        """Output index of an output port (the ``output_index`` of a locator)."""
        wanted, ports = source[1], self.outputs(source[0])
        if len(ports) < 2:
            return 0
        return next((index for index, port in enumerate(ports) if port.id == wanted), 0)

    def output(self, key: int, index: int = 0) -> Port:
        """Output port of an op.

        Raises
        ------
        MalformedValueError
            The op has no such output in the file.
        """
        ports = self.outputs(key)
        if index >= len(ports):
            raise self._lacks(key, f"output {index}")
        return ports[index]

    def input(self, key: int, index: int = 0) -> Source:
        """Source of one input of an op.

        Raises
        ------
        MalformedValueError
            The op has no such input in the file.
        """
        sources = self._inputs.get(key, ())
        if index >= len(sources):
            raise self._lacks(key, f"input {index}")
        return Source(*sources[index])

    def _lacks(self, key: int, what: str) -> MalformedValueError:
        line = self.line(key)
        return MalformedValueError(
            f"line {line}: the {self.op_type(key)} {clipped(self.op_name(key))!r} has no {what}",
            line=line,
            path=self.scan.path,
            hint="export the model again",
        )

    def output_shape(self, key: int, index: int = 0) -> tuple[int, ...]:
        """Shape of an output of an op, by output index; ``()`` if it has no such output."""
        bare = self._bare(key)
        ports = bare.outputs if bare is not None else self.outputs(key)
        return ports[index].shape if index < len(ports) else ()

    def shape(self, source: Source | tuple[int, int]) -> tuple[int, ...]:
        """Shape of a value; ``()`` if the op has no such port."""
        bare = self._bare(source[0])
        for port in bare.outputs if bare is not None else self.outputs(source[0]):
            if port.id == source[1]:
                return port.shape
        return ()

    def port_shapes(self, key: int) -> Sequence[tuple[int, ...]]:
        """Shapes of all ports of an op, inputs first."""
        bare = self._bare(key)
        if bare is not None:
            return bare.shapes
        if key not in self._shapes:
            self._shapes[key] = port_shapes(self.scan.data, self.span(key))
        return self._shapes[key]

    def unreshaped(self, source: Source) -> Source:
        """Source of a value before any reshapes, which keep the elements and their order."""
        while self.op_type(source.op) in RESHAPES:
            source = self.inputs(source.op)[0]
        return source

    def port(self, source: Source | tuple[int, int]) -> Port | None:
        """Type, shape and tensor names of an output port; None if the op has no such port."""
        for port in self.outputs(source[0]):
            if port.id == source[1]:
                return port
        return None

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """Layer ids in topological order, constants included."""
        ids = self.scan.ids
        return tuple([ids[position] for position in self._order])

    @cached_property
    def rank(self) -> dict[int, int]:
        """Positions in ``topological``, by layer id."""
        return {key: position for position, key in enumerate(self.topological)}

    # -- by kind -----------------------------------------------------------------------

    @cached_property
    def by_type(self) -> dict[str, tuple[int, ...]]:
        """Layer ids by op type, in file order, constants included."""
        ops: dict[str, list[int]] = {}
        for key, kind in zip(self.scan.ids, self.scan.types, strict=True):
            ops.setdefault(kind, []).append(key)
        return {kind: tuple(keys) for kind, keys in ops.items()}

    @cached_property
    def named(self) -> Mapping[str, tuple[int, ...]]:
        """Layer ids by friendly name, constants and dead ops included."""
        ids, names = self.scan.ids, self.scan.names
        unique = dict(zip(names, zip(ids), strict=True))  # in a third of the time of what follows
        if len(unique) == len(names):
            return unique
        ops: dict[str, list[int]] = {}
        for key, name in zip(ids, names, strict=True):
            ops.setdefault(name, []).append(key)
        return {name: tuple(keys) for name, keys in ops.items()}

    @cached_property
    def live(self) -> frozenset[int]:
        """Layer ids of the ops that OpenVINO keeps: the inputs and everything above a Result or Assign."""
        live = {*self.results, *self.by_type.get("Assign", ())}
        if live.issuperset(self._unread() - {*self.parameters}):  # every op leads to one of them
            return frozenset(self.index)
        for key in reversed(self.topological):
            if key in live:
                live.update([source for source, _ in self._inputs.get(key, ())])
        return frozenset(live.union(self.parameters))

    def _unread(self) -> set[int]:
        """Layer ids of the ops that no op reads."""
        read = {source for sources in self._inputs.values() for source, _ in sources}
        return {key for key in self.index if key not in read}

    def live_named(self, name: str) -> tuple[int, ...]:
        """Layer ids of the live ops with a friendly name."""
        return tuple(key for key in self.named.get(name, ()) if key in self.live)

    @property
    def parameters(self) -> tuple[int, ...]:
        """Layer ids of the model inputs, in the order of the model."""
        return self.by_type.get("Parameter", ())

    @property
    def results(self) -> tuple[int, ...]:
        """Layer ids of the model outputs, in the order of the model."""
        return self.by_type.get("Result", ())

    def input_name(self, key: int) -> str:
        """Name of a model input: its first tensor name, else its friendly name."""
        names = self.output(key).names
        return names[0] if names else self.op_name(key)

    def result_names(self, key: int) -> tuple[str, ...]:
        """Tensor names of a model output: its ``output_names``, else the names of the port that it reads."""
        own = self.own_result_names(key)
        port = None if own else self.port(self.inputs(key)[0])
        return port.names if port else own

    def own_result_names(self, key: int) -> tuple[str, ...]:
        """The ``output_names`` of a Result; empty if it takes the names of the port that it reads."""
        own = layer_attributes(self.scan.data, self.span(key)).get("output_names", "")
        return split_names(own) if own else ()

    def result_named(self, name: str) -> int | None:
        """Layer id of the first model output with a tensor name, or None."""
        return next((key for key in self.results if name in self.result_names(key)), None)

    def flag(self, key: int, attribute: str) -> bool:
        """Value of a boolean attribute of an op; False if it is missing."""
        return self.data(key).get(attribute, "").lower() in ("true", "1")

    def bodies(self, key: int) -> dict[str, GraphView]:
        """Graphs in a Loop or TensorIterator (``body``) or an If (``then_body``, ``else_body``)."""
        return {name: GraphView(scan) for name, scan in bodies(self.scan, self.span(key))}

    def body_types(self, key: int) -> frozenset[str]:
        """Op types in a Loop, TensorIterator or If; faster than ``bodies``."""
        return frozenset(kind for _, scan in bodies(self.scan, self.span(key)) for kind in scan.types)

    def port_map(self, key: int) -> tuple[tuple[int, int], ...]:
        """Inputs of a Loop or TensorIterator: pairs of outer input port id and layer id of the body Parameter."""
        with about(self.scan.path):
            element = parse_element(self.scan.data, self.span(key))
        pairs = (
            (whole_number(entry.get("external_port_id", "-1")), whole_number(entry.get("internal_layer_id", "-1")))
            for entry in element.iterfind("port_map/input")
        )
        found = tuple((outer, inner) for outer, inner in pairs if outer is not None and inner is not None)
        return tuple(pair for pair in found if pair[0] >= 0)

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """Copy all ops and edges to a plain MultiDiGraph.

        Returns
        -------
        networkx.MultiDiGraph
            Nodes are layer ids, constants included. Their attributes are ``name``, ``type``, ``opset``,
            ``attributes`` (dict), ``inputs`` and ``outputs`` (lists of dicts with ``id``, ``element_type``,
            ``shape`` and ``names``), ``rt_info`` and ``line``. The key of an edge is the input index; its
            attributes are ``output_index``, ``input_index``, ``element_type`` and ``shape``.
        """
        graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        data, line, last = self.scan.data, 1, 0
        for key, span in sorted(zip(self.scan.ids, self.scan.spans, strict=True), key=lambda item: item[1]):
            line, last = line + data.count(b"\n", last, span.start), span.start
            op = self.op(key)
            graph.add_node(
                key,
                name=op.name,
                type=op.type,
                opset=op.opset,
                attributes=dict(op.attributes),
                inputs=[_port_dict(port) for port in op.inputs],
                outputs=[_port_dict(port) for port in op.outputs],
                rt_info=dict(op.rt_info),
                line=line,
            )
        for target in self.scan.ids:
            for position, source in enumerate(self.inputs(target)):
                port = self.port(source)
                graph.add_edge(
                    source.op,
                    target,
                    key=position,
                    output_index=self.output_index(source),
                    input_index=position,
                    element_type=port.element_type if port else "",
                    shape=port.shape if port else (),
                )
        return graph


def _port_dict(port: Port) -> dict[str, object]:
    return {"id": port.id, "element_type": port.element_type, "shape": port.shape, "names": port.names}
