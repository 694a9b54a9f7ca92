"""The gate: prove that the wiring of an IR is sound before anything walks it, or list its faults.

A graph is sound if ids are unique, every edge joins an output port with an input port, every input has one edge, every
op has the inputs and outputs that its type requires, and no op depends on itself. All of it takes one pass over the
layers and one over the edges. OpenVINO rejects most faults with a message that names neither the file nor the op, and
accepts some silently.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import repeat
from operator import itemgetter

from irtools.errors import InvalidIRError
from irtools.ir.scan import TAG, Edge, Scan, Span, child_spans, edge_offsets, line_of
from irtools.text import clipped, plural

__all__ = ["Fault", "FaultKind", "Wiring", "find_faults", "prove", "require_unique_ids"]

# Ports of a layer and the end of its inputs; empty for a port in another spelling than that of OpenVINO.
_PORT = re.compile(rb'<(?:port(?: id=")?|/i)([0-9]{1,9}"|nput>|)')
_ID = re.compile(rb"""\sid\s*=\s*["']([0-9]{1,9})["']""")

_FEWEST = {
    kind: number
    for number, kinds in enumerate(
        (
            "",
            "Abs Assign Atan Ceiling Clamp Concat Convert Cos Einsum Elu Erf Exp Floor Gelu HSigmoid HSwish Identity "
            "If IsFinite IsInf IsNaN Log LogSoftmax LogicalNot MVN Mish Negative NonZero RMS RMSNorm Relu Result "
            "Round ShapeOf Sigmoid Sign Sin SoftMax SoftPlus SoftSign Softmax Sqrt Squeeze Swish Tan Tanh "
            "TensorIterator",
            "AdaptiveAvgPool Add Broadcast ConvertLike Convolution CumSum Divide Equal FloorMod GatherElements "
            "GatherND Greater GreaterEqual GroupConvolution Less LessEqual LogicalAnd LogicalOr LogicalXor Loop "
            "MatMul Maximum Minimum Mod Multiply NotEqual PRelu Power ReduceL1 ReduceL2 ReduceLogicalAnd "
            "ReduceLogicalOr ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Split SquaredDifference "
            "Subtract Tile TopK Transpose Unsqueeze",
            "Gather GroupNormalization Pad RandomUniform Range ScaledDotProductAttention ScatterNDUpdate Select "
            "StridedSlice VariadicSplit",
            "OneHot ScatterElementsUpdate ScatterUpdate Slice",
            "FakeQuantize",
        )
    )
    for kind in kinds.split()
}
"""Fewest inputs by op type, as OpenVINO requires them; other types may have none."""
_SOURCES = frozenset({"Parameter", "Const", "Constant"})
_NO_OUTPUT = frozenset({"Result", "Assign"})


class FaultKind(Enum):
    """Kinds of faults in the wiring."""

    DUPLICATE_ID = "two ops have the same layer id"
    DANGLING_EDGE = "an edge refers to a layer or port that does not exist"
    UNCONNECTED_INPUT = "an op lacks an edge into an input, or an input or output that its type requires"
    DOUBLED_INPUT = "several edges lead to one input"
    CYCLE = "an op depends on itself"
    MALFORMED_PORT = "a port has no usable id"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes
    ----------
    offset : int
        Byte offset in the file.
    op : str or None
        Friendly name of the op at fault.
    """

    kind: FaultKind
    message: str
    offset: int
    op: str | None = None


@dataclass(frozen=True, slots=True)
class Wiring:
    """The wiring of a sound graph.

    Attributes
    ----------
    index : mapping of int to int
        Positions in the scan, by layer id.
    inputs : mapping of int to tuple
        Layer id and output port id of the producers by input index, by layer id; ops without inputs are absent.
    order : sequence of int
        Positions in topological order; among ops whose order is free, the first in the file comes first.
    """

    index: Mapping[int, int]
    inputs: Mapping[int, tuple[tuple[int, int], ...]]
    order: Sequence[int]


def find_faults(graphs: Iterable[Scan]) -> tuple[Fault, ...]:
    """Faults of all graphs of a file, which :func:`irtools.ir.constants.iter_graphs` yields."""
    return tuple(fault for graph in graphs if _wiring(graph) is None for fault in _graph_faults(graph))


def prove(scan: Scan) -> Wiring:
    """Wiring of one graph, whose walks end: it is proved to be sound.

    Raises
    ------
    InvalidIRError
        The graph has a fault; the message names the first one.
    """
    wiring = _wiring(scan)
    if wiring is None:
        first, *others = _graph_faults(scan)
        more = f", and it has {plural(len(others), 'other fault')}" if others else ""
        raise _error(scan, first, f"{more}; `irtools verify` lists the faults of a file")
    return wiring


def require_unique_ids(scan: Scan) -> None:
    """Raise an ``InvalidIRError`` if two ops have the same id, so that the edges are ambiguous."""
    for fault in _duplicate_ids(scan):
        raise _error(scan, fault, "")


def _error(scan: Scan, fault: Fault, more: str) -> InvalidIRError:
    line = line_of(scan.data, fault.offset)
    message = f"line {line}: {fault.message}{more}; export the model again, or restore the file"
    return InvalidIRError(message, line=line, path=scan.path)


# -- the proof -------------------------------------------------------------------------


def _wiring(scan: Scan) -> Wiring | None:
    """Wiring of a graph without faults, proved once for each scan; None if it has one."""
    return scan.once("wiring", lambda: _sound(scan))


def _sound(scan: Scan) -> Wiring | None:
    """Wiring of a graph without faults; None if it has one."""
    index = {key: position for position, key in enumerate(scan.ids)}
    ports = _all_ports(scan)
    kinds = Counter(zip(scan.types, ports, strict=True))
    if len(index) != len(scan.ids) or any(_port_problem(*kind) for kind in kinds):
        return None
    fed = sum(count for (_, own), count in kinds.items() if own.inputs)
    found = _inputs(scan.edges, index, ports, fed)
    if found is None:  # OpenVINO writes the edges by target and port; in another order they are sorted once
        found = _inputs(sorted(scan.edges, key=itemgetter(2, 3)), index, ports, fed)
    if found is None:
        return None
    inputs, in_order = found
    order = range(len(index)) if in_order else _topological(scan, index)
    return Wiring(index, inputs, order) if len(order) == len(index) else None


def _inputs(
    edges: Iterable[Edge], index: Mapping[int, int], ports: Sequence[_Ports], fed: int
) -> tuple[dict[int, tuple[tuple[int, int], ...]], bool] | None:
    """Inputs by layer id, and whether every op comes after those that feed it.

    None if the edges do not connect each input of ``fed`` ops once, or are not in the order of targets and ports.
    """
    inputs: dict[int, tuple[tuple[int, int], ...]] = {}
    outputs = [own.outputs for own in ports]
    position = index.get
    in_order = True
    sources: list[tuple[int, int]] = []
    connected: list[int] = []
    wanted: Sequence[int | None] = connected
    current, there = None, -1
    for source, source_port, target, target_port in edges:
        if target != current:
            if connected != wanted or target in inputs or target not in index:
                return None
            if current is not None:
                inputs[current] = tuple(sources)
            current, there = target, index[target]
            wanted, sources, connected = ports[there].wanted, [], []
        here = position(source)
        if here is None or source_port not in outputs[here]:
            return None
        if here >= there:
            in_order = False
        sources.append((source, source_port))
        connected.append(target_port)
    if current is not None:
        inputs[current] = tuple(sources)
    return (inputs, in_order) if connected == wanted and len(inputs) == fed else None


def _topological(scan: Scan, index: Mapping[int, int]) -> list[int]:
    """Positions in topological order, those on or below a cycle left out; all edges join layers of the graph."""
    waiting = [0] * len(scan.ids)
    targets: list[list[int]] = [[] for _ in scan.ids]
    for source, _, target, _ in scan.edges:
        targets[index[source]].append(index[target])
        waiting[index[target]] += 1
    ready = [position for position, count in enumerate(waiting) if not count]
    heapify(ready)
    order = []
    while ready:
        current = heappop(ready)
        order.append(current)
        for target in targets[current]:
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, target)
    return order


# -- ports -----------------------------------------------------------------------------


class _Ports:
    """Ids of the input and output ports of an op; None for an id that is not a number.

    Attributes
    ----------
    inputs, outputs : frozenset of int or None
    wanted : list of int or None
        Ids of the inputs in order.
    repeated : bool
        True if two inputs or two outputs have the same id.
    """

    __slots__ = ("inputs", "outputs", "repeated", "wanted")

    def __init__(self, inputs: Sequence[int | None], outputs: Sequence[int | None]) -> None:
        self.wanted = sorted(inputs, key=lambda number: -1 if number is None else number)
        self.inputs, self.outputs = frozenset(inputs), frozenset(outputs)
        self.repeated = len(self.inputs) < len(inputs) or len(self.outputs) < len(outputs)


def _all_ports(scan: Scan) -> list[_Ports]:
    """Port ids of each layer; thousands of ops share the same object, because few combinations exist."""
    data, findall, plain = scan.masked, _PORT.findall, cache(_plain_ports)
    known = {text: plain(tuple(findall(text))) if text is not None else None for text in {*scan.contents}}
    ports = map(known.__getitem__, scan.contents) if scan.contents else repeat(None, len(scan.spans))
    return [
        own or plain(tuple(findall(data, *span))) or _ports(data, span)
        for own, span in zip(ports, scan.spans, strict=True)
    ]


def _plain_ports(tokens: Sequence[bytes]) -> _Ports | None:
    """Port ids of a layer from the matches of ``_PORT``; None for any other spelling than that of OpenVINO."""
    border = tokens.index(b"nput>") if b"nput>" in tokens else -1
    ids = [*tokens[: max(border, 0)], *tokens[border + 1 :]]
    if ids != [b'%d"' % number for number in range(len(ids))] or 0 < border == len(ids):
        return None  # or an op without outputs, or with its outputs first
    return _Ports(range(max(border, 0)), range(max(border, 0), len(ids)))


def _ports(data: bytes, span: Span) -> _Ports:
    """Port ids of a layer in any spelling; as for OpenVINO, the first of several ``<input>`` or ``<output>`` counts."""
    layer = data[span.start : span.end]
    sections = dict(reversed(list(child_spans(layer, Span(0, len(layer))))))
    sides: list[list[int | None]] = [[], []]
    for side, numbers in zip(("input", "output"), sides, strict=True):
        for tag, port in child_spans(layer, sections[side]) if side in sections else ():
            if tag == "port":
                opening = TAG.match(layer, port.start)
                number = _ID.search(opening[3]) if opening else None
                numbers.append(int(number[1]) if number else None)
    return _Ports(*sides)


def _port_problem(kind: str, ports: _Ports) -> str:
    """What the ports of an op of a type lack; empty if nothing."""
    if None in ports.inputs or None in ports.outputs:
        return "has a port whose id is missing or not a number"
    if ports.repeated:
        return "has two ports with the same id"
    inputs = len(ports.wanted)
    fewest = _FEWEST.get(kind, 0)
    if inputs < fewest:
        return f"has {plural(inputs, 'input')}, and a {kind} needs at least {fewest}"
    if inputs and kind in _SOURCES:
        return f"has {plural(inputs, 'input')}, and a {kind} takes none"
    if not ports.outputs and (kind in _SOURCES or kind == "ReadValue" or (fewest and kind not in _NO_OUTPUT)):
        return f"has no output, and a {kind} needs one"
    return ""


# -- the faults ------------------------------------------------------------------------


def _graph_faults(scan: Scan) -> Iterator[Fault]:
    index = {key: position for position, key in enumerate(scan.ids)}
    if len(index) != len(scan.ids):
        # Edges are ambiguous if ids repeat, so no other fault can be determined.
        yield from _duplicate_ids(scan)
        return
    ports = _all_ports(scan)
    malformed, lacking = [], []
    for position, (kind, own) in enumerate(zip(scan.types, ports, strict=True)):
        problem = _port_problem(kind, own)
        if problem.startswith(("has a port", "has two ports")):
            malformed.append(_fault(FaultKind.MALFORMED_PORT, scan, position, problem))
        elif problem:
            lacking.append(_fault(FaultKind.UNCONNECTED_INPUT, scan, position, problem))
    yield from malformed
    yield from _edge_faults(scan, index, ports)
    yield from lacking
    yield from _cycle(scan, index)


def _fault(kind: FaultKind, scan: Scan, position: int, problem: str) -> Fault:
    name = scan.names[position]
    return Fault(kind, f"{scan.types[position]} {clipped(name)!r} {problem}", scan.spans[position].start, name)


def _duplicate_ids(scan: Scan) -> Iterator[Fault]:
    seen: dict[int, str] = {}
    for key, name, span in zip(scan.ids, scan.names, scan.spans, strict=True):
        if key in seen:
            message = f"two ops have the id {key}: {clipped(seen[key])!r} and {clipped(name)!r}"
            yield Fault(FaultKind.DUPLICATE_ID, message, span.start, name)
        seen.setdefault(key, name)


def _edge_faults(scan: Scan, index: dict[int, int], ports: list[_Ports]) -> Iterator[Fault]:
    feeds: list[Counter[int]] = [Counter() for _ in scan.ids]
    offsets = edge_offsets(scan)
    for number, (source, source_port, target, target_port) in enumerate(scan.edges):
        at = index.get(source)
        if at is None:
            problem = f"starts at layer {source}, which does not exist"
            yield _dangling(scan, number, offsets, problem, index.get(target))
        elif source_port not in ports[at].outputs:
            problem = f"starts at output port {source_port} of {clipped(scan.names[at])!r}, which does not exist"
            yield _dangling(scan, number, offsets, problem, at)
        to = index.get(target)
        if to is None:
            yield _dangling(scan, number, offsets, f"ends at layer {target}, which does not exist", at)
        elif target_port not in ports[to].inputs:
            problem = f"ends at input port {target_port} of {clipped(scan.names[to])!r}, which does not exist"
            yield _dangling(scan, number, offsets, problem, to)
        else:
            feeds[to][target_port] += 1
    for position, fed in enumerate(feeds):
        for port in ports[position].wanted:
            if port is not None and port not in fed:
                problem = f"has nothing connected to its input port {port}"
                yield _fault(FaultKind.UNCONNECTED_INPUT, scan, position, problem)
        for port in sorted(port for port, count in fed.items() if count > 1):
            problem = f"has {fed[port]} edges into its input port {port}"
            yield _fault(FaultKind.DOUBLED_INPUT, scan, position, problem)


def _dangling(scan: Scan, number: int, offsets: Sequence[int], problem: str, op: int | None) -> Fault:
    source, source_port, target, target_port = scan.edges[number]
    message = f"the edge from layer {source} port {source_port} to layer {target} port {target_port} {problem}"
    name = scan.names[op] if op is not None else None
    return Fault(FaultKind.DANGLING_EDGE, message, offsets[number], name)


def _cycle(scan: Scan, index: dict[int, int]) -> Iterator[Fault]:
    """One fault for the first cycle, if there is one."""
    backward = [s for s, _, t, _ in scan.edges if s in index and t in index and index[s] >= index[t]]
    if not backward:
        return  # all edges lead forward in the file, as OpenVINO writes them
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for source, _, target, _ in sorted(scan.edges):
        if source in index and target in index:
            sorter.add(index[target], index[source])
    try:
        sorter.prepare()
        return
    except CycleError as error:
        cycle = error.args[1][1:]  # each op feeds the next one
    first = cycle.index(min(cycle))
    cycle = cycle[first:] + cycle[:first]
    path = [repr(clipped(scan.names[position])) for position in cycle[1:4]] + (["'...'"] if len(cycle) > 4 else [])
    through = f", by way of {' -> '.join(path)}" if path else ""
    yield _fault(FaultKind.CYCLE, scan, cycle[0], f"is in a cycle: it depends on its own output{through}")
