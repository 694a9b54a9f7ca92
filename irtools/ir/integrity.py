"""Find faults in the wiring of an IR: duplicate ids, bad edges, cycles.

OpenVINO rejects most of these faults with a message that names neither the file nor the op, and accepts some
silently. One pass reads the bytes; only ops in an unusual spelling are parsed in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from graphlib import CycleError, TopologicalSorter

from irtools.errors import InvalidIRError
from irtools.ir.scan import TAG, Scan, Span, child_spans, has_markup, line_of

__all__ = ["Fault", "FaultKind", "find_faults", "wiring_error"]

_PORT_ID = re.compile(rb'<port id="(\d{1,9})"')
_ID = re.compile(rb"""\sid\s*=\s*["'](\d{1,9})["']""")


class FaultKind(Enum):
    """Kinds of faults in the wiring."""

    DUPLICATE_ID = "two ops have the same layer id"
    DANGLING_EDGE = "an edge refers to a layer or port that does not exist"
    UNCONNECTED_INPUT = "no edge leads to an input"
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


def find_faults(graphs: Iterable[Scan]) -> tuple[Fault, ...]:
    """Faults of all graphs of a file, which :func:`irtools.ir.constants.iter_graphs` yields."""
    plain: bool | None = None
    faults: list[Fault] = []
    for graph in graphs:
        if plain is None:
            # Checked once: all graphs share the bytes of the file. A plain search would find ports in comments.
            plain = not has_markup(graph.data)
        faults += _graph_faults(graph, plain)
    return tuple(faults)


def wiring_error(scan: Scan, kind: FaultKind) -> InvalidIRError:
    """Error for a graph with a fault that prevents its traversal: ``DUPLICATE_ID`` or ``CYCLE``."""
    index = {key: position for position, key in enumerate(scan.ids)}
    fault = next(_duplicate_ids(scan) if kind is FaultKind.DUPLICATE_ID else _cycle(scan, index))
    line = line_of(scan.data, fault.offset)
    message = f"line {line}: {fault.message}; export the model again, or restore the file"
    return InvalidIRError(message, line=line, path=scan.path)


def _graph_faults(scan: Scan, plain: bool) -> Iterator[Fault]:
    index = {key: position for position, key in enumerate(scan.ids)}
    if len(index) != len(scan.ids):
        # Edges are ambiguous if ids repeat, so no other fault can be determined.
        yield from _duplicate_ids(scan)
        return
    ports = [(plain and _plain_ports(scan.data, span)) or _ports(scan.data, span) for span in scan.spans]
    for position, (inputs, outputs) in enumerate(ports):
        if None in inputs or None in outputs:
            yield _fault(FaultKind.MALFORMED_PORT, scan, position, "has a port whose id is missing or not a number")
    yield from _edge_faults(scan, index, ports)
    yield from _cycle(scan, index)


def _fault(kind: FaultKind, scan: Scan, position: int, problem: str) -> Fault:
    name = scan.names[position]
    return Fault(kind, f"{scan.types[position]} {name!r} {problem}", scan.spans[position].start, name)


def _duplicate_ids(scan: Scan) -> Iterator[Fault]:
    seen: dict[int, str] = {}
    for key, name, span in zip(scan.ids, scan.names, scan.spans, strict=True):
        if key in seen:
            message = f"two ops have the id {key}: {seen[key]!r} and {name!r}"
            yield Fault(FaultKind.DUPLICATE_ID, message, span.start, name)
        seen.setdefault(key, name)


_PortIds = tuple[Sequence[int | None], Sequence[int | None]]
_CONSECUTIVE = [[b"%d" % i for i in range(n)] for n in range(64)]


@cache
def _numbered(inputs: int, ports: int) -> _PortIds:
    """Port ids as OpenVINO numbers them; cached because thousands of ops share few combinations."""
    return tuple(range(inputs)), tuple(range(inputs, ports))


def _plain_ports(data: bytes, span: Span) -> _PortIds | None:
    """Port ids of a layer in the spelling of OpenVINO; None for any other spelling."""
    start, end = span
    ids = _PORT_ID.findall(data, start, end)
    count = len(ids)
    if count != data.count(b"<port", start, end) or count >= len(_CONSECUTIVE) or ids != _CONSECUTIVE[count]:
        return None
    border = data.find(b"</input", start, end)
    return _numbered(data.count(b"<port", start, border) if border > 0 else 0, count)


def _ports(data: bytes, span: Span) -> _PortIds:
    """Port ids of a layer in any spelling; None for an id that is not a number."""
    layer = data[span.start : span.end]
    ids: dict[str, list[int | None]] = {"input": [], "output": []}
    for side, where in child_spans(layer, Span(0, len(layer))):
        for tag, port in child_spans(layer, where) if side in ids else ():
            if tag == "port":
                opening = TAG.match(layer, port.start)
                number = _ID.search(opening[3]) if opening else None
                ids[side].append(int(number[1]) if number else None)
    return ids["input"], ids["output"]


def _edge_faults(scan: Scan, index: dict[int, int], ports: list[_PortIds]) -> Iterator[Fault]:
    feeds: list[list[int]] = [[] for _ in scan.ids]
    for number, (source, source_port, target, target_port) in enumerate(scan.edges):
        at = index.get(source)
        if at is None:
            yield _dangling(scan, number, f"starts at layer {source}, which does not exist", index.get(target))
        elif source_port not in ports[at][1]:
            problem = f"starts at output port {source_port} of {scan.names[at]!r}, which does not exist"
            yield _dangling(scan, number, problem, at)
        to = index.get(target)
        if to is None:
            yield _dangling(scan, number, f"ends at layer {target}, which does not exist", at)
        elif target_port not in ports[to][0]:
            problem = f"ends at input port {target_port} of {scan.names[to]!r}, which does not exist"
            yield _dangling(scan, number, problem, to)
        else:
            feeds[to].append(target_port)
    for position, fed in enumerate(feeds):
        wanted = ports[position][0]
        if len(fed) == len(wanted) and (len(fed) < 2 or set(fed) == set(wanted)):
            continue
        for port in wanted:
            if port is not None and port not in fed:
                yield _fault(
                    FaultKind.UNCONNECTED_INPUT, scan, position, f"has nothing connected to its input port {port}"
                )
        for port in sorted({port for port in fed if fed.count(port) > 1}):
            problem = f"has {fed.count(port)} edges into its input port {port}"
            yield _fault(FaultKind.DOUBLED_INPUT, scan, position, problem)


def _dangling(scan: Scan, number: int, problem: str, op: int | None) -> Fault:
    source, source_port, target, target_port = scan.edges[number]
    message = f"the edge from layer {source} port {source_port} to layer {target} port {target_port} {problem}"
    name = scan.names[op] if op is not None else None
    return Fault(FaultKind.DANGLING_EDGE, message, _edge_offset(scan, number), name)


def _edge_offset(scan: Scan, number: int) -> int:
    """Offset of an edge in the file; searched only for faulty edges."""
    wanted = [
        rb"""%s\s*=\s*["']\s*0*%d\s*["']""" % (key.encode(), value)
        for key, value in zip(("from-layer", "from-port", "to-layer", "to-port"), scan.edges[number], strict=True)
    ]
    start, end = scan.edges_section
    for tag in re.finditer(rb"<edge\s[^>]*>", scan.data[start:end]):
        if all(re.search(pattern, tag[0]) for pattern in wanted):
            return start + tag.start()
    return max(start, 0)


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
    path = [repr(scan.names[position]) for position in cycle[1:4]] + (["'...'"] if len(cycle) > 4 else [])
    through = f", by way of {' -> '.join(path)}" if path else ""
    yield _fault(FaultKind.CYCLE, scan, cycle[0], f"is in a cycle: it depends on its own output{through}")
