"""Text of ``irtools inspect``, about one screen long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from irtools.anatomy.describe import SYMBOLS, layers_text, symbolic
from irtools.lint.pipelines import Pipeline
from irtools.model.footprint import UNKNOWN, states
from irtools.model.part import ModelInput, ModelOutput
from irtools.model.provenance import UNKNOWN_ORIGIN, flat_rt_info, origin, versions
from irtools.report.inspection import InspectedPart, Inspection, WeightGroup
from irtools.report.memory import memory_columns, memory_notes, memory_rows
from irtools.report.terminal import Column, Style, numbers, paragraph, table
from irtools.text import clipped, count_text, plural, ranges, size_text, visible

__all__ = ["inspection_text"]

_ROW = (Column("", effects=("dim",)), Column("", fold="words"))
_DRAFTS = {"dflash": "a DFlash", "eagle3": "an EAGLE-3"}
_FORMULA = 34
"""Minimum width of a formula column; in a narrower terminal, formulas are listed below the table."""


def inspection_text(inspection: Inspection, style: Style) -> str:
    """Write an inspection as text."""
    sections = [
        _head(inspection, style),
        table(_ROW, list(_facts(inspection)), style),
        _weights(inspection, style),
        _memory(inspection, style),
    ]
    return "\n\n".join(filter(None, sections))


def _head(inspection: Inspection, style: Style) -> str:
    name = inspection.export.directory.resolve().name
    kind = str(inspection.export.config.get("model_type") or "")
    title = style.paint(visible(name), "bold") + (f"  {visible(kind)}" if kind else "")
    counts = [*numbers("ops + constants", fold="words"), *numbers("xml", "bin")]
    columns = [Column("part", fold="words"), *counts, Column("versions", fold="words")]
    return f"{title}\n{table(columns, _part_rows(inspection), style)}"


def _part_rows(inspection: Inspection) -> list[tuple[object, ...]]:
    """A row per part; the tokenizers share one row."""
    rest = [
        part for part in inspection.parts if part is not inspection.part and "tokenizer" in part.name and not part.error
    ]
    rows = [_part_row(inspection, part) for part in inspection.parts if part not in rest]
    if rest:
        xml, weights = (sum(part.file_bytes[at] or 0 for part in rest) for at in (0, 1))
        made = {f"{name} {version}" for part in rest for name, version in versions(part.document).items()}
        names = ", ".join(part.name for part in rest)
        rows.append((names, _ops(*rest), size_text(xml), size_text(weights), ", ".join(sorted(made))))
    return rows


def _ops(*parts: InspectedPart) -> str:
    """Number of ops without constants, as ``diff`` and ``render`` count them, and number of constants."""
    constants = sum(part.constants for part in parts)
    return f"{sum(len(part.document.scan.ids) for part in parts) - constants} + {constants}"


def _part_row(inspection: Inspection, part: InspectedPart) -> tuple[object, ...]:
    mark = "*" if part is inspection.part else ""
    if part.error:
        return f"{part.name}{mark}", "-", "-", "-", part.error
    xml, weights = part.file_bytes
    made = [
        f"{name} {version}"
        for name, version in versions(part.document).items()
        if name in ("OpenVINO", "Optimum Intel", "Transformers", "NNCF", "OpenVINO Tokenizers")
    ]
    size = size_text(weights) if weights is not None else "missing"
    return f"{part.name}{mark}", _ops(part), size_text(xml), size, ", ".join(made)


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    yield from _layers(inspection)
    yield "parameters", _parameters(inspection)
    part = inspection.part
    yield "inputs", ", ".join(map(_port, part.ports.inputs)) or "none"
    yield "outputs", ", ".join(map(_port, part.ports.outputs)) or "none"
    counted = [f"{s.count} x {s.element_type} {symbolic(s.shape, state=True)}" for s in states(part.document)]
    yield "states", ", ".join(counted) or "none"
    yield "", ", ".join(SYMBOLS)
    if part is not inspection.mtp and inspection.draft.kind == "plain":
        yield "annotation", inspection.annotation[1]
    yield from _drafting(inspection)
    yield from _rt_info(part)


def _parameters(inspection: Inspection) -> str:
    """Number of parameters of each part, and together."""
    counts = {part.name: part.parameters for part in inspection.models}
    named = [f"{name} {count_text(count)}" for name, count in counts.items() if count]
    return f"{count_text(sum(counts.values()))}: {', '.join(named)}" if named else "none"


def _layers(inspection: Inspection) -> Iterator[tuple[str, str]]:
    part = inspection.part
    if not inspection.export.target_candidates:
        yield "target", f"none: no openvino_model.xml or openvino_language_model.xml; shown is the part {part.name}"
    if part.drawn.blocks is None:
        yield "layers", (part.refusal if inspection.is_target else "") or "no decoder stack"
        return
    stack = part.stack
    where = f", hidden size {stack.hidden_size}, scope {stack.scope or 'none'}" if stack else ""
    yield "layers", f"{len(part.drawn.blocks.layers)}{where}"
    for kind in part.kinds:
        yield "", f"{layers_text(kind.indices)}: {kind.text}"


def _port(port: ModelInput | ModelOutput) -> str:
    return f"{port.label} {port.element_type} {symbolic(port.shape, port.label)}"


def _drafting(inspection: Inspection) -> Iterator[tuple[str, str]]:
    if inspection.mtp is not None:
        yield "MTP head", f"present, {inspection.declared_text}; {inspection.mtp_wiring}"
    else:
        yield "MTP head", f"none, {inspection.declared_text}"
    if inspection.draft_head:
        yield "draft head", inspection.draft_head
    if inspection.draft.kind != "plain" and inspection.part is not inspection.mtp:
        layers = inspection.draft.layers
        reads = f"reads the target's layers {ranges(layers)}" if layers else "does not say which layers it reads"
        yield "draft", f"this is {_DRAFTS[inspection.draft.kind]} draft; it {reads}"
    for strategy in inspection.strategies:
        text = f"{'available' if strategy.available else 'not available:'} {strategy.text}".rstrip()
        yield f"  {strategy.name}", "; set ".join(filter(None, [text, strategy.to_set]))
    if not inspection.strategies:
        yield "strategies", "not determined"
    if inspection.pipelines:
        yield "pipeline", pipelines_text(inspection.pipelines)


def pipelines_text(pipelines: Sequence[Pipeline]) -> str:
    """The pipeline classes that fit an export; for the others, the reasons."""
    fitting = " or ".join(one.name for one in pipelines if one.fits)
    reasons: dict[str, list[str]] = {}
    for one in pipelines:
        if not one.fits:
            reasons.setdefault(one.reason, []).append(one.name)
    if not fitting and len(reasons) == 1:
        return f"none: {next(iter(reasons))}"
    return "; ".join([fitting or "none", *(f"not {' and '.join(names)}: {why}" for why, names in reasons.items())])


def _rt_info(part: InspectedPart) -> Iterator[tuple[str, str]]:
    entries = flat_rt_info(part.document)
    origins = Counter(map(origin, entries))
    text = ", ".join(f"{count} from {origin}" for origin, count in sorted(origins.items()))
    yield "rt_info", f"{plural(len(entries), 'entry')}: {text}" if entries else "none"
    hints = [
        f"{key.removeprefix('runtime_options/')} {value}"
        for key, value in entries.items()
        if key.startswith("runtime_options/")
    ]
    if hints:
        yield "", ", ".join(hints)
    for key, value in entries.items():
        if origin(key) == UNKNOWN_ORIGIN:
            yield "", f"{key}: {clipped(value)}"


def _weights(inspection: Inspection, style: Style) -> str:
    columns = (Column("part"), Column("weights for"), Column("size", right=True), Column("precision", fold="words"))
    rows = [row for part in inspection.models for row in _weight_rows(part)]
    if not rows:
        return ""
    shares: dict[str, list[str]] = {}
    for part in inspection.models:
        if request := part.requested_compression:
            shares.setdefault(request, []).append(f"{part.name} {part.compression.share:.0%}")
    texts = [f"requested: {request}; values compressed: {', '.join(parts)}" for request, parts in shares.items()]
    return "\n".join([table(columns, rows, style), *(paragraph(text, style) for text in texts)])


def _weight_rows(part: InspectedPart) -> list[Sequence[object]]:
    kinds: dict[str, list[WeightGroup]] = {}
    for group in part.groups:
        if group.precision:
            kinds.setdefault(group.kind, []).append(group)
    rows: list[Sequence[object]] = []
    for kind, groups in kinds.items():
        alone = len(groups) == 1
        texts = [group.precision if alone else f"{size_text(group.bytes)} {group.precision}" for group in groups]
        size = size_text(sum(group.bytes for group in groups))
        rows.append((part.name if not rows else "", kind.replace("+", " and "), size, "; ".join(texts)))
    return rows


def _memory(inspection: Inspection, style: Style) -> str:
    memory = inspection.footprint
    title = f"memory with GenAI on a CPU, context {memory.context}, batch {memory.batch}"
    precisions = memory_columns(memory, inspection.kv_precision, inspection.budget)
    rows = list(memory_rows(memory, precisions))
    names = [f"kv {one.title}" for one in precisions]
    sizes = numbers(*names)
    said = [*memory_notes(memory, precisions, inspection.budget), f"not included: {'; '.join(UNKNOWN)}"]
    notes = "\n".join(paragraph(text, style) for text in said)
    columns = (Column(""), *sizes)
    text = table(columns, [row[:-1] for row in rows], style)
    room = None if style.width is None else style.width - max(map(len, text.splitlines()))
    heading = style.paint(title, "bold")
    if room is None or room >= _FORMULA:
        return "\n".join([heading, table((*columns, Column("formula", fold="words")), rows, style), notes])
    text = table((Column("", fold="words"), *sizes), [row[:-1] for row in rows], style)
    formulas = table((Column("", fold="words"),), [[f"{row[0]}: {row[-1]}"] for row in rows if row[-1]], style)
    return "\n".join([heading, text, formulas, notes])
