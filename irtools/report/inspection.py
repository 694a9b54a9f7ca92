"""What ``irtools inspect`` shows of an export, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from irtools.anatomy.blocks import LayerBlocks
from irtools.anatomy.describe import block_facts, block_title, symbolic
from irtools.anatomy.kinds import LayerKind, layer_kinds
from irtools.decoder import locate
from irtools.decoder.stack import DecoderStack
from irtools.errors import IrtoolsError
from irtools.ir.constants import iter_graphs, read_constants
from irtools.lint.draft import Draft, draft, layer_ids
from irtools.lint.engine import verify
from irtools.lint.model import Strategy
from irtools.model.compression import Compression, asked
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.footprint import KV_PRECISIONS, UNKNOWN, Footprint, footprint, states
from irtools.model.part import Input, Output, Part
from irtools.model.provenance import flat_rt_info, origin, versions
from irtools.model.weights import Weight, covered_bytes
from irtools.render.part import DrawnPart, shown_part
from irtools.surgery.annotate import annotation_status
from irtools.text import plural

__all__ = ["Inspection", "PartFacts", "WeightGroup"]

_DECLARED = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_layers")


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Weights of one kind in one precision.

    Attributes
    ----------
    kind, precision : str
    count : int
    elements, bytes : int
    """

    kind: str
    precision: str
    count: int
    elements: int
    bytes: int


class PartFacts:
    """One part of an export.

    Parameters
    ----------
    document : Document
    stack : DecoderStack or None
        Its decoder stack.
    refusal : str
        Why it has none.
    """

    def __init__(self, document: Document, stack: DecoderStack | None = None, refusal: str = "") -> None:
        self.document = document
        self.stack = stack
        self.refusal = refusal
        self.drawn = DrawnPart(document, stack)

    @property
    def name(self) -> str:
        """Name of the part."""
        return self.document.part

    @cached_property
    def ports(self) -> Part:
        """Its inputs and outputs."""
        return Part(self.document)

    @cached_property
    def error(self) -> str:
        """Why the file cannot be read; empty when it can."""
        try:
            _ = self.document.graph.topological
        except IrtoolsError as error:
            return str(error)
        return ""

    @cached_property
    def constant_bytes(self) -> int:
        """Bytes of the ``.bin`` that constants refer to, shared ones once."""
        return covered_bytes(read_constants(iter_graphs(self.document.scan)))

    @property
    def constants(self) -> int:
        """Constants among its ops, and what is computed from them alone, such as a decompressed weight."""
        return len(self.document.scan.ids) - len(self.document.graph)

    @property
    def file_bytes(self) -> tuple[int, int | None]:
        """Size of the ``.xml`` and of the ``.bin`` (None when it is missing)."""
        weights = self.document.weights_path
        return len(self.document.data), weights.stat().st_size if weights.is_file() else None

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """Its layers by structure."""
        return layer_kinds(self.drawn.blocks.layers) if self.drawn.blocks else ()

    @cached_property
    def groups(self) -> tuple[WeightGroup, ...]:
        """Its weights by kind and precision, the largest kind first; axes, shapes and flags last."""
        found: dict[tuple[str, str], list[Weight]] = {}
        for weight in self.drawn.weights:
            kind = weight.kind if weight.learned else "no weights (axes, shapes)"
            found.setdefault((kind, weight.precision if weight.learned else ""), []).append(weight)
        groups = [
            WeightGroup(kind, precision, len(some), sum(w.elements for w in some), sum(w.size for w in some))
            for (kind, precision), some in found.items()
        ]
        totals: Counter[str] = Counter()
        for group in groups:
            totals[group.kind] += group.bytes
        return tuple(sorted(groups, key=lambda g: (not g.precision, -totals[g.kind], g.kind, -g.bytes)))

    @cached_property
    def compression(self) -> Compression:
        """What compression was asked for, and what the matrices are."""
        return Compression(self.document, read_constants(iter_graphs(self.document.scan)))


class Inspection:
    """Facts about an export; each is worked out once.

    Parameters
    ----------
    export : ModelDirectory
    part : str
        The part that ports, states, layers and rt_info are shown of.
    context, batch : int
        For the memory footprint.
    """

    def __init__(self, export: ModelDirectory, part: str = "target", *, context: int = 4096, batch: int = 1) -> None:
        self.export = export
        self.context = context
        self.batch = batch
        self._document = shown_part(export, part)
        _ = self._document.graph  # unreadable: say so before anything else

    @cached_property
    def parts(self) -> tuple[PartFacts, ...]:
        """All parts; the inspected one is among them."""
        documents = {document.path: document for document in (*self.export.parts.values(), self._document)}
        targets = {document.path for document in self.export.target_candidates}
        return tuple(
            self.part
            if document.path == self._document.path
            else self._located(document)
            if document.path in targets
            else PartFacts(document)
            for document in documents.values()
        )

    @cached_property
    def part(self) -> PartFacts:
        """The inspected part."""
        return self._located(self._document)

    def _located(self, document: Document) -> PartFacts:
        try:
            return PartFacts(document, locate(document, config=self.export.config))
        except IrtoolsError as error:
            return PartFacts(document, None, str(error.args[0]))

    @cached_property
    def footprint(self) -> Footprint:
        """The memory footprint; the target of a draft's directory is the draft."""
        found = footprint(self.export, context=self.context, batch=self.batch)
        if self.draft.kind == "plain" or not self.is_target:
            return found
        terms = tuple(replace(term, name=term.name.replace("target ", "draft ")) for term in found.terms)
        return replace(found, terms=terms)

    @property
    def is_target(self) -> bool:
        """Whether the inspected part is the target, or could be."""
        return any(self._document.path == document.path for document in self.export.target_candidates)

    @property
    def config_said(self) -> str:
        """What config.json says of MTP layers."""
        if self.declared_mtp is not None:
            return f"config.json declares {plural(self.declared_mtp, 'layer')}"
        there = (self.export.directory / "config.json").exists()
        return "config.json says nothing" if there else "there is no config.json"

    @cached_property
    def strategies(self) -> tuple[Strategy, ...]:
        """Ways of decoding, as ``irtools verify`` judges them; empty when it cannot."""
        try:
            return verify(self.export).strategies
        except IrtoolsError:
            return ()

    @property
    def declared_mtp(self) -> int | None:
        """MTP layers that config.json declares, None when it says nothing."""
        nested = [value for value in self.export.config.values() if isinstance(value, Mapping)]
        for section in (self.export.config, *nested):
            for key in _DECLARED:
                if isinstance(section.get(key), int):
                    return int(section[key])
        return None

    @cached_property
    def mtp(self) -> PartFacts | None:
        """The MTP head."""
        head = self.export.mtp
        return next((part for part in self.parts if head is not None and part.document.path == head.path), None)

    @property
    def mtp_wiring(self) -> str:
        """How the MTP head is wired, or what about it is not understood."""
        if self.mtp is None:
            return ""
        if self.mtp.error:
            return self.mtp.error
        head = self.mtp.drawn.head
        if head is None:
            return "no output last_hidden_state computed from the fused inputs"
        layers = len(head.blocks.layers)
        fusion = head.fusion
        view = self.mtp.drawn.view
        order = [view.op(fusion.ops[role]).outputs[0].names[:1] for role in ("first", "second")] if fusion else []
        joined = " + ".join(name for names in order for name in names)
        start = f"Concat({joined.replace(' + ', ', ')})" if joined else "no fusion found"
        return f"{start} -> {layers} layer{'s' if layers != 1 else ''} -> last_hidden_state"

    @cached_property
    def draft(self) -> Draft:
        """What kind of draft the inspected part is."""
        return draft(self.part.ports)

    @cached_property
    def annotation(self) -> tuple[str, str]:
        """What the annotation of the inspected part is worth: status and sentence."""
        return annotation_status(self.part.document, self.part.stack)

    # -- for programs ------------------------------------------------------------------

    def details(self) -> dict[str, object]:
        """Everything, for ``--format json``."""
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
            "mtp": self._mtp(),
            "draft": _draft(self.draft),
            "strategies": [asdict(strategy) for strategy in self.strategies],
            "footprint": _footprint(self.footprint),
            "rt_info": {other.name: _rt_info(other) for other in self.parts if not other.error},
        }

    def _mtp(self) -> dict[str, object]:
        return {
            "present": self.mtp is not None,
            "declared_layers": self.declared_mtp,
            "wiring": self.mtp_wiring or None,
        }


def _part(part: PartFacts) -> dict[str, object]:
    if part.error:
        return {"name": part.name, "file": part.document.path.name, "error": part.error}
    xml, weights = part.file_bytes
    request = asked(part.document)
    return {
        "name": part.name,
        "file": part.document.path.name,
        "error": None,
        "xml_bytes": xml,
        "bin_bytes": weights,
        "constant_bytes": part.constant_bytes,
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


def _port(port: Input | Output) -> dict[str, object]:
    return {
        "name": port.label,
        "tensor_names": list(port.names),
        "friendly_name": port.friendly,
        "element_type": port.element_type,
        "shape": list(port.shape),
        "symbolic": symbolic(port.shape, port.label),
    }


def _stack(part: PartFacts) -> dict[str, object] | None:
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
            {"layer": layer.index, "producer": layer.locator.producer, "output_index": layer.locator.output_index}
            for layer in (stack.layers if stack else ())
        ],
    }


def _layer(part: PartFacts, layer: LayerBlocks) -> list[dict[str, object]]:
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


def _draft(found: Draft) -> dict[str, object] | None:
    if found.kind == "plain":
        return None
    layers = layer_ids(found.target_layer_ids) if found.target_layer_ids is not None else None
    reads: Sequence[int] = layers if layers is not None else found.eagle3_layers
    return {"kind": found.kind, "target_layers": list(reads), "mask_token_id": found.mask_token_id}


def _rt_info(part: PartFacts) -> dict[str, object]:
    return {key: {"value": value, "origin": origin(key)} for key, value in flat_rt_info(part.document).items()}


def _footprint(found: Footprint) -> dict[str, object]:
    return {
        "context": found.context,
        "batch": found.batch,
        "terms": [
            {**asdict(term), "by_precision": {name: term.size(name) for name in KV_PRECISIONS}} for term in found.terms
        ],
        "total": {name: found.total(name) for name in KV_PRECISIONS},
        "unread": list(found.unread),
        "unknown": list(UNKNOWN),
    }
