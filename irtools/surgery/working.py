"""The graph of an IR during edits: the scan of the file, and the differences from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from irtools.errors import EditError, InvalidIRError
from irtools.ir.constants import iter_graphs
from irtools.ir.integrity import require_unique_ids
from irtools.ir.markup import Splice, removal, space_before
from irtools.ir.op import Op, parse_op
from irtools.ir.scan import Scan, Span, child_spans
from irtools.surgery.edits import (
    AddOp,
    GraphEdit,
    NewPort,
    OpOutput,
    OpRef,
    RemoveOp,
    Rename,
    Rewire,
    SetAttribute,
    SetTensorNames,
    require_attribute,
    require_tensor_names,
    require_text,
)
from irtools.surgery.spelling import Spelling, append_to
from irtools.surgery.splices import difference

__all__ = ["Working"]

_Port = tuple[int, int]  # layer id and port id
_IDS = 10**18  # the scanner does not read larger ids


class Working:
    """A graph that edits are applied to, one after the other.

    Parameters
    ----------
    scan : Scan
        Scan of a whole file.
    first : int
        Lowest layer id for new ops. The id of a removed op must not be used again while an edge may name it.

    Attributes
    ----------
    next : int
        Lowest layer id that a new op may get.
    touched : dict of int to str
        Friendly names, by layer id, of added and changed ops.

    Raises
    ------
    InvalidIRError
        Two ops have the same id, so the edges are ambiguous.
    """

    def __init__(self, scan: Scan, first: int = 0) -> None:
        self._scan = scan
        require_unique_ids(scan)
        self._position = {key: position for position, key in enumerate(scan.ids)}
        self._style = Spelling.of(scan)
        self.next = max(first, max(scan.ids, default=-1) + 1)
        self._names: dict[int, str] = {}
        self._changed: dict[int, bytes] = {}
        self._added: dict[int, bytes] = {}
        self._before: dict[int, int] = {}  # new op: op of the file that it is written before
        self._removed: set[int] = set()
        self._sources: dict[_Port, _Port] = {}
        self._new_edges: dict[_Port, _Port] = {}
        self.touched: dict[int, str] = {}

    def make(self, edit: GraphEdit) -> None:
        """Make one edit; raise an EditError if it refers to a missing op or port, or has an invalid value."""
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

    # -- the current graph -------------------------------------------------------------

    def find(self, op: OpRef) -> int:
        """Return the layer id of an op."""
        if isinstance(op, int):
            if op in self._removed or not (op in self._position or op in self._added):
                raise EditError(f"there is no op with the layer id {op}", hint="Give one of the ids in the file.")
            return op
        ops = self._by_name.get(op, [])
        if len(ops) == 1:
            return ops[0]
        if ops:
            ids = ", ".join(map(str, ops[:5]))
            raise EditError(f"{len(ops)} ops are named {op!r} (layer ids {ids}); give the layer id of one of them")
        if any(op in body.names for body in list(iter_graphs(self._scan))[1:]):
            raise EditError(f"{op!r} is inside the body of a Loop or If; only ops at the top level can be edited")
        raise EditError(f"there is no op named {op!r}; give a friendly name or a layer id of the file")

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        ops: dict[str, list[int]] = {}
        for key in (*self._scan.ids, *self._added):
            if key not in self._removed:
                ops.setdefault(self.name(key), []).append(key)
        return ops

    def name(self, key: int) -> str:
        """Return the current friendly name of an op."""
        return self._names[key] if key in self._names else self._scan.names[self._position[key]]

    def named_now(self, name: str) -> str | None:
        """Return the current name of the op with a name in the file; None if it was removed.

        If several ops have the name in the file and one keeps it, the name is unchanged.
        """
        ops = [key for key, old in zip(self._scan.ids, self._scan.names, strict=True) if old == name]
        names = [self.name(key) for key in ops if key not in self._removed]
        if name in names or not ops:
            return name
        return names[0] if names else None

    def _bytes(self, key: int) -> bytes:
        layer = self._added.get(key) or self._changed.get(key)
        if layer is not None:
            return layer
        start, end = self._scan.spans[self._position[key]]
        return self._scan.data[start:end]

    def op(self, key: int) -> Op:
        """Parse the current bytes of an op."""
        layer = self._bytes(key)
        return parse_op(layer, Span(0, len(layer)))

    def _write(self, key: int, layer: bytes) -> None:
        if key in self._added:
            self._added[key] = layer
        else:
            self._changed[key] = layer

    def _resolved(self, output: OpOutput) -> tuple[int, int, NewPort]:
        """Return the layer id, port id and port of an output."""
        key = self.find(output.op)
        ports = self.op(key).outputs
        if not 0 <= output.index < len(ports):
            raise EditError(
                f"{self.name(key)!r} has no output {output.index}; the number of its outputs is {len(ports)}"
            )
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
            raise EditError(f"an op is already named {edit.name!r}; choose another name for the new op")
        sources = [self._resolved(source) for source in edit.inputs]
        place = self.find(edit.before) if edit.before is not None else None
        if place in self._added:
            raise EditError(f"{self.name(place)!r} is a new op; place {edit.name!r} before an op of the file")
        key = self._new_id()
        inputs = [NewPort(port.element_type, port.shape) for _, _, port in sources]
        self._added[key] = self._style.layer(key, edit, inputs)
        if place is not None:
            self._before[key] = place
        self._names[key] = self.touched[key] = edit.name
        self._by_name[edit.name] = [key]
        for number, (source, port, _) in enumerate(sources):
            self._new_edges[key, number] = (source, port)

    def _new_id(self) -> int:
        """Return a layer id that no op has or had."""
        if self.next >= _IDS:  # the ids have gaps: use the first one
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
            self._before.pop(key, None)
        else:
            self._changed.pop(key, None)
        self._removed.add(key)

    def _rewire(self, key: int, number: int, source: OpOutput) -> None:
        inputs = self.op(key).inputs
        if not 0 <= number < len(inputs):
            raise EditError(f"{self.name(key)!r} has no input {number}; the number of its inputs is {len(inputs)}")
        producer, port, new = self._resolved(source)
        old = inputs[number]
        if (old.element_type, old.shape) != (new.element_type, new.shape):
            bare = NewPort(new.element_type, new.shape)
            self._write(key, self._style.with_input(self._bytes(key), number, bare))
        edges = self._new_edges if (key, old.id) in self._new_edges else self._sources
        edges[key, old.id] = (producer, port)
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
        key = self.find(edit.output.op)
        if self.op(key).type == "Result" and edit.output.index == 0:
            require_tensor_names(edit.names)
            self._write(key, self._style.with_output_names(self._bytes(key), edit.names))
            return
        key, _, port = self._resolved(edit.output)
        # Present names keep their spelling, even one that could not be written anew.
        require_tensor_names(tuple(name for name in edit.names if name not in port.names))
        self._write(key, self._style.with_tensor_names(self._bytes(key), edit.output.index, edit.names))

    # -- the result --------------------------------------------------------------

    def require_unread(self) -> None:
        """Raise an EditError if an op reads a removed op."""
        for source, port, target, target_port in self._edges():
            if source in self._removed:
                reader, read = self.name(target), self.name(source)
                raise EditError(
                    f"{read!r} is removed, but input port {target_port} of {reader!r} reads its port {port}; rewire "
                    f"the input, or remove {reader!r} too"
                )

    def _edges(self) -> Iterator[tuple[int, int, int, int]]:
        for source, port, target, target_port in self._scan.edges if self._removed or self._sources else ():
            if target not in self._removed and target in self._position:
                yield (*self._sources.get((target, target_port), (source, port)), target, target_port)
        for (target, target_port), (source, port) in self._new_edges.items():
            yield source, port, target, target_port

    def splices(self) -> tuple[Splice, ...]:
        """Return the differences from the file, in file order."""
        data, spans = self._scan.data, self._scan.spans
        splices = [removal(data, spans[self._position[key]]) for key in self._removed & self._position.keys()]
        for key, layer in self._changed.items():
            splices += _narrow(data, spans[self._position[key]], layer)
        if self._removed or self._sources:
            splices += self._edge_splices()
        lead = self._style.lead
        for place in set(self._before.values()):
            start = spans[self._position[place]].start
            start -= len(space_before(data, start))
            layers = b"".join(lead + layer for key, layer in self._added.items() if self._before.get(key) == place)
            splices.append(Splice(start, start, layers))
        if len(self._added) > len(self._before):
            layers = b"".join(lead + layer for key, layer in self._added.items() if key not in self._before)
            splices.append(append_to(self._scan, "layers", layers, self._style))
        if self._new_edges:
            edges = b"".join(lead + self._style.edge(*source, *target) for target, source in self._new_edges.items())
            splices.append(append_to(self._scan, "edges", edges, self._style))
        return _merged(sorted(splices))

    def _edge_splices(self) -> Iterator[Splice]:
        data, edges = self._scan.data, self._scan.edges
        spans = [span for tag, span in child_spans(data, self._scan.edges_section) if tag == "edge"]
        if len(spans) != len(edges):
            raise InvalidIRError("the file has several <edges> sections; read it with OpenVINO and save it again")
        connected = set()
        for (_, _, target, target_port), span in zip(edges, spans, strict=True):
            where = (target, target_port)
            connected.add(where)
            if target in self._removed:
                yield removal(data, span)
            elif where in self._sources:
                edge = self._style.with_source(data[span.start : span.end], *self._sources[where])
                yield from _narrow(data, span, edge)
        for key, number in self._sources.keys() - connected:
            raise EditError(
                f"input port {number} of {self.name(key)!r} is not connected; only connected inputs can be rewired"
            )


def _require_name(name: str) -> None:
    if not name:
        raise EditError("the friendly name of an op cannot be empty; give a name")


def _narrow(data: bytes, span: Span, new: bytes) -> Iterator[Splice]:
    """Yield the splice of the part of an element that differs, if any."""
    for start, end, text in difference(data[span.start : span.end], new):
        yield Splice(span.start + start, span.start + end, text)


def _merged(splices: Iterable[Splice]) -> tuple[Splice, ...]:
    """Join splices that touch each other, so that no two start at the same offset."""
    merged: list[Splice] = []
    for splice in splices:
        if merged and merged[-1].end == splice.start:
            last = merged.pop()
            splice = Splice(last.start, splice.end, last.new + splice.new)
        merged.append(splice)
    return tuple(merged)
