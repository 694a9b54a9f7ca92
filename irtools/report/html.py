"""HTML report: a self-contained page, for archives and for debugging."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtools.anatomy.describe import SYMBOLS, layers_text
from irtools.errors import IrtoolsError, UsageError
from irtools.lint.engine import ModelVerification, verify
from irtools.lint.finding import Finding, Severity
from irtools.render.part import DrawnPart
from irtools.render.picture import KINDS
from irtools.render.select import LAST_LAYER
from irtools.report.findings import counts_text, shown_path, worst_first
from irtools.report.html_chunks import divide
from irtools.report.html_graph import Columns, columns, lettered
from irtools.report.html_outline import outline, walk
from irtools.report.html_page import packed, page
from irtools.report.html_tables import HtmlTable, provenance, tables
from irtools.report.html_text import explanation_html
from irtools.report.inspection import InspectedPart, Inspection
from irtools.report.memory import context_text
from irtools.report.record_files import own_records
from irtools.report.record_view import RecordView
from irtools.report.rules import untitled
from irtools.text import count_text, plural, size_text
from irtools.timing import step

if TYPE_CHECKING:
    from irtools.model.directory import ModelDirectory
    from irtools.report.atlas_row import AtlasRow

__all__ = ["View", "render_report", "render_reports", "verification_html"]

_WHITE = "#ffffff"
_SCRIPTS = (
    "dagre.min.js",
    "panzoom.min.js",
    "page.js",
    "page-tools.js",
    "report-graph.js",
    "report-layout.js",
    "report-picture.js",
    "report-details.js",
    "report-main.js",
)


@dataclass(frozen=True, slots=True)
class View:
    """Contents of a report and the initial view of its picture.

    Attributes
    ----------
    part : str
        Part whose ports, states and layers are shown, and with which the picture begins.
    context : int or None
        Tokens in the state, for the memory footprint; by default 4096, or what the model takes.
    batch : int
        Number of sequences.
    op : str
        Friendly name of the op to show first.
    layer : int or None
        Layer to open first; -1 is the last.
    records : mapping of str to mapping
        Records of the export by kind, ``proof`` and ``bench``; only for the page of one export.
    draft : Path or None
        Directory of a draft whose memory is counted.
    """

    part: str = "target"
    context: int | None = None
    batch: int = 1
    op: str = ""
    layer: int | None = None
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    draft: Path | None = None


def render_report(export: ModelDirectory, verified: ModelVerification | None = None, view: View | None = None) -> str:
    """Render the report of an export as a self-contained HTML page; without ``verified`` the rules run first.

    Raises
    ------
    OptionError
        A record in ``view`` is damaged or about other files.
    UsageError
        The export has no such layer, or matplotlib is not installed for the plots of a benchmark.
    """
    return render_reports([verified or ModelVerification(export.path, verify(export, shared=True))], view)


def render_reports(verified: Sequence[ModelVerification], view: View | None = None) -> str:
    """Render the reports of several exports, one after the other on one page."""
    view = view or View()
    with step("Collecting what the page shows"):
        models = [_model(number, model, view) for number, model in enumerate(verified)]
    if view.layer == LAST_LAYER:
        counts = [_layer_count(model) for model in models]
        view = replace(view, layer=max(0, min(counts, default=0) - 1))
    if view.layer is not None:
        _require_layer(models, view.layer)
    drawn = [part for model in models for part in model.parts]
    first = next((part.key for part in drawn if part.first), drawn[0].key if drawn else "")
    return page(
        "report.html",
        scripts=_SCRIPTS,
        styles=("page.css", "record.css", "report.css"),
        css=_colours(),
        title=", ".join(model.name for model in models) or "irtools",
        models=models,
        views=_record_views(verified, view),
        records=view.records,
        kinds=KINDS,
        symbols=SYMBOLS,
        occurring={kind for part in drawn for kind in part.kinds},
        parts=[part.manifest for part in drawn],
        graphs={key: graph for part in drawn for key, graph in part.graphs.items()},
        start={"part": first, "op": view.op, "layer": view.layer},
        written=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _colours() -> str:
    """Style rules with the colours of the boxes, which are those of the other pictures; white follows the theme."""
    return "\n".join(
        f".k-{name} {{ --c: {kind.fill}; --t: {kind.text}; }}" for name, kind in KINDS.items() if kind.fill != _WHITE
    )


def _record_views(verified: Sequence[ModelVerification], view: View) -> tuple[RecordView, ...]:
    verification = verified[0].verification if len(verified) == 1 else None
    return own_records(verification.export, view.records) if verification is not None else ()


def verification_html(
    verified: Sequence[ModelVerification], *, index: Sequence[AtlasRow] | None = None, **_: object
) -> str:
    """Render the outcome of ``irtools verify`` as a page: the report of one export, an index of several.

    Parameters
    ----------
    index : sequence of AtlasRow, optional
        A row for each export, if they were made already.
    """
    if len(verified) == 1:
        return render_reports(verified)
    from irtools.report.atlas import verified_row
    from irtools.report.atlas_html import atlas_html

    rows = list(map(verified_row, verified)) if index is None else index
    return atlas_html(rows, title=f"Verification of {plural(len(rows), 'export')}")


def _layer_count(model: _Model) -> int:
    blocks = model.inspection.part.drawn.blocks if model.inspection is not None else None
    return len(blocks.layers) if blocks is not None else 0


def _require_layer(models: Sequence[_Model], layer: int) -> None:
    for model in models:
        part = model.inspection.part if model.inspection is not None else None
        count = _layer_count(model)
        if not 0 <= layer < count:
            name = part.document.path.name if part else model.path
            raise UsageError(f"{name} has no layer {layer} (layers: {f'0 to {count - 1}' if count else 'none'})")


# -- one export ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shown:
    """Finding on the page."""

    finding: Finding
    place: str
    part: str = ""
    position: int | None = None

    @property
    def severity(self) -> str:
        return str(self.finding.severity or Severity.ERROR)

    @property
    def hint(self) -> str:
        """Hint as a sentence."""
        return self.finding.hint[:1].upper() + self.finding.hint[1:]


@dataclass(frozen=True)
class _Part:
    """Part whose graph is on the page."""

    key: str
    manifest: Mapping[str, object]
    graphs: Mapping[str, str]
    kinds: frozenset[str]
    first: bool = False


@dataclass
class _Model:
    """Contents of the page about one export."""

    number: int
    path: Path
    name: str = ""
    verified: ModelVerification | None = None
    error: str = ""
    inspection: Inspection | None = None
    facts: list[tuple[str, str]] = field(default_factory=list)
    findings: list[_Shown] = field(default_factory=list)
    explanations: list[tuple[str, str, object]] = field(default_factory=list)
    tables: tuple[HtmlTable, ...] = ()
    provenance: tuple[HtmlTable, ...] = ()
    parts: list[_Part] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """Number of findings by severity."""
        return counts_text([self.verified.verification]) if self.verified and self.verified.verification else ""

    @property
    def worst(self) -> str:
        """Worst severity among the findings; ``ok`` without findings."""
        return str(max((shown.finding.severity or Severity.ERROR for shown in self.findings), default="ok"))


def _model(number: int, verified: ModelVerification, view: View) -> _Model:
    model = _Model(number, verified.path, verified.path.resolve().name, verified, verified.error or "")
    verification = verified.verification
    if verification is None:
        return model
    export = verification.export
    model.name = export.directory.resolve().name
    parts = _inspected(model, export, view)
    read: dict[str, Columns] = {}
    for part in parts:
        try:
            read[part.name] = columns(part.document)
        except IrtoolsError as error:
            model.refusals.append(str(error))
    model.findings = [_shown(finding, export, read) for finding in worst_first(verification.findings)]
    used = {finding.code for finding in verification.findings}
    model.explanations = [
        (rule.code, rule.title, explanation_html(untitled(rule))) for rule in verification.rules if rule.code in used
    ]
    chosen = model.inspection.part.name if model.inspection else next(iter(read), "")
    for part in parts:
        if part.name in read:
            model.parts.append(_drawn(model, part, read[part.name], first=part.name == chosen))
    return model


def _inspected(model: _Model, export: ModelDirectory, view: View) -> Sequence[InspectedPart]:
    """Fill in the facts of an export and return the parts to draw, even if it cannot be inspected."""
    try:
        inspection = model.inspection = Inspection(
            export, view.part, context=view.context, batch=view.batch, draft=view.draft
        )
    except IrtoolsError as error:
        model.refusals.append(str(error))
        return [InspectedPart(document) for document in export.parts.values()]
    model.tables = tables(inspection)
    model.provenance = provenance(inspection)
    model.facts = list(_facts(inspection))
    return [part for part in inspection.parts if not part.error]


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    part, targets = inspection.part, inspection.export.target_candidates
    try:
        model_type = str(inspection.export.config.get("model_type") or "")
        declared = inspection.declared_mtp
    except IrtoolsError:
        model_type, declared = "config.json cannot be read", None
    if model_type:
        yield "Model type", model_type
    if targets:
        yield "Target", ", ".join(document.path.name for document in targets)
    if part.drawn.blocks is not None:
        yield "Layers", str(len(part.drawn.blocks.layers))
        for kind in part.kinds:
            yield "", f"{layers_text(kind.indices)}: {kind.text}"
    elif part.refusal:
        yield "Layers", part.refusal
    if part.stack is not None:
        yield "Hidden size", str(part.stack.hidden_size)
    if inspection.draft.kind == "plain" and part is not inspection.mtp:
        yield "Annotation", inspection.annotation[1]
    declaration = "" if declared is None else f", {inspection.declared_text}"
    yield "MTP head", f"{inspection.mtp_wiring if inspection.mtp else 'none'}{declaration}"
    memory = inspection.footprint
    yield "Weights", size_text(memory.stored)
    yield "Parameters", count_text(sum(part.parameters for part in inspection.models))
    key, value = memory.asked or ("u8", "u8")
    precision = key if key == value else f"{key} and {value}"
    total = size_text(memory.total(key, value, drafting=False))
    yield "Memory about", f"{total} for {context_text(memory)}, with keys and values in {precision}"


def _shown(finding: Finding, export: ModelDirectory, read: Mapping[str, Columns]) -> _Shown:
    """A finding with the op in the picture to which it is pinned."""
    file = shown_path(finding.file, export.directory) if finding.file is not None else ""
    place = f"{file}, line {finding.line}" if finding.line is not None else file
    ops = read.get(finding.part or "")
    inside = finding.file is None or finding.file.parent == export.directory
    if ops is None or not inside:
        return _Shown(finding, "" if file == "." else place)
    return _Shown(finding, place, finding.part or "", _position(finding, ops))


def _position(finding: Finding, ops: Columns) -> int | None:
    """Position of the op that a finding names, or of the op at its line."""
    top = len(ops.position)
    if finding.op is not None:
        places = [number for number in range(top) if ops.names[number] == finding.op]
        if places:
            return next((number for number in places if ops.lines[number] == finding.line), places[0])
    if finding.line is None or not top or not ops.lines[0] <= finding.line <= ops.end:
        return None
    return bisect_right(ops.lines, finding.line, 0, top) - 1


def _head_key(model: _Model, part: InspectedPart) -> str:
    """Key of the MTP head that is shown beside a target."""
    inspection = model.inspection
    if inspection is None or inspection.mtp is None or part.stack is None or part is inspection.mtp:
        return ""
    return f"m{model.number}-{inspection.mtp.name}"


def _drawn(model: _Model, part: InspectedPart, read: Columns, *, first: bool) -> _Part:
    key = f"m{model.number}-{part.name}"
    layers = part.stack.layers if part.stack is not None else ()
    taps = [(read.position[layer.source.op], layer.index, layer.locator.output_index) for layer in layers]
    pinned = [
        (shown.position, shown.severity, shown.finding.code, shown.finding.message, number)
        for number, shown in enumerate(model.findings)
        if shown.part == part.name and shown.position is not None
    ]
    layered = part.drawn if part.drawn.blocks is not None else DrawnPart(part.document, part.stack, any_layers=True)
    lettered(read, layered.dims)
    drawn = outline(layered, read)
    needed = [position for position, *_ in taps] + [position for position, *_ in pinned]
    divided = divide(read, drawn, needed)
    manifest = {
        "key": key,
        "model": model.number,
        "export": model.name,
        "part": part.name,
        "file": part.document.path.name,
        "ops": len(part.document.graph),
        "beside": _head_key(model, part),
    }
    graph = packed({**divided.first, "taps": taps, "findings": pinned})
    pieces = {f"{key}/{number}": packed(chunk) for number, chunk in enumerate(divided.chunks)}
    if divided.index is not None:
        pieces[f"{key}/index"] = packed(divided.index)
    return _Part(
        key,
        manifest,
        {key: graph, **pieces},
        frozenset("op" if isinstance(one, int) else one.kind or "op" for top in drawn for one in walk(top)),
        first,
    )
