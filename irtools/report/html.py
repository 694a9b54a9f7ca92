"""The report: one page that needs nothing beside itself, for people who archive it and people who debug with it."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.errors import IrtoolsError, UsageError
from irtools.ir.output import write_output
from irtools.lint.engine import Judged, verify
from irtools.lint.model import Finding, Severity
from irtools.render.picture import KINDS
from irtools.report.findings import counts_text, shown_path
from irtools.report.html_graph import Columns, columns
from irtools.report.html_outline import outline
from irtools.report.html_page import packed, page
from irtools.report.html_tables import Table, provenance, tables
from irtools.report.html_text import explanation_html
from irtools.report.inspection import Inspection, PartFacts
from irtools.text import ranges, size_text

if TYPE_CHECKING:
    from irtools.model.directory import ModelDirectory

__all__ = ["View", "render_report", "render_reports", "write_report"]

_SCRIPTS = (
    "dagre.min.js",
    "panzoom.min.js",
    "page.js",
    "report-graph.js",
    "report-layout.js",
    "report-picture.js",
    "report-details.js",
    "report-main.js",
)


@dataclass(frozen=True, slots=True)
class View:
    """What a report is about, and what its picture shows first.

    Attributes
    ----------
    part : str
        The part that ports, states and layers are shown of, and that the picture begins with.
    context, batch : int
        For the memory footprint.
    op : str
        Friendly name of the op to show first.
    layer : int or None
        The layer to open first.
    """

    part: str = "target"
    context: int = 4096
    batch: int = 1
    op: str = ""
    layer: int | None = None


def write_report(
    export: ModelDirectory, path: str | Path, judged: Judged | None = None, view: View | None = None
) -> Path:
    """Write the report of an export to a file, whole or not at all.

    Parameters
    ----------
    export : ModelDirectory
    path : path-like
        ``.html``; a file that is there is replaced.
    judged : Judged, optional
        What the rules found; they run if it is not given.
    view : View, optional

    Returns
    -------
    Path

    Raises
    ------
    SaveError
        The file could not be written; an old one is as it was.
    """
    return write_output(Path(path), render_report(export, judged, view).encode())


def render_report(export: ModelDirectory, judged: Judged | None = None, view: View | None = None) -> str:
    """The report of an export as HTML.

    Parameters
    ----------
    export : ModelDirectory
    judged : Judged, optional
        What the rules found; they run if it is not given.
    view : View, optional

    Returns
    -------
    str
        One file that loads nothing from anywhere.
    """
    return render_reports([judged or Judged(export.path, verify(export))], view)


def render_reports(judged: Sequence[Judged], view: View | None = None) -> str:
    """The report of several exports, one after the other on one page.

    Parameters
    ----------
    judged : sequence of Judged
    view : View, optional
    """
    models = [_model(number, model, view or View()) for number, model in enumerate(judged)]
    if view is not None and view.layer is not None:
        _require_layer(models, view.layer)
    drawn = [part for model in models for part in model.parts]
    first = next((part.key for part in drawn if part.first), drawn[0].key if drawn else "")
    return page(
        "report.html",
        scripts=_SCRIPTS,
        styles=("page.css", "report.css"),
        title=", ".join(model.name for model in models) or "irtools",
        models=models,
        kinds=KINDS,
        occurring={kind for part in drawn for kind in part.kinds},
        parts=[part.manifest for part in drawn],
        graphs={part.key: part.graph for part in drawn},
        start=_start(first, view or View()),
        written=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _require_layer(models: Sequence[_Model], layer: int) -> None:
    for model in models:
        part = model.inspection.part if model.inspection is not None else None
        count = len(part.drawn.blocks.layers) if part is not None and part.drawn.blocks is not None else 0
        if not 0 <= layer < count:
            there = f"0 to {count - 1}" if count else "none"
            raise UsageError(
                f"{part.document.path.name if part else model.path} has no layer {layer} (layers: {there})"
            )


def _start(part: str, view: View) -> dict[str, object]:
    return {"part": part, "op": view.op, "layer": view.layer}


# -- one export ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shown:
    """One finding on the page."""

    finding: Finding
    place: str
    part: str = ""
    position: int | None = None

    @property
    def severity(self) -> str:
        return str(self.finding.severity or Severity.ERROR)

    @property
    def hint(self) -> str:
        """What to do, as a sentence."""
        return self.finding.hint[:1].upper() + self.finding.hint[1:]


@dataclass(frozen=True)
class _Part:
    """One part whose graph is on the page."""

    key: str
    manifest: Mapping[str, object]
    graph: str
    kinds: frozenset[str]
    first: bool = False


@dataclass
class _Model:
    """Everything that the page says about one export."""

    number: int
    path: Path
    name: str = ""
    judged: Judged | None = None
    error: str = ""
    inspection: Inspection | None = None
    facts: list[tuple[str, str]] = field(default_factory=list)
    findings: list[_Shown] = field(default_factory=list)
    explanations: list[tuple[str, str, object]] = field(default_factory=list)
    tables: tuple[Table, ...] = ()
    provenance: tuple[Table, ...] = ()
    parts: list[_Part] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """How many findings of each severity."""
        return counts_text([self.judged.verification]) if self.judged and self.judged.verification else ""

    @property
    def worst(self) -> str:
        """The worst severity among the findings; ``ok`` without any."""
        found = [shown.finding.severity or Severity.ERROR for shown in self.findings]
        return str(max(found)) if found else "ok"


def _model(number: int, judged: Judged, view: View) -> _Model:
    model = _Model(number, judged.path, judged.path.resolve().name, judged, judged.error or "")
    verification = judged.verification
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
    worst_first = sorted(verification.findings, key=lambda finding: -(finding.severity or Severity.ERROR))
    model.findings = [_shown(finding, export, read) for finding in worst_first]
    used = {finding.code for finding in verification.findings}
    model.explanations = [
        (rule.code, rule.title, explanation_html(rule.explanation.removeprefix(f"{rule.title}.").strip()))
        for rule in verification.rules
        if rule.code in used
    ]
    chosen = model.inspection.part.name if model.inspection else next(iter(read), "")
    for part in parts:
        if part.name in read:
            model.parts.append(_drawn(model, part, read[part.name], first=part.name == chosen))
    return model


def _inspected(model: _Model, export: ModelDirectory, view: View) -> Sequence[PartFacts]:
    """Fill in what inspect shows; returns the parts to draw, also of an export that cannot be inspected."""
    try:
        found = model.inspection = Inspection(export, view.part, context=view.context, batch=view.batch)
    except IrtoolsError as error:
        model.refusals.append(str(error))
        return [PartFacts(document) for document in export.parts.values()]
    model.tables = tables(found)
    model.provenance = provenance(found)
    model.facts = list(_facts(found))
    return [part for part in found.parts if not part.error]


def _facts(found: Inspection) -> Iterator[tuple[str, str]]:
    """The summary: what a person asks first."""
    part, config = found.part, found.export.target_candidates
    try:
        kind = str(found.export.config.get("model_type") or "")
        declared = found.declared_mtp
    except IrtoolsError:
        kind, declared = "config.json cannot be read", None
    if kind:
        yield "Model type", kind
    if config:
        yield "Target", ", ".join(document.path.name for document in config)
    if part.drawn.blocks is not None:
        yield "Layers", str(len(part.drawn.blocks.layers))
        for layers in part.kinds:
            yield "", f"layer{'s' if len(layers.indices) > 1 else ''} {ranges(layers.indices)}: {layers.text}"
    elif part.refusal:
        yield "Layers", part.refusal
    if part.stack is not None:
        yield "Hidden size", str(part.stack.hidden_size)
    if found.draft.kind == "plain" and part is not found.mtp:
        yield "Annotation", found.annotation[1]
    said = "" if declared is None else f", {found.config_said}"
    yield "MTP head", f"{found.mtp_wiring if found.mtp else 'none'}{said}"
    weights = sum(term.bytes for term in found.footprint.terms if term.kind == "weights")
    yield "Weights", size_text(weights)
    yield "Memory at least", f"{size_text(found.footprint.total('f16'))} with keys and values in f16"


def _shown(finding: Finding, export: ModelDirectory, read: Mapping[str, Columns]) -> _Shown:
    """A finding, and the op in the picture that it is pinned to."""
    file = shown_path(finding.file, export.directory) if finding.file is not None else ""
    place = f"{file}, line {finding.line}" if finding.line is not None else file
    known = read.get(finding.part or "")
    inside = finding.file is None or finding.file.parent == export.directory
    if known is None or not inside:
        return _Shown(finding, "" if file == "." else place)
    return _Shown(finding, place, finding.part or "", _position(finding, known))


def _position(finding: Finding, known: Columns) -> int | None:
    """Position of the op that a finding names, else of the one that its line is in."""
    names = known.data["names"]
    top = len(known.position)
    if finding.op is not None and isinstance(names, list) and finding.op in names[:top]:
        places = [number for number in range(top) if names[number] == finding.op]
        return next((number for number in places if known.starts[number] == finding.line), places[0])
    if finding.line is None or not top or not known.starts[0] <= finding.line <= known.end:
        return None
    return bisect_right(known.starts, finding.line, 0, top) - 1


def _drawn(model: _Model, part: PartFacts, read: Columns, *, first: bool) -> _Part:
    key = f"m{model.number}-{part.name}"
    taps: list[tuple[int, int, int]] = []
    if part.stack is not None:
        taps = [
            (read.position[layer.source.op], layer.index, layer.locator.output_index) for layer in part.stack.layers
        ]
    pinned = [
        (shown.position, shown.severity, shown.finding.code, shown.finding.message, number)
        for number, shown in enumerate(model.findings)
        if shown.part == part.name and shown.position is not None
    ]
    drawn = outline(part.drawn, read)
    nodes = [node.plain() for node in drawn]
    manifest = {
        "key": key,
        "model": model.number,
        "export": model.name,
        "part": part.name,
        "file": part.document.path.name,
        "ops": len(part.document.graph),
    }
    graph = packed({"ops": read.data, "outline": nodes, "taps": taps, "findings": pinned})
    return _Part(key, manifest, graph, frozenset(node.kind or "op" for top in drawn for node in top.walk()), first)
