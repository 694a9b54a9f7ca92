"""One part of an export as it is drawn: its graph, blocks and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from irtools.anatomy.blocks import StackBlocks, head_blocks, stack_blocks
from irtools.decoder.stack import DecoderStack
from irtools.graph.match import Match, Matcher
from irtools.graph.view import GraphView, Source
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.weights import Weight, weights
from irtools.text import size_text

__all__ = ["WEIGHT_KINDS", "DrawnPart", "shown_part", "weight_line"]

WEIGHT_KINDS = {
    "full_attention": "attention",
    "sliding_attention": "attention",
    "cross_attention": "attention",
    "linear_attention": "linear attention",
    "convolution": "convolution",
    "state_space": "state space",
    "unknown": "token mixer",
    "dense": "MLP",
    "router": "experts",
    "experts": "experts",
    "shared_expert": "experts",
    "norm": "norm",
}
"""What the weights of a block are for, by its kind."""


def shown_part(export: ModelDirectory, name: str) -> Document:
    """A part to show: the one of that name, and for the target of an export without one its decoder or largest IR.

    Parameters
    ----------
    export : ModelDirectory
    name : str
        As :meth:`ModelDirectory.part` takes it.

    Raises
    ------
    ExportError
        There is no such part, no IR at all, or several could be the target.
    """
    if name != "target" or export.target_candidates or not export.parts:
        return export.part(name)
    return max(export.parts.values(), key=_interest)


def _interest(document: Document) -> tuple[bool, bool, int]:
    try:
        size = document.path.stat().st_size
    except OSError:
        size = 0
    return document.part == "decoder", "tokenizer" not in document.part, size


def weight_line(*layers: Collection[Weight]) -> str:
    """Size and precision of some weights: ``weights 27.0 KiB u4 + f32``.

    Types that make up less than a twentieth are not named.

    Parameters
    ----------
    *layers : collection of Weight
        Those of each of some equal layers; the size is that of one.
    """
    sizes = [sum(weight.size for weight in layer if weight.learned) for layer in layers]
    total = sum(sizes)
    if not total:
        return ""
    by_type: Counter[str] = Counter()
    for weight in (weight for layer in layers for weight in layer if weight.learned):
        by_type[weight.constant.element_type] += weight.size
    types = sorted((kind for kind in by_type if by_type[kind] * 20 >= total), key=lambda kind: (-by_type[kind], kind))
    limit = "up to " if min(sizes) < max(sizes) else ""
    return f"weights {limit}{size_text(max(sizes))} {' + '.join(types)}"


@dataclass(frozen=True)
class Head:
    """An MTP head: what joins its inputs, and its blocks.

    Attributes
    ----------
    fusion : Match or None
        The Concat and its projection.
    blocks : StackBlocks
    end : Source
        Its output.
    """

    fusion: Match | None
    blocks: StackBlocks
    end: Source


class DrawnPart:
    """What pictures and tables need to know about one IR; each is worked out once.

    Parameters
    ----------
    document : Document
    stack : DecoderStack or None
        Its decoder stack, if it has one.
    """

    def __init__(self, document: Document, stack: DecoderStack | None = None) -> None:
        self.document = document
        self.stack = stack

    @property
    def view(self) -> GraphView:
        """Its graph."""
        return self.document.graph

    @cached_property
    def blocks(self) -> StackBlocks | None:
        """Its layers as blocks, None when there is no decoder stack and no head."""
        if self.stack is not None:
            return stack_blocks(self.view, self.stack)
        return self.head.blocks if self.head else None

    @cached_property
    def head(self) -> Head | None:
        """The part as an MTP head: fusion, layers and an output that is no logits."""
        view = self.view
        results = [result for result in view.results if view.inputs(result)]
        named = [result for result in results if "last_hidden_state" in view.result_names(result)]
        if not named:
            return None
        end = view.inputs(named[0])[0]
        fusion = self._fusion
        roots = [fusion.ops["projection"]] if fusion else [key for key in view.parameters if self._embeds(key)]
        if not roots:
            return None
        blocks = head_blocks(view, roots, end)
        return Head(fusion, blocks, end) if blocks.layers else None

    @cached_property
    def _fusion(self) -> Match | None:
        matcher = Matcher(self.view)
        found = (matcher.at("mtp_fusion", key)[0] for key in self.view.by_type.get("Concat", ()))
        return next((match for match in found if match), None)

    def _embeds(self, key: int) -> bool:
        return "inputs_embeds" in self.view.op(key).outputs[0].names

    @cached_property
    def kinds(self) -> Mapping[int, str]:
        """What each op is part of, by layer id, in the words of the weights table."""
        if self.stack is not None:
            found = {self.stack.embedding: "embedding", self.stack.head: "head"}
        else:
            matcher = Matcher(self.view)
            gathers = self.view.by_type.get("Gather", ())
            found = {key: "embedding" for key in gathers if matcher.at("embedding", key)[0]}
        if self.blocks is not None:
            if self.stack is None:
                found |= dict.fromkeys(self._before_layers(self.blocks), "fusion")
            for layer in (*self.blocks.layers, self.blocks.closing):
                for block in layer.blocks:
                    if block.kind in WEIGHT_KINDS:
                        found |= dict.fromkeys(block.ops, WEIGHT_KINDS[block.kind])
        return found

    def _before_layers(self, blocks: StackBlocks) -> set[int]:
        """What a head does with its inputs before they reach the layers."""
        view = self.view
        inputs = [
            key for key in view.parameters if {"hidden_states", "inputs_embeds"} & set(view.op(key).outputs[0].names)
        ]
        stop = {op for layer in (*blocks.layers, blocks.closing) for block in layer.blocks for op in block.ops}
        found: set[int] = set()
        while inputs:
            for key in view.succ[inputs.pop()]:
                if key not in stop and key not in found:
                    found.add(key)
                    inputs.append(key)
        return found

    @cached_property
    def weights(self) -> tuple[Weight, ...]:
        """The weights table."""
        return weights(self.view, self.kinds)

    @cached_property
    def _by_consumer(self) -> Mapping[int, tuple[Weight, ...]]:
        found: dict[int, list[Weight]] = {}
        for weight in self.weights:
            owner = weight.owner
            for consumer in weight.consumers if owner is None else (owner,):
                found.setdefault(consumer, []).append(weight)
        return {consumer: tuple(weights) for consumer, weights in found.items()}

    def weights_of(self, ops: Iterable[int]) -> tuple[Weight, ...]:
        """The weights that some ops read, each once."""
        found = {(weight.body, weight.constant.id): weight for op in ops for weight in self._by_consumer.get(op, ())}
        return tuple(found[key] for key in sorted(found))
