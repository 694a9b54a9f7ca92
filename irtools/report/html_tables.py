"""The tables of ``irtools inspect`` for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from irtools.anatomy.describe import SYMBOLS, symbolic
from irtools.errors import IrtoolsError
from irtools.model.compression import asked
from irtools.model.footprint import KV_PRECISIONS, UNKNOWN, states
from irtools.model.part import Input, Output
from irtools.model.provenance import flat_rt_info, versions
from irtools.report.inspection import Inspection, PartFacts
from irtools.report.stack import layer_rows
from irtools.text import plural, shape_text, size_text

__all__ = ["Cell", "Column", "Table", "provenance", "tables"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and whether it holds numbers or names from the file."""

    title: str
    right: bool = False
    name: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Text that leads to an op in the picture."""

    text: str
    op: str
    part: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its title, and what is to be said below it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]
    notes: tuple[str, ...] = ()


def tables(found: Inspection) -> tuple[Table, ...]:
    """What ``irtools inspect`` shows, as tables; one that cannot be made says why."""
    makers: dict[str, Callable[[Inspection], Iterator[Table]]] = {
        "Parts": _parts,
        "Ports": _ports,
        "States": _states,
        "Decoder layers": _layers,
        "Weights": _weights,
        "Memory": _memory,
    }
    made: list[Table] = []
    for title, make in makers.items():
        made += _safely(title, make, found)
    return tuple(made)


def _safely(title: str, make: Callable[[Inspection], Iterator[Table]], found: Inspection) -> list[Table]:
    """The tables of one kind, or a table without rows that says what is in the way."""
    try:
        return [table for table in make(found) if table.rows]
    except IrtoolsError as error:
        return [Table(title, (), (), (str(error),))]


def _parts(found: Inspection) -> Iterator[Table]:
    columns = (
        Column("part"),
        Column("file", name=True),
        Column("ops without constants", right=True),
        Column("constants", right=True),
        Column("xml", right=True),
        Column("bin", right=True),
        Column("layers, wiring, fault"),
    )
    rows: list[tuple[object, ...]] = []
    for part in found.parts:
        if part.error:
            rows.append((part.name, part.document.path.name, "-", "-", "-", "-", part.error))
            continue
        xml, weights = part.file_bytes
        size = size_text(weights) if weights is not None else "missing"
        ops = (len(part.document.scan.ids) - part.constants, part.constants)
        rows.append((part.name, part.document.path.name, *ops, size_text(xml), size, _what(found, part)))
    yield Table("Parts", columns, tuple(rows))


def _what(found: Inspection, part: PartFacts) -> str:
    if part is found.mtp:
        return found.mtp_wiring
    if part is found.part or part.stack is not None:
        return "; ".join(f"{plural(len(kind.indices), 'layer')}: {kind.text}" for kind in part.kinds) or part.refusal
    return ""


def _ports(found: Inspection) -> Iterator[Table]:
    columns = (
        Column("part"),
        Column(""),
        Column("tensor name", name=True),
        Column("friendly name", name=True),
        Column("type"),
        Column("shape"),
    )
    rows = [
        (part.name, side, _port_name(port), Cell(port.friendly, port.friendly, part.name), port.element_type, shape)
        for part in found.parts
        if not part.error and "tokenizer" not in part.name
        for side, ports in (("input", part.ports.inputs), ("output", part.ports.outputs))
        for port in ports
        for shape in [symbolic(port.shape, port.label)]
    ]
    yield Table("Inputs and outputs", columns, tuple(rows), (", ".join(SYMBOLS),))


def _port_name(port: Input | Output) -> str:
    return ", ".join(port.names)


def _states(found: Inspection) -> Iterator[Table]:
    columns = (
        Column("part"),
        Column("number", right=True),
        Column("type"),
        Column("shape"),
        Column("with the context"),
    )
    rows = [
        (
            part.name,
            state.count,
            state.element_type,
            symbolic(state.shape, state=True),
            "grows" if state.grows else "stays",
        )
        for part in found.parts
        if not part.error and "tokenizer" not in part.name
        for state in states(part.document)
    ]
    yield Table("States", columns, tuple(rows))


def _layers(found: Inspection) -> Iterator[Table]:
    part, stack = found.part, found.part.stack
    if stack is None:
        return
    columns = (
        Column("layer", right=True),
        Column("what it is"),
        Column("hidden state", name=True),
        Column("output", right=True),
        Column("shape"),
        Column("witnesses that agree"),
    )
    texts = {index: kind.text for kind in part.kinds for index in kind.indices}
    rows = [
        (
            layer.index,
            texts.get(layer.index, ""),
            Cell(layer.locator.producer, layer.locator.producer, part.name),
            layer.locator.output_index,
            shape_text(layer.shape),
            ", ".join(map(str, row["witnesses"])) if isinstance(row["witnesses"], list) else "",
        )
        for layer, row in zip(stack.layers, layer_rows(stack), strict=True)
    ]
    where = f"hidden size {stack.hidden_size}, scope {stack.scope or 'none'}"
    yield Table("Decoder layers", columns, tuple(rows), (where, found.annotation[1]))


def _weights(found: Inspection) -> Iterator[Table]:
    columns = (
        Column("part"),
        Column("weights for"),
        Column("size", right=True),
        Column("precision"),
        Column("constants", right=True),
        Column("values", right=True),
    )
    rows, notes = [], []
    for part in found.parts:
        if part.error or "tokenizer" in part.name:
            continue
        rows += [
            (part.name, group.kind.replace("+", " and "), size_text(group.bytes), group.precision, group.count, values)
            for group in part.groups
            if group.precision
            for values in [f"{group.elements:,}"]
        ]
        request = asked(part.document)
        if request is not None:
            groups = f", groups of {request.group_size}" if request.group_size > 0 else ""
            wanted = f"{request.mode}{groups}, ratio {request.ratio:g}"
            notes.append(f"{part.name}: asked for {wanted}; {part.compression.share:.0%} of the values are compressed")
    yield Table("Weights", columns, tuple(rows), tuple(notes))


def _memory(found: Inspection) -> Iterator[Table]:
    memory = found.footprint
    columns = (
        Column(f"context {memory.context}, batch {memory.batch}"),
        *(Column(f"keys and values {name}", right=True) for name in KV_PRECISIONS),
        Column("formula"),
    )
    rows = [(term.name, *(size_text(term.size(name)) for name in KV_PRECISIONS), term.formula) for term in memory.terms]
    total = ("at least", *(size_text(memory.total(name)) for name in KV_PRECISIONS), "")
    yield Table("Memory", columns, (*rows, total), (f"not in it: {'; '.join(UNKNOWN)}",))


def provenance(found: Inspection) -> tuple[Table, ...]:
    """Where the parts come from: versions, then every model-level rt_info entry."""
    readable = [part for part in found.parts if not part.error]
    made = [(part.name, name, version) for part in readable for name, version in versions(part.document).items()]
    entries = [
        (part.name, key, value) for part in readable for key, value in sorted(flat_rt_info(part.document).items())
    ]
    columns = (Column("part"), Column("key", name=True), Column("value", name=True))
    return (
        Table("Made with", (Column("part"), Column("program"), Column("version", name=True)), tuple(made)),
        Table("rt_info", columns, tuple(entries)),
    )
