"""Tables of the HTML report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from irtools.anatomy.describe import SYMBOLS, symbolic
from irtools.decoder.stack import DecoderLayer
from irtools.errors import IrtoolsError
from irtools.model.footprint import UNKNOWN, Footprint, states
from irtools.model.provenance import flat_rt_info, versions
from irtools.report.inspection import InspectedPart, Inspection
from irtools.report.memory import context_text, memory_columns, memory_notes, memory_rows
from irtools.report.stack import agreeing
from irtools.text import clipped, plural, size_text

__all__ = ["Cell", "HtmlColumn", "HtmlTable", "memory_table", "number_columns", "provenance", "tables", "text_columns"]


@dataclass(frozen=True, slots=True)
class HtmlColumn:
    """Column of numbers (``right``), of names from the file (``name``) or of text."""

    title: str
    right: bool = False
    name: bool = False


def text_columns(*titles: str) -> tuple[HtmlColumn, ...]:
    """Columns of text."""
    return tuple(map(HtmlColumn, titles))


def number_columns(*titles: str) -> tuple[HtmlColumn, ...]:
    """Columns of numbers."""
    return tuple(HtmlColumn(title, right=True) for title in titles)


def _name_columns(*titles: str) -> tuple[HtmlColumn, ...]:
    return tuple(HtmlColumn(title, name=True) for title in titles)


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with a link to an op in the picture."""

    text: str
    op: str
    part: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """Table with a title, and notes below it; the rows whose numbers are in ``sums`` stay below those before them."""

    title: str
    columns: tuple[HtmlColumn, ...]
    rows: tuple[tuple[object, ...], ...]
    notes: tuple[str, ...] = ()
    sums: frozenset[int] = frozenset()


_LONGEST_VALUE = 2000
"""Characters of an rt_info value on the page."""
_GROWS = {True: "grows", False: "stays"}


def tables(inspection: Inspection) -> tuple[HtmlTable, ...]:
    """Facts of ``irtools inspect`` as tables; for a table that fails, the error takes its place."""
    makers: dict[str, Callable[[Inspection], HtmlTable]] = {
        "Parts": _parts,
        "Ports": _ports,
        "States": _states,
        "Decoder layers": _layers,
        "Weights": _weights,
        "Memory": lambda inspection: memory_table(inspection.footprint),
    }
    made: list[HtmlTable] = []
    for title, make in makers.items():
        try:
            made.append(make(inspection))
        except IrtoolsError as error:
            made.append(HtmlTable(title, (), (), (str(error),)))
    return tuple(table for table in made if table.rows or not table.columns)


def _parts(inspection: Inspection) -> HtmlTable:
    columns = (
        *text_columns("part"),
        *_name_columns("file"),
        *number_columns("ops without constants", "constants", "xml", "bin"),
        *text_columns("layers, wiring, fault"),
    )
    rows: list[tuple[object, ...]] = []
    for part in inspection.parts:
        if part.error:
            rows.append((part.name, part.document.path.name, "-", "-", "-", "-", part.error))
            continue
        xml, weights = part.file_bytes
        size = size_text(weights) if weights is not None else "missing"
        ops = (len(part.document.scan.ids) - part.constants, part.constants)
        rows.append((part.name, part.document.path.name, *ops, size_text(xml), size, _structure(inspection, part)))
    return HtmlTable("Parts", columns, tuple(rows))


def _structure(inspection: Inspection, part: InspectedPart) -> str:
    if part is inspection.mtp:
        return inspection.mtp_wiring
    if part is inspection.part or part.stack is not None:
        return "; ".join(f"{plural(len(kind.indices), 'layer')}: {kind.text}" for kind in part.kinds) or part.refusal
    return ""


def _ports(inspection: Inspection) -> HtmlTable:
    columns = (
        *text_columns("part", ""),
        *_name_columns("tensor name", "friendly name"),
        *text_columns("type", "shape"),
    )
    rows = [
        (
            part.name,
            side,
            ", ".join(port.names),
            Cell(port.friendly, port.friendly, part.name),
            port.element_type,
            symbolic(port.shape, port.label),
        )
        for part in inspection.models
        for side, ports in (("input", part.ports.inputs), ("output", part.ports.outputs))
        for port in ports
    ]
    return HtmlTable("Inputs and outputs", columns, tuple(rows), (", ".join(SYMBOLS),))


def _states(inspection: Inspection) -> HtmlTable:
    columns = (*text_columns("part"), *number_columns("number"), *text_columns("type", "shape", "with the context"))
    rows = [
        (part.name, state.count, state.element_type, symbolic(state.shape, state=True), _GROWS[state.grows])
        for part in inspection.models
        for state in states(part.document)
    ]
    return HtmlTable("States", columns, tuple(rows))


def _layers(inspection: Inspection) -> HtmlTable:
    part, stack = inspection.part, inspection.part.stack
    columns = (
        *number_columns("layer"),
        *text_columns("structure"),
        *_name_columns("hidden state"),
        *number_columns("output"),
        *text_columns("shape", "witnesses that agree"),
    )
    if stack is None:
        return HtmlTable("Decoder layers", columns, ())
    texts = {index: kind.text for kind in part.kinds for index in kind.indices}
    rows = [
        (
            layer.index,
            texts.get(layer.index, ""),
            Cell(_shown_producer(layer), layer.locator.producer, part.name),
            layer.locator.output_index,
            symbolic(layer.shape, stream=True),
            ", ".join(agreeing(layer)),
        )
        for layer in stack.layers
    ]
    where = f"hidden size {stack.hidden_size}, scope {stack.scope or 'none'}"
    return HtmlTable("Decoder layers", columns, tuple(rows), (where, inspection.annotation[1]))


def _shown_producer(layer: DecoderLayer) -> str:
    return f"{layer.locator.producer} (not the only op of this name)" if layer.obstacle else layer.locator.producer


def _weights(inspection: Inspection) -> HtmlTable:
    columns = (
        *text_columns("part", "weights for"),
        *number_columns("size"),
        *text_columns("precision"),
        *number_columns("constants", "values"),
    )
    rows = [
        (part.name, group.kind.replace("+", " and "), size_text(group.bytes), group.precision, group.count, elements)
        for part in inspection.models
        for group in part.groups
        if group.precision and (elements := f"{group.elements:,}")
    ]
    notes = [
        f"{part.name}: requested {request}; {part.compression.share:.0%} of the values are compressed"
        for part in inspection.models
        if (request := part.requested_compression)
    ]
    return HtmlTable("Weights", columns, tuple(rows), tuple(notes))


def memory_table(memory: Footprint) -> HtmlTable:
    """The terms of a footprint and their sums."""
    precisions = memory_columns(memory)
    columns = (
        HtmlColumn("term"),
        *number_columns(*(f"keys and values {one.title}" for one in precisions)),
        HtmlColumn("formula"),
    )
    notes = (*memory_notes(memory, precisions), f"not included: {'; '.join(UNKNOWN)}")
    title = f"Memory for {context_text(memory)}"
    rows = tuple(memory_rows(memory, precisions))
    names = {f"{total.name}, about" for one in precisions for total in one.totals}
    sums = frozenset(number for number, row in enumerate(rows) if row[0] in names)
    return HtmlTable(title, columns, rows, notes, sums)


def provenance(inspection: Inspection) -> tuple[HtmlTable, ...]:
    """Versions of the programs that made the parts, and every model-level rt_info entry."""
    readable = [part for part in inspection.parts if not part.error]
    made = _shared((part.name, versions(part.document).items()) for part in readable)
    entries = _shared((part.name, sorted(flat_rt_info(part.document).items())) for part in readable)
    rows = [(key, clipped(value, _LONGEST_VALUE), parts) for key, value, parts in entries]
    long = any(len(value) > _LONGEST_VALUE for _, value, _ in entries)
    notes = ("long values are shortened; `irtools rt-info show MODEL_DIR KEY --full` prints a value whole",)
    return (
        HtmlTable("Made with", (*text_columns("program"), *_name_columns("version"), *text_columns("parts")), made),
        HtmlTable(
            "rt_info", (*_name_columns("key", "value"), *text_columns("parts")), tuple(rows), notes if long else ()
        ),
    )


def _shared(parts: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> tuple[tuple[str, str, str], ...]:
    """Entries of several parts, each once, with the parts that have it."""
    parts = list(parts)
    owners: dict[tuple[str, str], list[str]] = {}
    for part, entries in parts:
        for entry in entries:
            owners.setdefault(entry, []).append(part)
    every = f"all {len(parts)} parts"
    return tuple(
        (key, value, every if len(names) == len(parts) > 1 else ", ".join(names))
        for (key, value), names in sorted(owners.items(), key=lambda item: item[0][0])
    )
