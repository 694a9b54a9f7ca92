"""``irtools inspect`` for people: one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from irtools.anatomy.describe import SYMBOLS, symbolic
from irtools.model.compression import asked
from irtools.model.footprint import KV_PRECISIONS, UNKNOWN, Footprint, states
from irtools.model.part import Input, Output
from irtools.model.provenance import flat_rt_info, origin, versions
from irtools.report.inspection import Inspection, PartFacts, WeightGroup
from irtools.report.terminal import Column, Style, table
from irtools.text import plural, ranges, size_text, visible

__all__ = ["inspection_text"]

_ROW = (Column("", effects=("dim",)), Column("", fold="words"))
_DRAFTS = {"dflash": "a DFlash", "eagle3": "an EAGLE-3"}
_FORMULA = 34
"""Columns that a formula needs to be worth a column of the table."""


def inspection_text(found: Inspection, style: Style) -> str:
    """Write an inspection as text."""
    sections = [
        _head(found, style),
        table(_ROW, list(_facts(found)), style),
        _weights(found, style),
        _memory(found.footprint, style),
    ]
    return "\n\n".join(section for section in sections if section)


def _head(found: Inspection, style: Style) -> str:
    name = found.export.directory.resolve().name
    kind = str(found.export.config.get("model_type") or "")
    title = style.paint(visible(name), "bold") + (f"  {visible(kind)}" if kind else "")
    columns = (
        Column("part", fold="words"),
        Column("ops + constants", right=True, fold="words"),
        Column("xml", right=True),
        Column("bin", right=True),
        Column("versions", fold="words"),
    )
    return f"{title}\n{table(columns, _part_rows(found), style)}"


def _part_rows(found: Inspection) -> list[tuple[object, ...]]:
    """A row per part; the tokenizers, which nobody inspects, share one."""
    rest = [part for part in found.parts if part is not found.part and "tokenizer" in part.name and not part.error]
    rows = [_part_row(found, part) for part in found.parts if part not in rest]
    if rest:
        xml, weights = (sum(part.file_bytes[at] or 0 for part in rest) for at in (0, 1))
        made = {f"{name} {version}" for part in rest for name, version in versions(part.document).items()}
        names = ", ".join(part.name for part in rest)
        rows.append((names, _ops(*rest), size_text(xml), size_text(weights), ", ".join(sorted(made))))
    return rows


def _ops(*parts: PartFacts) -> str:
    """How many ops some parts have, as ``diff`` and ``render`` count them, and how many constants beside these."""
    constants = sum(part.constants for part in parts)
    return f"{sum(len(part.document.scan.ids) for part in parts) - constants} + {constants}"


def _part_row(found: Inspection, part: PartFacts) -> tuple[object, ...]:
    mark = "*" if part is found.part else ""
    if part.error:
        return f"{part.name}{mark}", "-", "-", "-", part.error
    xml, weights = part.file_bytes
    made = [
        f"{name} {version}"
        for name, version in versions(part.document).items()
        if name in ("OpenVINO", "Optimum Intel", "NNCF", "OpenVINO Tokenizers")
    ]
    size = size_text(weights) if weights is not None else "missing"
    return f"{part.name}{mark}", _ops(part), size_text(xml), size, ", ".join(made)


def _facts(found: Inspection) -> Iterator[tuple[str, str]]:
    yield from _layers(found)
    part = found.part
    yield "inputs", ", ".join(map(_port, part.ports.inputs)) or "none"
    yield "outputs", ", ".join(map(_port, part.ports.outputs)) or "none"
    counted = [f"{s.count} x {s.element_type} {symbolic(s.shape, state=True)}" for s in states(part.document)]
    yield "states", ", ".join(counted) or "none"
    yield "", ", ".join(SYMBOLS)
    if part is not found.mtp and found.draft.kind == "plain":
        yield "annotation", found.annotation[1]
    yield from _drafting(found)
    yield from _rt_info(part)


def _layers(found: Inspection) -> Iterator[tuple[str, str]]:
    part = found.part
    if not found.export.target_candidates:
        yield "target", f"none: no openvino_model.xml or openvino_language_model.xml; this is the part {part.name}"
    if part.drawn.blocks is None:
        yield "layers", (part.refusal if found.is_target else "") or "no decoder stack"
        return
    stack = part.stack
    where = f", hidden size {stack.hidden_size}, scope {stack.scope or 'none'}" if stack else ""
    yield "layers", f"{len(part.drawn.blocks.layers)}{where}"
    for kind in part.kinds:
        yield "", f"layer{'s' if len(kind.indices) > 1 else ''} {ranges(kind.indices)}: {kind.text}"


def _port(port: Input | Output) -> str:
    return f"{port.label} {port.element_type} {symbolic(port.shape, port.label)}"


def _drafting(found: Inspection) -> Iterator[tuple[str, str]]:
    said = found.config_said
    if found.mtp is not None:
        yield "MTP head", f"present, {said}; {found.mtp_wiring}"
    else:
        yield "MTP head", f"none, {said}"
    if found.draft.kind != "plain" and found.part is not found.mtp:
        layers = found.draft.layers
        reads = f"reads the target's layers {ranges(layers)}" if layers else "does not say which layers it reads"
        yield "draft", f"this is {_DRAFTS[found.draft.kind]} draft; it {reads}"
    for strategy in found.strategies:
        words = [strategy.reason, f"({', '.join(strategy.findings)})" if strategy.findings else ""]
        text = " ".join(["available" if strategy.available else "not available:", *filter(None, words)])
        yield f"  {strategy.name}", text
    if not found.strategies:
        yield "strategies", "not judged"


def _rt_info(part: PartFacts) -> Iterator[tuple[str, str]]:
    entries = flat_rt_info(part.document)
    origins = Counter(map(origin, entries))
    text = ", ".join(f"{count} from {origin}" for origin, count in sorted(origins.items()))
    yield "rt_info", f"{plural(len(entries), 'entry').replace('entrys', 'entries')}: {text}" if entries else "none"
    hints = [
        f"{key.removeprefix('runtime_options/')} {value}"
        for key, value in entries.items()
        if key.startswith("runtime_options/")
    ]
    if hints:
        yield "", ", ".join(hints)


def _weights(found: Inspection, style: Style) -> str:
    columns = (Column("part"), Column("weights for"), Column("size", right=True), Column("precision", fold="words"))
    parts = [part for part in found.parts if not part.error and "tokenizer" not in part.name]
    rows = [row for part in parts for row in _weight_rows(part)]
    if not rows:
        return ""
    lines = [table(columns, rows, style)]
    asked_for: dict[str, list[str]] = {}
    for part in parts:
        request = asked(part.document)
        if request is not None:
            groups = f", groups of {request.group_size}" if request.group_size > 0 else ""
            everything = ", all layers" if request.all_layers else ""
            text = f"{request.mode}{groups}, ratio {request.ratio:g}{everything}"
            asked_for.setdefault(text, []).append(f"{part.name} {part.compression.share:.0%}")
    said = [f"asked for {text}; values compressed: {', '.join(done)}" for text, done in asked_for.items()]
    lines += [_paragraph(text, style) for text in said]
    return "\n".join(lines)


def _weight_rows(part: PartFacts) -> list[Sequence[object]]:
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


def _paragraph(text: str, style: Style) -> str:
    return table([Column("", fold="words")], [[text]], style)


def _memory(found: Footprint, style: Style) -> str:
    title = f"memory, context {found.context}, batch {found.batch}"
    rows = list(_memory_rows(found))
    sizes = tuple(Column(f"kv {name}", right=True) for name in KV_PRECISIONS)
    columns = (Column(title), *sizes)
    text = table(columns, [row[:-1] for row in rows], style)
    missing = [f"parts that cannot be read ({', '.join(found.unread)})"] if found.unread else []
    notes = _paragraph(f"not in it: {'; '.join([*missing, *UNKNOWN])}", style)
    room = None if style.width is None else style.width - max(map(len, text.splitlines()))
    if room is None or room >= _FORMULA:
        return f"{table((*columns, Column('formula', fold='words')), rows, style)}\n{notes}"
    text = table((Column("", fold="words"), *sizes), [row[:-1] for row in rows], style)
    formulas = table((Column("", fold="words"),), [[f"{row[0]}: {row[-1]}"] for row in rows if row[-1]], style)
    return "\n".join([style.paint(title, "bold"), text, formulas, notes])


def _memory_rows(found: Footprint) -> Iterator[tuple[str, ...]]:
    """A row per summand: name, sizes, formula; parts beside the target and the MTP head share one."""
    main = [term for term in found.terms if term.name.startswith(("target", "draft", "MTP"))]
    others = [term for term in found.terms if term not in main]
    for term in main:
        yield term.name, *(size_text(term.size(name)) for name in KV_PRECISIONS), term.formula
    if others:
        size = size_text(sum(term.bytes for term in others))
        name = "other parts, weights" if main else "weights"
        yield name, size, size, size, ", ".join(term.part for term in others)
    yield "at least", *(size_text(found.total(name)) for name in KV_PRECISIONS), ""
