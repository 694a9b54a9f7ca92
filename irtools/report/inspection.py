"""Facts about an export for ``irtools inspect`` and the HTML report."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from irtools.anatomy.blocks import LayerBlocks
from irtools.anatomy.describe import block_facts, block_title, symbolic
from irtools.anatomy.kinds import LayerKind, layer_kinds
from irtools.decoder import locate
from irtools.decoder.stack import DecoderStack
from irtools.display import Tabular
from irtools.errors import IrtoolsError, OptionError
from irtools.ir.constants import iter_graphs, read_constants
from irtools.lint.engine import Verification, VerifyOptions, verify
from irtools.lint.finding import Strategy
from irtools.lint.pipelines import Pipeline
from irtools.model.compression import Compression, recorded_request
from irtools.model.config import declared_mtp
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.draft import Draft, draft
from irtools.model.footprint import ASSISTANT_TOKENS, KV_PRECISIONS, UNKNOWN, Footprint, footprint, states
from irtools.model.graft import draft_head_text
from irtools.model.part import ModelInput, ModelOutput, PartFacts
from irtools.model.provenance import flat_rt_info, origin, versions
from irtools.model.weights import Weight, covered_bytes
from irtools.render.part import DrawnPart, shown_part
from irtools.report.memory import memory_columns
from irtools.report.snippet import BEST, snippet_text
from irtools.surgery.annotate import annotation_status
from irtools.text import plural, short_repr

__all__ = ["InspectedPart", "Inspection", "WeightGroup"]


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Weights of one kind in one precision."""

    kind: str
    precision: str
    count: int
    elements: int
    bytes: int


class InspectedPart:
    """One part of an export, with its decoder stack or the reason for having none."""

    def __init__(self, document: Document, stack: DecoderStack | None = None, refusal: str = "") -> None:
        self.document = document
        self.stack = stack
        self.refusal = refusal
        self.drawn = DrawnPart(document, stack)

    def __repr__(self) -> str:
        located = plural(len(self.stack.layers), "layer") if self.stack is not None else self.refusal
        return short_repr(self, self.name, str(self.document.path), located)

    @property
    def name(self) -> str:
        """Name of the part."""
        return self.document.part

    @cached_property
    def ports(self) -> PartFacts:
        """Inputs and outputs."""
        return PartFacts(self.document)

    @cached_property
    def error(self) -> str:
        """Reason why the file cannot be read; empty if it can."""
        try:
            _ = self.document.graph
        except IrtoolsError as error:
            return str(error)
        return ""

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of the ``.bin`` that constants refer to; shared bytes count once."""
        return covered_bytes(read_constants(iter_graphs(self.document.scan)))

    @cached_property
    def parameters(self) -> int:
        """Number of learned values; those that several constants share count once."""
        learned = {(w.constant.offset, w.constant.size): w.elements for w in self.drawn.weights if w.learned}
        return sum(learned.values())

    @property
    def constants(self) -> int:
        """Number of constants and of ops computed only from constants, such as a decompressed weight."""
        return len(self.document.scan.ids) - len(self.document.graph)

    @property
    def file_bytes(self) -> tuple[int, int | None]:
        """Size of the ``.xml`` and of the ``.bin`` (None if the file is missing)."""
        weights = self.document.weights_path
        return len(self.document.data), weights.stat().st_size if weights.is_file() else None

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """Layers grouped by structure."""
        return layer_kinds(self.drawn.blocks.layers) if self.drawn.blocks else ()

    @cached_property
    def groups(self) -> tuple[WeightGroup, ...]:
        """Weights by kind and precision, the largest kind first; axes, shapes and flags last."""
        weights: dict[tuple[str, str], list[Weight]] = {}
        for weight in self.drawn.weights:
            kind = weight.kind if weight.learned else "no weights (axes, shapes)"
            weights.setdefault((kind, weight.precision if weight.learned else ""), []).append(weight)
        groups = [
            WeightGroup(kind, precision, len(some), sum(w.elements for w in some), sum(w.size for w in some))
            for (kind, precision), some in weights.items()
        ]
        totals: Counter[str] = Counter()
        for group in groups:
            totals[group.kind] += group.bytes
        return tuple(sorted(groups, key=lambda g: (not g.precision, -totals[g.kind], g.kind, -g.bytes)))

    @cached_property
    def compression(self) -> Compression:
        """Requested compression and the precision of the matrices."""
        return Compression.of(self.document)

    @property
    def requested_compression(self) -> str:
        """Compression settings of the rt_info: ``int4_asym, groups of 64, ratio 1``; empty if there are none."""
        request = recorded_request(self.document)
        if request is None:
            return ""
        groups = f", groups of {request.group_size}" if request.group_size > 0 else ""
        return f"{request.mode}{groups}, ratio {request.ratio:g}{', all layers' if request.all_layers else ''}"


class Inspection(Tabular):
    """Facts about an export; each is computed once.

    Parameters
    ----------
    part : str
        Part whose ports, states, layers and rt_info are shown.
    context : int or None
        Tokens in the state, for the memory footprint; by default 4096, or what the model takes.
    batch : int
        Number of sequences.
    draft : Path or None
        Directory of a draft with which the decoding strategies are judged, and whose memory is counted.
    assistant_tokens : int
        Tokens drafted per pass, for the memory footprint.
    kv_precision : tuple of two str or None
        The only precisions of keys and of values to show; by default several.
    budget : int or None
        Bytes for which the largest context is shown.
    """

    def __init__(
        self,
        export: ModelDirectory,
        part: str = "target",
        *,
        context: int | None = None,
        batch: int = 1,
        draft: Path | None = None,
        assistant_tokens: int = ASSISTANT_TOKENS,
        kv_precision: tuple[str, str] | None = None,
        budget: int | None = None,
    ) -> None:
        self.export = export
        self.draft_directory = draft
        self.context = context
        self.batch = batch
        self.assistant_tokens = assistant_tokens
        self.kv_precision = kv_precision
        self.budget = budget
        self._document = shown_part(export, part)
        _ = self._document.graph  # an unreadable part must fail here, before any other fact is computed

    def __repr__(self) -> str:
        return short_repr(self, str(self.export.path), f"part {self._document.part}")

    @cached_property
    def parts(self) -> tuple[InspectedPart, ...]:
        """All parts, including the inspected one."""
        documents = {document.path: document for document in (*self.export.parts.values(), self._document)}
        targets = {document.path for document in self.export.target_candidates}
        return tuple(
            self.part
            if document.path == self._document.path
            else self._located(document)
            if document.path in targets
            else InspectedPart(document)
            for document in documents.values()
        )

    @property
    def models(self) -> list[InspectedPart]:
        """Readable parts, without the tokenizers."""
        return [part for part in self.parts if not part.error and "tokenizer" not in part.name]

    @cached_property
    def part(self) -> InspectedPart:
        """The inspected part."""
        return self._located(self._document)

    def _located(self, document: Document) -> InspectedPart:
        try:
            return InspectedPart(document, locate(document, config=self.export.config))
        except IrtoolsError as error:
            return InspectedPart(document, None, str(error.args[0]))

    @cached_property
    def _opened_draft(self) -> ModelDirectory | None:
        return ModelDirectory.open(self.draft_directory) if self.draft_directory is not None else None

    @cached_property
    def footprint(self) -> Footprint:
        """Memory footprint; in a directory with a draft, the terms of the target are named after the draft."""
        memory = footprint(
            self.export,
            context=self.context,
            batch=self.batch,
            draft=self._opened_draft,
            assistant_tokens=self.assistant_tokens,
        )
        if self.draft.kind == "plain" or not self.is_target:
            return memory
        terms = tuple(replace(term, name=term.name.replace("target ", "draft ")) for term in memory.terms)
        return replace(memory, terms=terms)

    @property
    def is_target(self) -> bool:
        """True if the inspected part is a candidate for the target."""
        return any(self._document.path == document.path for document in self.export.target_candidates)

    @property
    def declared_text(self) -> str:
        """Clause about the MTP layers that config.json declares."""
        if self.declared_mtp is not None:
            return f"config.json declares {plural(self.declared_mtp, 'layer')}"
        there = (self.export.directory / "config.json").exists()
        return "config.json declares none" if there else "there is no config.json"

    @cached_property
    def _verification(self) -> Verification | None:
        try:
            return verify(self.export, VerifyOptions(draft=self.draft_directory), shared=True)
        except OptionError:
            raise
        except IrtoolsError:
            return None

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Decoding strategies, as judged by ``irtools verify``; empty if the export cannot be verified."""
        return self._verification.strategies if self._verification is not None else ()

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """Pipeline classes of GenAI, those that fit first; empty if the export cannot be verified."""
        return self._verification.pipelines if self._verification is not None else ()

    def snippet(self, strategy: str = BEST, *, prompt: str | None = None) -> str:
        """Write a Python script that generates with a decoding strategy in GenAI.

        Parameters
        ----------
        strategy : str
            Name of a decoding strategy, or ``best``: the one of the draft if there is one, else ``mtp`` if it is
            available, else ``plain``.
        prompt : str, optional
            Prompt of the script.

        Raises
        ------
        ExportError
            The strategy is not available, or no pipeline class of GenAI fits the export.
        UsageError
            The strategy needs a draft.
        """
        return snippet_text(
            self.export, self._opened_draft, self.strategies, self.pipelines, wanted=strategy, prompt=prompt
        )

    @property
    def declared_mtp(self) -> int | None:
        """Number of MTP layers that config.json declares; None if it declares none."""
        declared = declared_mtp(self.export.config)
        return declared.count if declared is not None else None

    @cached_property
    def mtp(self) -> InspectedPart | None:
        """MTP head, if there is one."""
        head = self.export.mtp
        return next((part for part in self.parts if head is not None and part.document.path == head.path), None)

    @property
    def mtp_wiring(self) -> str:
        """Wiring of the MTP head, or the reason why it is not recognised."""
        if self.mtp is None:
            return ""
        if self.mtp.error:
            return self.mtp.error
        head = self.mtp.drawn.head
        if head is None:
            return "no output last_hidden_state computed from the fused inputs"
        view = self.mtp.drawn.view
        fused = [view.op(head.fusion.ops[role]) for role in ("first", "second")] if head.fusion else []
        names = [name for op in fused for name in op.outputs[0].names[:1]]
        start = f"Concat({', '.join(names)})" if names else "no fusion found"
        return f"{start} -> {plural(len(head.blocks.layers), 'layer')} -> last_hidden_state"

    @cached_property
    def draft_head(self) -> str:
        """Phrase about the draft head that irtools added; ``""`` without one."""
        graphs = {part.document.path: part.document.graph for part in self.parts if not part.error}
        targets, mtp = self.export.target_candidates, self.export.mtp
        target = graphs.get(targets[0].path) if len(targets) == 1 else None
        return draft_head_text(target, graphs.get(mtp.path) if mtp is not None else None)

    @cached_property
    def draft(self) -> Draft:
        """The inspected part as a draft."""
        return draft(self.part.ports)

    @cached_property
    def annotation(self) -> tuple[str, str]:
        """Status of the inspected part's annotation, and the status as a sentence."""
        return annotation_status(self.part.document, self.part.stack)

    # -- JSON --------------------------------------------------------------------------

    def details(self) -> dict[str, object]:
        """All facts, for ``--format json``."""
        part = self.part
        return {
            "directory": str(self.export.directory),
            "model_type": self.export.config.get("model_type"),
            "part": part.name,
            "parts": [_part(other) for other in self.parts],
            "inputs": [_port(port) for port in part.ports.inputs],
            "outputs": [_port(port) for port in part.ports.outputs],
            "states": [
                {**asdict(state), "symbolic": symbolic(state.shape, state=True), "grows": state.grows}
                for state in states(part.document)
            ],
            "stack": _stack(part),
            "annotation": {"status": self.annotation[0], "text": self.annotation[1]},
            "mtp": {
                "present": self.mtp is not None,
                "declared_layers": self.declared_mtp,
                "wiring": self.mtp_wiring or None,
                "draft_head": self.draft_head or None,
            },
            "draft": _draft(self.draft),
            "strategies": [asdict(strategy) for strategy in self.strategies],
            "pipelines": [asdict(pipeline) for pipeline in self.pipelines],
            "footprint": _footprint(self),
            "rt_info": {other.name: _rt_info(other) for other in self.parts if not other.error},
        }


def _part(part: InspectedPart) -> dict[str, object]:
    if part.error:
        return {"name": part.name, "file": part.document.path.name, "error": part.error}
    xml, weights = part.file_bytes
    request = recorded_request(part.document)
    return {
        "name": part.name,
        "file": part.document.path.name,
        "error": None,
        "xml_bytes": xml,
        "bin_bytes": weights,
        "constant_bytes": part.constant_bytes,
        "parameters": part.parameters,
        "ops": len(part.document.scan.ids),
        "op_types": dict(sorted(Counter(part.document.scan.types).items())),
        "versions": dict(versions(part.document)),
        "compression": {
            "asked": asdict(request) if request else None,
            "compressed_share": round(part.compression.share, 6),
        },
        "weights": [asdict(group) for group in part.groups],
        "constants": [_weight(weight) for weight in part.drawn.weights],
    }


def _weight(weight: Weight) -> dict[str, object]:
    return {
        "name": weight.constant.name,
        "kind": weight.kind,
        "precision": weight.precision,
        "shape": list(weight.shape),
        "body": weight.body or None,
        "bytes": weight.size,
        "parts": {
            role: {
                "id": constant.id,
                "element_type": constant.element_type,
                "shape": list(constant.shape),
                "offset": constant.offset,
                "size": constant.size,
            }
            for role, constant in (
                ("values", weight.constant),
                ("scale", weight.scale),
                ("zero_point", weight.zero_point),
            )
            if constant is not None
        },
    }


def _port(port: ModelInput | ModelOutput) -> dict[str, object]:
    return {
        "name": port.label,
        "tensor_names": list(port.names),
        "friendly_name": port.friendly,
        "element_type": port.element_type,
        "shape": list(port.shape),
        "symbolic": symbolic(port.shape, port.label),
    }


def _stack(part: InspectedPart) -> dict[str, object] | None:
    blocks = part.drawn.blocks
    if blocks is None:
        return {"error": part.refusal} if part.refusal else None
    stack = part.stack
    return {
        "layers": len(blocks.layers),
        "hidden_size": stack.hidden_size if stack else None,
        "scope": stack.scope if stack else None,
        "kinds": [{"text": kind.text, "layers": list(kind.indices)} for kind in part.kinds],
        "blocks": [_layer(part, layer) for layer in blocks.layers],
        "taps": [
            {
                "layer": layer.index,
                "producer": layer.locator.producer,
                "output_index": layer.locator.output_index,
                "obstacle": layer.obstacle,
            }
            for layer in (stack.layers if stack else ())
        ],
    }


def _layer(part: InspectedPart, layer: LayerBlocks) -> list[dict[str, object]]:
    view = part.drawn.view
    return [
        {
            "kind": block.kind,
            "title": block_title(view, block),
            "facts": list(block_facts(view, block)),
            "ops": len(block.ops),
            "weight_bytes": sum(weight.size for weight in part.drawn.weights_of(block.ops)),
            "states": [state.name for state in block.states],
        }
        for block in layer.blocks
    ]


def _draft(facts: Draft) -> dict[str, object] | None:
    if facts.kind == "plain":
        return None
    layers = facts.layers or []
    return {"kind": facts.kind, "target_layers": layers, "mask_token_id": facts.mask_token_id}


def _rt_info(part: InspectedPart) -> dict[str, object]:
    return {key: {"value": value, "origin": origin(key)} for key, value in flat_rt_info(part.document).items()}


def _footprint(inspection: Inspection) -> dict[str, object]:
    memory = inspection.footprint
    return {
        "context": memory.context,
        "batch": memory.batch,
        "draft": memory.draft or None,
        "assistant_tokens": inspection.assistant_tokens if memory.draft else None,
        "terms": [
            {**asdict(term), "by_precision": {name: term.size(name) for name in KV_PRECISIONS}} for term in memory.terms
        ],
        "total": {name: memory.total(name) for name in KV_PRECISIONS},
        "plain": {name: memory.total(name, drafting=False) for name in KV_PRECISIONS},
        "precisions": [
            {
                "key": column.key,
                "value": column.value,
                "asked": column.asked,
                "totals": [asdict(total) for total in column.totals],
            }
            for column in memory_columns(memory, inspection.kv_precision, inspection.budget)
        ],
        "budget": inspection.budget,
        "context_limit": memory.limit,
        "notes": list(memory.notes),
        "unread": list(memory.unread),
        "unknown": list(UNKNOWN),
    }
