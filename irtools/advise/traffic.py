"""Bytes of weights that one pass of the target, and one drafted token, read; from the XML alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from irtools.anatomy.describe import expert_choice
from irtools.decoder import locate
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView
from irtools.ir.constants import byte_size
from irtools.model.directory import ModelDirectory
from irtools.model.graft import find_graft, graft_ops
from irtools.model.weights import Weight
from irtools.render.part import DrawnPart
from irtools.surgery.graft.writer import head_constants, lm_head

__all__ = ["HeadBytes", "PartBytes", "Traffic", "traffic"]


@dataclass(frozen=True, slots=True)
class HeadBytes:
    """Size of lm_head.

    Attributes
    ----------
    vocabulary : int
        Rows.
    rows : tuple of (str, int)
        Element type and number of elements per row of each constant with one row per token: values, scales and zero
        points.
    """

    vocabulary: int
    rows: tuple[tuple[str, int], ...]

    def of(self, tokens: int) -> int:
        """Bytes of the first ``tokens`` rows."""
        return sum(byte_size(kind, width * tokens) or 0 for kind, width in self.rows)


@dataclass(frozen=True, slots=True)
class PartBytes:
    """Bytes of weights of one part, without lm_head.

    Attributes
    ----------
    dense : int
        Weights that every token reads, and one row of each embedding table.
    experts : int
        Weights of all experts.
    active : int
        Weights of the experts that one token is routed to. A pass over several tokens reads more of them, up to
        ``experts``.
    layers : int
        Decoder layers; 0 if unknown.
    """

    dense: int
    experts: int = 0
    active: int = 0
    layers: int = 0

    @property
    def read(self) -> int:
        """Bytes that a pass over one token reads."""
        return self.dense + self.active


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that decoding with an MTP head reads.

    Attributes
    ----------
    target, draft : PartBytes
        Target and MTP head, without lm_head.
    present : int
        Tokens that the draft covers now: fewer than the vocabulary if the target has a draft head.
    """

    head: HeadBytes
    target: PartBytes
    draft: PartBytes
    present: int

    @property
    def per_pass(self) -> int:
        """Bytes that a pass of the target over one token reads."""
        return self.target.read + self.head.of(self.head.vocabulary)

    def per_draft(self, tokens: int) -> int:
        """Bytes that a drafted token reads with a draft head over ``tokens`` tokens."""
        return self.draft.read + self.head.of(tokens)

    def saved(self, tokens: int) -> int:
        """Bytes that the runtime's copy of lm_head in the draft needs less than the copy of all rows."""
        return self.head.of(self.head.vocabulary) - self.head.of(tokens)


def traffic(export: ModelDirectory) -> Traffic:
    """Add up the bytes of target and MTP head.

    Weights that only a Gather reads count as one row. In a mixture of experts, one token reads the weights of the
    experts that the router selects.

    Raises
    ------
    EditError
        The weights of lm_head have a form whose rows cannot be chosen.
    LocateRefusedError
        There are no logits that one MatMul with constant weights computes.
    """
    target = export.target
    head, _ = lm_head(target.graph)
    constants = head_constants(target.graph, head)
    rows = tuple((one.element_type, one.elements // head.vocabulary) for one in constants.values())
    grafted = {*graft_ops(target.graph)}
    graft = find_graft(target.graph)
    try:
        stack = locate(target, config=export.config)
    except LocateRefusedError:
        stack = None
    skipped = {*constants, *grafted}
    draft = export.mtp
    assert draft is not None, "the caller requires an MTP head"
    return Traffic(
        HeadBytes(head.vocabulary, rows),
        _part(DrawnPart(target, stack), skipped),
        _part(DrawnPart(draft), set()),
        graft.rows if graft is not None and graft.first and graft.rows > 0 else head.vocabulary,
    )


def _part(part: DrawnPart, skipped: Collection[int]) -> PartBytes:
    """Bytes of a part without the constants ``skipped``."""
    layers = part.blocks.layers if part.blocks is not None else ()
    experts = active = 0.0
    routed: set[tuple[str, int]] = set()
    for layer in layers:
        chosen = next((choice for block in layer.blocks if (choice := expert_choice(part.view, block))), None)
        for block in layer.blocks:
            if block.kind != "experts":
                continue
            for weight in part.weights_of(block.ops):
                if (weight.body, weight.constant.id) not in routed and weight.learned:
                    routed.add((weight.body, weight.constant.id))
                    experts += weight.size
                    active += weight.size * (min(1.0, chosen[0] / chosen[1]) if chosen else 1.0)
    dense = sum(_read(part.view, weights) for weights in _others(part, routed, skipped))
    return PartBytes(dense, round(experts), round(active), len(layers))


def _others(part: DrawnPart, routed: Collection[tuple[str, int]], skipped: Collection[int]) -> Iterator[Weight]:
    for weight in part.weights:
        key = (weight.body, weight.constant.id)
        if weight.learned and key not in routed and (weight.body or weight.constant.id not in skipped):
            yield weight


def _read(graph: GraphView, weight: Weight) -> int:
    """Bytes of a weight that a pass over one token reads: of an embedding table one row."""
    tables = not weight.body and {graph.op_type(user) for user in weight.consumers} == {"Gather"}
    return weight.size // weight.shape[0] if tables and len(weight.shape) > 1 and weight.shape[0] > 0 else weight.size
