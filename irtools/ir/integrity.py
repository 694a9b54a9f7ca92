"""Faults in the wiring of an IR: one pass over the bytes, each op read in full only when in doubt.

OpenVINO refuses most of these with a message that names neither the file nor the op, and reads
some silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

from irtools.errors import InvalidIRError
from irtools.ir.scan import Scan, Span, child_spans, has_markup, line_of

__all__ = ["Fault", "FaultKind", "find_faults", "wiring_error"]

_PORT_ID = re.compile(rb'<port id="(\d{1,9})"')
_PORT = re.compile(rb"""<port((?:\s+[^\s=>/"']+\s*=\s*(?:"[^"]*"|'[^']*'))*)""")
_ID = re.compile(rb"""\sid\s*=\s*["'](\d{1,9})["']""")


class FaultKind(Enum):
    """What can be wrong with the wiring."""

    DUPLICATE_ID = "two ops have the same layer id"
    DANGLING_EDGE = "an edge starts or ends nowhere"
    UNCONNECTED_INPUT = "no edge leads to an input"
    DOUBLED_INPUT = "several edges lead to one input"
    CYCLE = "an op depends on itself"
    MALFORMED_PORT = "a port has no usable id"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes
    ----------
    kind : FaultKind
    message : str
    offset : int
        Where in the file.
    op : str or None
        Friendly name of the op concerned.
    """

    kind: FaultKind
    message: str
    offset: int
    op: str | None = None


def find_faults(graphs: Iterable[Scan]) -> tuple[Fault, ...]:
    """Faults of the graphs of a file.

    Parameters
    ----------
    graphs : iterable of Scan
        From :func:`irtools.ir.constants.iter_graphs`: that of the model and those of the bodies in it.
    """
    plain: bool | None = None
    found: list[Fault] = []
    for graph in graphs:
        if plain is None:
            # In the file, which all of them are in: a search would find ports in comments.
            plain = not has_markup(graph.data)
        found += _graph_faults(graph, plain)
    return tuple(found)


def wiring_error(scan: Scan, kind: FaultKind) -> InvalidIRError:
    """The error for a graph that cannot be walked: two ops with one id, or a cycle.

    Parameters
    ----------
    scan : Scan
        Of a graph that has such a fault.
    kind : FaultKind
        ``DUPLICATE_ID`` or ``CYCLE``.
    """
    index = {key: position for position, key in enumerate(scan.ids)}
    fault = next(_duplicate_ids(scan) if kind is FaultKind.DUPLICATE_ID else _cycle(scan, index))
    line = line_of(scan.data, fault.offset)
    message = f"line {line}: {fault.message}; export the model again, or restore the file"
    return InvalidIRError(message, line=line, path=scan.path)


def _graph_faults(scan: Scan, plain: bool) -> Iterator[Fault]:
    index = {key: position for position, key in enumerate(scan.ids)}
    if len(index) != len(scan.ids):
        # What an edge means is open now: everything else would be a guess.
        yield from _duplicate_ids(scan)
        return
    ports = [(plain and _plain_ports(scan.data, span)) or _ports(scan.data, span) for span in scan.spans]
    for position, (inputs, outputs) in enumerate(ports):
        if None in inputs or None in outputs:
            yield _fault(FaultKind.MALFORMED_PORT, scan, position, "has a port whose id is missing or no number")
    yield from _edge_faults(scan, index, ports)
    yield from _cycle(scan, index)


def _fault(kind: FaultKind, scan: Scan, position: int, what: str) -> Fault:
    name = scan.names[position]
    return Fault(kind, f"{scan.types[position]} {name!r} {what}", scan.spans[position].start, name)


def _duplicate_ids(scan: Scan) -> Iterator[Fault]:
    seen: dict[int, str] = {}
    for key, name, span in zip(scan.ids, scan.names, scan.spans, strict=True):
        if key in seen:
            message = f"two ops have the id {key}: {seen[key]!r} and {name!r}"
            yield Fault(FaultKind.DUPLICATE_ID, message, span.start, name)
        seen.setdefault(key, name)


Ports = tuple[Sequence[int | None], Sequence[int | None]]
_CONSECUTIVE = [[b"%d" % i for i in range(n)] for n in range(64)]


@cache
def _numbered(inputs: int, ports: int) -> Ports:
    """Ports as OpenVINO numbers them; few different ones, shared by thousands of ops."""
    return tuple(range(inputs)), tuple(range(inputs, ports))


def _plain_ports(data: bytes, span: Span) -> Ports | None:
    """Ids of the input and the output ports of one layer as OpenVINO writes it; None if it is written otherwise."""
    start, end = span
    found = _PORT_ID.findall(data, start, end)
    count = len(found)
    if count != data.count(b"<port", start, end) or count >= len(_CONSECUTIVE) or found != _CONSECUTIVE[count]:
        return None
    border = data.find(b"</input", start, end)
    return _numbered(data.count(b"<port", start, border) if border > 0 else 0, count)


def _ports(data: bytes, span: Span) -> Ports:
    """The same of any layer; None for an id that is no number."""
    layer = data[span.start : span.end]
    ids: dict[str, list[int | None]] = {"input": [], "output": []}
    for side, where in child_spans(layer, Span(0, len(layer))):
        for tag, port in child_spans(layer, where) if side in ids else ():
            if tag == "port":
                found = _PORT.match(layer, port.start)
                number = _ID.search(found[1]) if found else None
                ids[side].append(int(number[1]) if number else None)
    return ids["input"], ids["output"]


def _edge_faults(scan: Scan, index: dict[int, int], ports: list[Ports]) -> Iterator[Fault]:
    feeds: list[list[int]] = [[] for _ in scan.ids]
    for number, (source, source_port, target, target_port) in enumerate(scan.edges):
        at = index.get(source)
        if at is None:
            yield _dangling(scan, number, f"starts at layer {source}, which does not exist", index.get(target))
        elif source_port not in ports[at][1]:
            what = f"starts at output port {source_port} of {scan.names[at]!r}, which it does not have"
            yield _dangling(scan, number, what, at)
        to = index.get(target)
        if to is None:
            yield _dangling(scan, number, f"ends at layer {target}, which does not exist", at)
        elif target_port not in ports[to][0]:
            what = f"ends at input port {target_port} of {scan.names[to]!r}, which it does not have"
            yield _dangling(scan, number, what, to)
        else:
            feeds[to].append(target_port)
    for position, fed in enumerate(feeds):
        wanted = ports[position][0]
        if len(fed) == len(wanted) and (len(fed) < 2 or set(fed) == set(wanted)):
            continue
        for port in wanted:
            if port is not None and port not in fed:
                what = f"has nothing connected to its input port {port}"
                yield _fault(FaultKind.UNCONNECTED_INPUT, scan, position, what)
        for port in sorted({port for port in fed if fed.count(port) > 1}):
            what = f"has {fed.count(port)} edges into its input port {port}"
            yield _fault(FaultKind.DOUBLED_INPUT, scan, position, what)


def _dangling(scan: Scan, number: int, what: str, op: int | None) -> Fault:
    source, source_port, target, target_port = scan.edges[number]
    message = f"the edge from layer {source} port {source_port} to layer {target} port {target_port} {what}"
    name = scan.names[op] if op is not None else None
    return Fault(FaultKind.DANGLING_EDGE, message, _edge_offset(scan, number), name)


def _edge_offset(scan: Scan, number: int) -> int:
    """Where an edge is written: looked for only when it is wrong."""
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
    """One fault for the ops that wait for each other, if there are any."""
    backward = [(s, t) for s, _, t, _ in scan.edges if s in index and t in index and index[s] >= index[t]]
    if not backward:
        return  # every edge leads down the file, as OpenVINO writes it
    waiting = [0] * len(scan.ids)
    users: list[list[int]] = [[] for _ in scan.ids]
    for source, _, target, _ in scan.edges:
        if source in index and target in index:
            waiting[index[target]] += 1
            users[index[source]].append(index[target])
    ready = [position for position, count in enumerate(waiting) if not count]
    while ready:
        for user in users[ready.pop()]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if any(waiting):
        yield _cycle_fault(scan, waiting, users)


def _cycle_fault(scan: Scan, waiting: list[int], users: list[list[int]]) -> Fault:
    stuck = {position for position, count in enumerate(waiting) if count}
    producers: dict[int, int] = {}
    for position in sorted(stuck):
        for user in users[position]:
            if user in stuck:
                producers.setdefault(user, position)
    # Going back from producer to producer, an op comes twice: from there on it is the cycle.
    path, at = [], min(stuck)
    while at not in path:
        path.append(at)
        at = producers[at]
    cycle = path[path.index(at) :][::-1]
    first = min(cycle)
    cycle = cycle[cycle.index(first) :] + cycle[: cycle.index(first)]
    shown = [scan.names[position] for position in cycle[:4]] + (["..."] if len(cycle) > 4 else [])
    way = f", by way of {' -> '.join(map(repr, shown[1:]))}" if shown[1:] else ""
    what = f"is in a cycle: it depends on its own output{way}"
    return _fault(FaultKind.CYCLE, scan, first, what)
