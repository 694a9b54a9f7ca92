"""Facts from the graphs of a target and its MTP head for the step ``head``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from irtools.anatomy.blocks import LayerBlocks, head_blocks, stack_blocks
from irtools.decoder.head import LmHead
from irtools.decoder.stack import DecoderStack
from irtools.decoder.stream import Stream, ancestors
from irtools.decoder.sublayer import Sublayer, find_sublayers
from irtools.decoder.walk import walk
from irtools.graph.view import GraphView, Source
from irtools.model.compression import Compression
from irtools.model.graft import find_graft
from irtools.model.mtp import MtpHead, MtpProfile, ProfilePort, nearest_profile
from irtools.model.part import PartFacts
from irtools.model.values import norm_input, rotary_frequencies
from irtools.prove.head_matrices import HeadMatrix, layer_matrices, named_product, place, unique
from irtools.registry import collect

__all__ = ["ATTENTION", "FEED_FORWARD", "HeadFacts"]

_REFERENCES = 2
"""Number of target layers whose matrices those of the head are compared with."""

ATTENTION, FEED_FORWARD = "attention", "feed-forward"


@dataclass(frozen=True)
class HeadFacts:
    """A target and its MTP head.

    Attributes
    ----------
    projection : LmHead
        The target's lm_head.
    model_type : str
        From config.json.
    stack : DecoderStack or None
        The target's decoder stack, if it was located.
    """

    target: PartFacts
    head: PartFacts
    projection: LmHead
    model_type: str = ""
    stack: DecoderStack | None = None

    @property
    def width(self) -> int:
        """Width of the target's hidden states."""
        return self.projection.shape[-1] if self.projection.shape else -1

    @cached_property
    def likeness(self) -> MtpHead | None:
        """The MTP head and its nearest profile."""
        return nearest_profile(self.head, collect(MtpProfile), self.model_type, self.width)

    @property
    def missing(self) -> list[ProfilePort]:
        """Required ports of the profile that the head does not have by tensor name."""
        if self.likeness is None:
            return []
        profile = self.likeness.profile
        return [
            *(port for port in profile.inputs if port.needed and self.head.input(port.name) is None),
            *(port for port in profile.outputs if port.needed and self.head.output(port.name) is None),
        ]

    @property
    def widths(self) -> dict[str, int]:
        """Widths of the ports that must be as wide as the target's hidden states."""
        inputs = [self.head.input(name) for name in ("hidden_states", "inputs_embeds")]
        ports = [*inputs, self.head.output("last_hidden_state")]
        return {port.label: port.shape[-1] for port in ports if port is not None and port.shape}

    @property
    def normed(self) -> bool:
        """True if the output of the head is the output of a norm."""
        output = self.head.output("last_hidden_state")
        return output is not None and norm_input(self.head.graph, output.source) is not None

    @cached_property
    def blocks(self) -> dict[str, tuple[str, int]]:
        """Residual sum and its input index for the attention and the feed-forward block.

        Empty unless each kind occurs once, as in a head of one layer.
        """
        blocks = [block for sublayer in self._sublayers for block in _blocks(self.head.graph, sublayer)]
        by_kind = {kind: (name, index) for kind, name, index in blocks}
        return by_kind if len(by_kind) == len(blocks) else {}

    def unlike_target(self) -> list[str] | None:
        """Structures of the head's layers that no layer of the target has, in words; None if unknown."""
        if self._layers is None:
            return None
        ours, theirs = self._layers
        wanted = {layer.signature for layer in theirs}
        return [_unlike(layer, theirs) for layer in ours if layer.signature not in wanted]

    @cached_property
    def _layers(self) -> tuple[Sequence[LayerBlocks], Sequence[LayerBlocks]] | None:
        """Layers of the head and of the target; None if they could not be divided into blocks."""
        if self.stack is None or self._ends is None:
            return None
        start, end = self._ends
        ours = head_blocks(self.head.graph, [start], end).layers
        return ours, stack_blocks(self.target.graph, self.stack).layers

    @cached_property
    def matrices(self) -> tuple[HeadMatrix, ...]:
        """The fusion, if it has one product, and the matrices of the head's layers."""
        graph, found = self.head.graph, [self.fusion] if self.fusion is not None else []
        ours, theirs = self._layers or ((), ())
        for layer in ours:
            alike = [other for other in theirs if other.signature == layer.signature]
            found += layer_matrices(graph, layer, self.target.graph, alike[-_REFERENCES:])
        return tuple(found)

    @cached_property
    def layers(self) -> int:
        """Number of residual sums that add attention."""
        return sum(sublayer.mixes for sublayer in self._sublayers)

    @property
    def _ends(self) -> tuple[int, Source] | None:
        """Fusion projection and output of the head; None if one of them was not found."""
        fusion = self.likeness.fusion if self.likeness is not None else None
        output = self.head.output("last_hidden_state")
        return (fusion.projection, output.source) if fusion is not None and output is not None else None

    @cached_property
    def _sublayers(self) -> tuple[Sublayer, ...]:
        if self._ends is None:
            return ()
        start, end = self._ends
        stream = Stream(self.head.graph, [start], end, ancestors(self.head.graph, end.op))
        return find_sublayers(stream, walk(stream))

    @cached_property
    def norms(self) -> tuple[tuple[int, int], ...]:
        """Layer id and input index of each product with the weights of a norm, in graph order, of live ops only."""
        graph = self.head.graph
        found = []
        for op in sorted(self.head.live_ops("Multiply"), key=graph.rank.__getitem__):
            scales = [source for source in graph.inputs(op) if graph.constant(source.op)]
            width = graph.output_shape(op)[-1:]
            weights = len(scales) == 1 and graph.shape(scales[0])[-1:] == width != (1,)
            if weights and unique(graph, op) and self._unscaled_norm(op):
                found.append((op, graph.inputs(op).index(scales[0])))
        return tuple(found)

    def _unscaled_norm(self, op: int) -> bool:
        moving = [source for source in self.head.graph.inputs(op) if not self.head.graph.constant(source.op)]
        return len(moving) == 1 and norm_input(self.head.graph, moving[0]) is not None

    @property
    def fusion_norms(self) -> list[int]:
        """Positions in ``norms`` of those of the embeddings and the hidden state; empty if not both were found."""
        fusion = self.likeness.fusion if self.likeness is not None else None
        ops = [op for op, _ in self.norms]
        operands = [source.op for source in self.head.graph.inputs(fusion.concat)] if fusion is not None else []
        return [ops.index(op) for op in operands] if operands and set(operands) <= set(ops) else []

    @cached_property
    def fusion(self) -> HeadMatrix | None:
        """The weights of the fusion; None if they were not found."""
        return named_product(self.head.graph, self._ends[0]) if self._ends is not None else None

    @cached_property
    def types(self) -> dict[str, str]:
        """Element type of most values of the matrices of ``target`` and ``head``."""
        parts = {"target": self.target.document, "head": self.head.document}
        return {name: Compression.of(document).main_type for name, document in parts.items()}

    def request(self) -> dict[str, Any]:
        """Request for the worker, as JSON."""
        view, projection = self.target.graph, self.projection
        before = norm_input(view, projection.input)
        graft = find_graft(view)
        return {
            "hidden": _named(view, projection.input),
            "before": _named(view, before) if before is not None else None,
            "projection": [view.op_name(graft.matmul), 0]
            if graft is not None and graft.first and graft.matmul is not None
            else [view.op_name(projection.op), view.inputs(projection.op).index(projection.input)],
            "branches": [[kind, name, index] for kind, (name, index) in self.blocks.items()],
            "norms": [place(self.head.graph, op, index) for op, index in self.norms],
            "fusion norms": self.fusion_norms,
            "fusion": self.fusion.place if self.fusion is not None else None,
            "matrices": {
                "mtp": [matrix.place for matrix in self.matrices],
                "target": [other for matrix in self.matrices for other in matrix.counterparts],
            },
            "frequencies": {
                "target": [_named(view, source) for source in sorted(rotary_frequencies(self.target))],
                "mtp": [_named(self.head.graph, source) for source in sorted(rotary_frequencies(self.head))],
            },
        }


def _named(view: GraphView, source: Source) -> list[Any]:
    return [view.op_name(source.op), view.output_index(source)]


def _unlike(layer: LayerBlocks, theirs: Sequence[LayerBlocks]) -> str:
    """First difference of a layer from target layers with the same kinds of blocks, or its kinds of blocks."""
    kinds = [block.kind for block in layer.blocks]
    alike = [other for other in theirs if [block.kind for block in other.blocks] == kinds]
    if not alike:
        return f"these blocks: {', '.join(kinds)}"
    pairs = zip(layer.signature.blocks, alike[-1].signature.blocks, strict=True)
    odd = [kind for kind, (one, other) in zip(kinds, pairs, strict=True) if one != other]
    return f"the same {odd[0]} block" if odd else "the same connections between its blocks"


def _blocks(view: GraphView, sublayer: Sublayer) -> Iterator[tuple[str, str, int]]:
    """Kind of each branch of a residual sum, the Add that reads it, and the input index."""
    for position, branch in enumerate(sublayer.sum.branches):
        for reader in (sublayer.sum.op, *sublayer.sum.inner):
            if branch in (producers := view.producers(reader)):
                kind = ATTENTION if position == sublayer.mixing_index else FEED_FORWARD
                yield kind, view.op_name(reader), producers.index(branch)
                break
