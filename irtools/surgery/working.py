"""The graph of an IR while it is being edited: the scan of the file, and what differs from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from irtools.errors import EditError, InvalidIRError
from irtools.ir.constants import iter_graphs
from irtools.ir.integrity import FaultKind, wiring_error
from irtools.ir.markup import Splice, space_before
from irtools.ir.op import Op, parse_op
from irtools.ir.scan import Scan, Span, child_spans
from irtools.surgery.edits import (
    AddOp,
    GraphEdit,
    NewPort,
    OpRef,
    Output,
    RemoveOp,
    Rename,
    Rewire,
    SetAttribute,
    SetTensorNames,
    require_attribute,
    require_tensor_names,
    require_text,
)
from irtools.surgery.spelling import Style, append_to

__all__ = ["Working"]

_Port = tuple[int, int]  # layer id and port id
_IDS = 10**18  # longer ones are not read


class Working:
    """One graph that edits are made to, one after the other.

    Parameters
    ----------
    scan : Scan
        Of a whole file.
    first : int
        New ops get this layer id at least: that of an op which has been removed may still be read.

    Attributes
    ----------
    next : int
        The least layer id that a new op may get.
    touched : dict of int to str
        Friendly names, by layer id, of what was added or changed.

    Raises
    ------
    InvalidIRError
        Two ops have one id, so that the edges do not say which they mean.
    """

    def __init__(self, scan: Scan, first: int = 0) -> None:
        self._scan = scan
        self._position = {key: position for position, key in enumerate(scan.ids)}
        if len(self._position) != len(scan.ids):
            raise wiring_error(scan, FaultKind.DUPLICATE_ID)
        self._style = Style.of(scan)
        self.next = max(first, max(scan.ids, default=-1) + 1)
        self._names: dict[int, str] = {}
        self._changed: dict[int, bytes] = {}
        self._added: dict[int, bytes] = {}
        self._removed: set[int] = set()
        self._sources: dict[_Port, _Port] = {}
        self._new_edges: dict[_Port, _Port] = {}
        self.touched: dict[int, str] = {}

    def make(self, edit: GraphEdit) -> None:
        """Make one edit.

        Raises
        ------
        EditError
            There is no such op, input or output, or the edit makes no sense.
        """
        if isinstance(edit, AddOp):
            self._add(edit)
        elif isinstance(edit, RemoveOp):
            self._remove(self.find(edit.op))
        elif isinstance(edit, Rewire):
            self._rewire(self.find(edit.op), edit.input, edit.source)
        elif isinstance(edit, Rename):
            self._rename(self.find(edit.op), edit.name)
        elif isinstance(edit, SetAttribute):
            self._set_attribute(self.find(edit.op), edit.key, edit.value)
        else:
            self._set_tensor_names(edit)

    # -- what there is now -------------------------------------------------------------

    def find(self, op: OpRef) -> int:
        """The layer id of an op."""
        if isinstance(op, int):
            if op in self._removed or not (op in self._position or op in self._added):
                raise EditError(f"there is no op with the layer id {op}", hint="Give one of the ids in the file.")
            return op
        found = self._by_name.get(op, [])
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(map(str, found[:5]))
            raise EditError(f"{len(found)} ops are named {op!r} (layer ids {ids}); give the layer id of the one meant")
        raise EditError(self._absent(op))

    def _absent(self, name: str) -> str:
        for graph in list(iter_graphs(self._scan))[1:]:
            if name in graph.names:
                return f"{name!r} is inside the body of a Loop or If; edits concern the ops at the top level"
        return f"there is no op named {name!r}; give a friendly name or a layer id of the file"

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for key, name in zip(self._scan.ids, self._scan.names, strict=True):
            if key not in self._removed:
                found.setdefault(self._names.get(key, name), []).append(key)
        for key in self._added:
            found.setdefault(self._names[key], []).append(key)
        return found

    def name(self, key: int) -> str:
        """Friendly name of an op."""
        return self._names[key] if key in self._names else self._scan.names[self._position[key]]

    def named_now(self, name: str) -> str | None:
        """What the op that had a name in the file is called now; None if it is gone.

        Of several with one name, one that keeps it counts.
        """
        ops = [key for key, old in zip(self._scan.ids, self._scan.names, strict=True) if old == name]
        names = [self.name(key) for key in ops if key not in self._removed]
        if name in names or not ops:
            return name
        return names[0] if names else None

    def _bytes(self, key: int) -> bytes:
        known = self._added.get(key) or self._changed.get(key)
        if known is not None:
            return known
        start, end = self._scan.spans[self._position[key]]
        return self._scan.data[start:end]

    def op(self, key: int) -> Op:
        """An op as it is now."""
        layer = self._bytes(key)
        return parse_op(layer, Span(0, len(layer)))

    def _write(self, key: int, layer: bytes) -> None:
        if key in self._added:
            self._added[key] = layer
        else:
            self._changed[key] = layer

    def _resolved(self, output: Output) -> tuple[int, int, NewPort]:
        """Layer id, port id and port of an output."""
        key = self.find(output.op)
        ports = self.op(key).outputs
        if not 0 <= output.index < len(ports):
            raise EditError(f"{self.name(key)!r} has {len(ports)} outputs and no index {output.index}")
        port = ports[output.index]
        return key, port.id, NewPort(port.element_type, port.shape, port.names)

    # -- edits -------------------------------------------------------------------------

    def _add(self, edit: AddOp) -> None:
        require_text(edit.name, edit.type, edit.opset, *(port.element_type for port in edit.outputs))
        _require_name(edit.name)
        for names in (edit.output_names, *(port.names for port in edit.outputs)):
            require_tensor_names(tuple(names))
        for attribute, value in edit.attributes.items():
            require_attribute(attribute, value)
        if self._by_name.get(edit.name):
            raise EditError(f"there is an op named {edit.name!r} already; give the new one another name")
        sources = [self._resolved(source) for source in edit.inputs]
        key = self._new_id()
        self._added[key] = self._style.layer(key, edit, [NewPort(p.element_type, p.shape) for _, _, p in sources])
        self._names[key] = self.touched[key] = edit.name
        self._by_name[edit.name] = [key]
        for number, (source, port, _) in enumerate(sources):
            self._new_edges[key, number] = (source, port)

    def _new_id(self) -> int:
        """A layer id that no op has or had."""
        if self.next >= _IDS:  # the file counts with gaps: start again in the first one
            self.next = 0
        while self.next in self._position or self.next in self._names:
            self.next += 1
        self.next += 1
        return self.next - 1

    def _remove(self, key: int) -> None:
        self._by_name[self.name(key)].remove(key)
        self.touched.pop(key, None)
        for port in self.op(key).inputs:
            self._new_edges.pop((key, port.id), None)
            self._sources.pop((key, port.id), None)
        if key in self._added:
            del self._added[key]
        else:
            self._changed.pop(key, None)
        self._removed.add(key)

    def _rewire(self, key: int, number: int, source: Output) -> None:
        inputs = self.op(key).inputs
        if not 0 <= number < len(inputs):
            raise EditError(f"{self.name(key)!r} has {len(inputs)} inputs and no index {number}")
        producer, port, new = self._resolved(source)
        old = inputs[number]
        if (old.element_type, old.shape) != (new.element_type, new.shape):
            bare = NewPort(new.element_type, new.shape)
            self._write(key, self._style.with_input(self._bytes(key), number, bare))
        where = (key, old.id)
        if where in self._new_edges:
            self._new_edges[where] = (producer, port)
        else:
            self._sources[where] = (producer, port)
        self.touched[key] = self.name(key)

    def _rename(self, key: int, name: str) -> None:
        require_text(name)
        _require_name(name)
        old = self.name(key)
        if name == old:
            return
        self._write(key, self._style.with_name(self._bytes(key), name))
        self._by_name[old].remove(key)
        self._by_name.setdefault(name, []).append(key)
        self._names[key] = name
        self.touched[key] = name

    def _set_attribute(self, key: int, attribute: str, value: str | None) -> None:
        require_attribute(attribute, value)
        self._write(key, self._style.with_data(self._bytes(key), attribute, value))
        self.touched[key] = self.name(key)

    def _set_tensor_names(self, edit: SetTensorNames) -> None:
        key, _, port = self._resolved(edit.output)
        # Those that are there keep their spelling, whatever it is.
        require_tensor_names(tuple(name for name in edit.names if name not in port.names))
        self._write(key, self._style.with_tensor_names(self._bytes(key), edit.output.index, edit.names))

    # -- what comes of it --------------------------------------------------------------

    def require_unread(self) -> None:
        """Refuse that something reads an op that was removed.

        Raises
        ------
        EditError
        """
        for source, port, target, target_port in self._edges():
            if source in self._removed:
                reader, read = self.name(target), self.name(source)
                raise EditError(
                    f"{reader!r} reads port {port} of {read!r} by its input port {target_port}, and {read!r} is "
                    "removed; rewire that input, or remove its op too"
                )

    def _edges(self) -> Iterator[tuple[int, int, int, int]]:
        for source, port, target, target_port in self._scan.edges if self._removed or self._sources else ():
            if target not in self._removed and target in self._position:
                yield (*self._sources.get((target, target_port), (source, port)), target, target_port)
        for (target, target_port), (source, port) in self._new_edges.items():
            yield source, port, target, target_port

    def splices(self) -> tuple[Splice, ...]:
        """The differences as changes to the file, in file order."""
        data, spans = self._scan.data, self._scan.spans
        found = []
        for key in self._removed & self._position.keys():
            start, end = spans[self._position[key]]
            found.append(Splice(start - len(space_before(data, start)), end, b""))
        for key, layer in self._changed.items():
            start, end = spans[self._position[key]]
            if data[start:end] != layer:
                found.append(_narrow(data, start, end, layer))
        if self._removed or self._sources:
            found += self._edge_splices()
        lead = self._style.lead
        if self._added:
            found.append(append_to(self._scan, "layers", _lines(self._added.values(), lead), self._style))
        if self._new_edges:
            edges = [self._style.edge(*source, *target) for target, source in self._new_edges.items()]
            found.append(append_to(self._scan, "edges", _lines(edges, lead), self._style))
        return _merged(sorted(found))

    def _edge_splices(self) -> Iterator[Splice]:
        data, edges = self._scan.data, self._scan.edges
        spans = [span for tag, span in child_spans(data, self._scan.edges_section) if tag == "edge"]
        if len(spans) != len(edges):
            raise InvalidIRError("the file has several <edges>; read it with openvino and save it again")
        connected = set()
        for (_, _, target, target_port), (start, end) in zip(edges, spans, strict=True):
            where = (target, target_port)
            connected.add(where)
            if target in self._removed:
                yield Splice(start - len(space_before(data, start)), end, b"")
            elif where in self._sources:
                yield _narrow(data, start, end, self._style.with_source(data[start:end], *self._sources[where]))
        for key, number in self._sources.keys() - connected:
            raise EditError(f"input port {number} of {self.name(key)!r} is not connected, so it cannot be rewired")


def _require_name(name: str) -> None:
    if not name:
        raise EditError("an op needs a friendly name that is not empty")


def _lines(elements: Iterable[bytes], lead: bytes) -> bytes:
    return b"".join(lead + element for element in elements)


def _narrow(data: bytes, start: int, end: int, new: bytes) -> Splice:
    """The part of an element that differs."""
    old = data[start:end]
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    return Splice(start + head, end - tail, new[head : len(new) - tail])


def _merged(splices: Iterable[Splice]) -> tuple[Splice, ...]:
    """Splices that touch become one, so that each has an extent of its own."""
    found: list[Splice] = []
    for splice in splices:
        if found and found[-1].end == splice.start:
            last = found.pop()
            splice = Splice(last.start, splice.end, last.new + splice.new)
        if splice.start != splice.end or splice.new:
            found.append(splice)
    return tuple(found)
