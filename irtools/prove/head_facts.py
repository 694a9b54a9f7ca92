"""What the graphs say about a target and its MTP head, for the step that runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from irtools.anatomy.blocks import LayerBlocks, head_blocks, stack_blocks
from irtools.decoder.head import Head as Projection
from irtools.decoder.stack import DecoderStack
from irtools.decoder.stream import Stream, ancestors
from irtools.decoder.stretch import Stretch, stretches
from irtools.decoder.walk import walk
from irtools.graph.view import GraphView, Source
from irtools.lint.mtp import Head, MtpProfile, Port, nearest
from irtools.model.part import Part
from irtools.model.values import norm_input, rotary_frequencies
from irtools.registry import collect

__all__ = ["ATTENTION", "FEED_FORWARD", "HeadFacts"]

ATTENTION, FEED_FORWARD = "attention", "feed-forward"


@dataclass(frozen=True)
class HeadFacts:
    """A target and its head.

    Attributes
    ----------
    target, head : Part
    projection : Projection
        The target's output projection.
    model_type : str
        Of config.json.
    stack : DecoderStack or None
        The target's layers, if they were located.
    """

    target: Part
    head: Part
    projection: Projection
    model_type: str = ""
    stack: DecoderStack | None = None

    @property
    def width(self) -> int:
        """Of the value that the output projection reads."""
        return self.projection.shape[-1] if self.projection.shape else -1

    @cached_property
    def likeness(self) -> Head | None:
        """The head with the profile that is nearest to it."""
        return nearest(self.head, collect(MtpProfile), self.model_type, self.width)

    @property
    def missing(self) -> list[Port]:
        """Ports of the profile that are needed and not there by tensor name."""
        profile = self.likeness.profile if self.likeness is not None else None
        if profile is None:
            return []
        return [
            *(port for port in profile.inputs if port.needed and self.head.input(port.name) is None),
            *(port for port in profile.outputs if port.needed and self.head.output(port.name) is None),
        ]

    @property
    def widths(self) -> dict[str, int]:
        """Widths of the ports that must be as wide as what the output projection reads."""
        inputs = [self.head.input(name) for name in ("hidden_states", "inputs_embeds")]
        ports = [*inputs, self.head.output("last_hidden_state")]
        return {port.label: port.shape[-1] for port in ports if port is not None and port.shape}

    @property
    def normed(self) -> bool:
        """Whether the head gives out what a norm yields."""
        output = self.head.output("last_hidden_state")
        return output is not None and norm_input(self.head.graph, output.source) is not None

    @cached_property
    def blocks(self) -> dict[str, tuple[str, int]]:
        """Its attention and its feed-forward block: the sum that each adds to, and as which input of it.

        Only for a head of one layer, in which each is there once.
        """
        found = [block for piece in self._pieces for block in _blocks(self.head.graph, piece)]
        kinds = [kind for kind, _, _ in found]
        return {kind: (name, index) for kind, name, index in found} if len(set(kinds)) == len(kinds) else {}

    def unlike_target(self) -> list[str] | None:
        """What the head's layer is made of and no layer of the target is, in words; None if it cannot be told."""
        fusion = self.likeness.fusion if self.likeness is not None else None
        output = self.head.output("last_hidden_state")
        if self.stack is None or fusion is None or output is None:
            return None
        ours = head_blocks(self.head.graph, [fusion.projection], output.source).layers
        theirs = stack_blocks(self.target.graph, self.stack).layers
        wanted = {layer.signature for layer in theirs}
        return [_unlike(layer, theirs) for layer in ours if layer.signature not in wanted]

    @cached_property
    def layers(self) -> int:
        """How many of its residual sums add attention."""
        return sum(piece.mixes for piece in self._pieces)

    @cached_property
    def _pieces(self) -> tuple[Stretch, ...]:
        fusion = self.likeness.fusion if self.likeness is not None else None
        output = self.head.output("last_hidden_state")
        if fusion is None or output is None:
            return ()
        view = self.head.graph
        stream = Stream(view, [fusion.projection], output.source, ancestors(view, output.source.op))
        return stretches(stream, walk(stream))

    def request(self) -> dict[str, Any]:
        """What the worker needs to know, as JSON."""
        view, projection = self.target.graph, self.projection
        before = norm_input(view, projection.input)
        return {
            "hidden": _named(view, projection.input),
            "before": _named(view, before) if before is not None else None,
            "projection": [view.op_name(projection.op), view.inputs(projection.op).index(projection.input)],
            "branches": [[kind, name, index] for kind, (name, index) in self.blocks.items()],
            "frequencies": {
                "target": [_named(view, source) for source in sorted(rotary_frequencies(self.target))],
                "mtp": [_named(self.head.graph, source) for source in sorted(rotary_frequencies(self.head))],
            },
        }


def _named(view: GraphView, source: Source) -> list[Any]:
    return [view.op_name(source.op), view.output_index(source)]


def _unlike(layer: LayerBlocks, theirs: Sequence[LayerBlocks]) -> str:
    """How a layer differs from those that have the same blocks, or that its blocks are others."""
    kinds = [block.kind for block in layer.blocks]
    alike = [other for other in theirs if [block.kind for block in other.blocks] == kinds]
    if not alike:
        return f"these blocks: {', '.join(kinds)}"
    # The first part of a signature describes each block.
    ours, own = (next(iter(found.signature)) for found in (layer, alike[-1]))
    assert isinstance(ours, tuple)
    assert isinstance(own, tuple)
    odd = [kind for kind, one, other in zip(kinds, ours, own, strict=True) if one != other]
    return f"such a {odd[0]} block" if odd else "its blocks connected like this"


def _blocks(view: GraphView, piece: Stretch) -> Iterator[tuple[str, str, int]]:
    """Kind of each branch of a residual sum, the Add that reads it, and as which input."""
    mixing = piece.mixing_branch[0] if piece.mixing_branch is not None else 0 if piece.states else -1
    for position, branch in enumerate(piece.sum.branches):
        for reader in (piece.sum.op, *piece.sum.inner):
            if branch in (producers := view.producers(reader)):
                kind = ATTENTION if position == mixing else FEED_FORWARD
                yield kind, view.op_name(reader), producers.index(branch)
                break
