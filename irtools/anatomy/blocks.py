"""Decoder layers as blocks that patterns name (norms, token mixer, feed-forward, sums), and their wiring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from irtools.anatomy.outside import Outside, OutsideReader
from irtools.anatomy.split import Block, Splitter
from irtools.decoder.mixers import MIXERS
from irtools.decoder.stack import DecoderStack
from irtools.decoder.stream import Stream, Sum, ancestors
from irtools.decoder.sublayer import Sublayer, find_sublayers
from irtools.decoder.walk import walk
from irtools.graph.view import GraphView, Source
from irtools.ir.op import op_types

__all__ = ["Block", "LayerBlocks", "Link", "StackBlocks", "head_blocks", "piece_blocks", "stack_blocks"]

# Data movement and plain arithmetic do not distinguish kinds of layers: compilers drop a product with ones or a sum
# with zeros.
_UNDISTINCTIVE = op_types(
    "Add Broadcast Concat Convert Divide Gather Multiply Negative Pad Power Reshape Select ShapeOf Slice Split Sqrt "
    "Squeeze StridedSlice Subtract Tile Transpose Unsqueeze VariadicSplit"
)


class Signature(NamedTuple):
    """Structure of a layer; equal for layers of equal structure.

    Attributes
    ----------
    blocks : tuple
        Kind and structure of each block.
    links : tuple
        ``(tail, head)`` of the links between blocks.
    outside : tuple
        Reading block and kind of each value from outside the layer.
    """

    blocks: tuple[tuple[str, tuple[object, ...]], ...]
    links: tuple[tuple[int, int], ...]
    outside: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A value that goes from one block of a layer to another.

    Attributes
    ----------
    tail, head : int
        Positions in ``LayerBlocks.blocks``; a tail of -1 is the value that enters the layer.
    """

    tail: int
    head: int
    source: Source


@dataclass(frozen=True, slots=True)
class LayerBlocks:
    """One decoder layer as blocks.

    Attributes
    ----------
    entry : int
        Layer id of the op whose value enters the layer.
    blocks : tuple of Block
        In the order of computation.
    outside : tuple of Outside
        Values that blocks read but the layer does not compute from its input.
    signature : Signature
        Equal for layers of equal structure.
    """

    index: int
    entry: int
    blocks: tuple[Block, ...]
    links: tuple[Link, ...]
    outside: tuple[Outside, ...]
    signature: Signature = field(repr=False)


@dataclass(frozen=True, slots=True)
class StackBlocks:
    """A decoder stack or an MTP head as blocks.

    Attributes
    ----------
    closing : LayerBlocks
        The blocks after the last residual sum: the final norm.
    reader : OutsideReader
        Says what a value is that a layer reads but does not compute.
    """

    layers: tuple[LayerBlocks, ...]
    closing: LayerBlocks
    stream: Stream = field(repr=False)
    reader: OutsideReader = field(repr=False)

    def norms_within(self, block: Block) -> tuple[Block, ...]:
        """Norms inside a block, such as those of queries and keys."""
        return tuple(Splitter(self.stream).norms_within(block.ops))


def stack_blocks(view: GraphView, stack: DecoderStack) -> StackBlocks:
    """Split a located decoder stack into blocks."""
    stream, found = stack.stream, stack.sublayers
    if stream.view is not view or stream.roots != {stack.embedding}:
        stream = Stream(view, (stack.embedding,), stack.head_input, ancestors(view, stack.head_input.op))
        ops = [op for layer in stack.layers for op in layer.sums if op in stream.ops]
        found = find_sublayers(stream, [stream.residual(op) or _bare(stream, op) for op in ops])
    sublayers = {sublayer.sum.op: sublayer for sublayer in found}
    groups = [[sublayers[op] for op in layer.sums if op in sublayers] for layer in stack.layers]
    entries = [stack.stream_start, *(layer.source.op for layer in stack.layers[:-1])]
    ends = [*entries[1:], stack.last_sum]
    return _Wiring(stream, groups).build(entries, ends)


def head_blocks(view: GraphView, roots: Iterable[int], end: Source, *, inner: bool = False) -> StackBlocks:
    """Split an MTP head or another part into blocks, from the ops where its residual stream starts to its output.

    Without a residual sum there are no layers.

    Parameters
    ----------
    inner : bool
        The layers begin at the first residual sum; what lies between the roots and the value that it adds to, such as
        the embedding of patches, is no layer.
    """
    stream = Stream(view, roots, end, ancestors(view, end.op))
    sublayers = find_sublayers(stream, walk(stream))
    groups = _grouped(sublayers)
    start = sublayers[0].sum.skip if inner and sublayers else min(stream.roots)
    ends = [group[-1].sum.op for group in groups]
    return _Wiring(stream, groups).build([start, *ends][: len(ends)], ends)


def piece_blocks(view: GraphView, roots: Iterable[int], end: Source) -> StackBlocks | None:
    """Split a piece that begins inside a layer, or that has no residual sum, into blocks.

    What lies before the first residual sum whose skip is in the piece is part of the first layer, or a layer of its
    own. None if it is no part of a layer, such as the embedding of patches.
    """
    stream = Stream(view, roots, end, ancestors(view, end.op))
    sublayers = find_sublayers(stream, walk(stream))
    groups = _grouped(sublayers)
    ends = [group[-1].sum.op for group in groups]
    start = sublayers[0].sum.skip if sublayers else end.op
    opening = Splitter(stream).opening(start) if start in stream.ops else []
    named = {block.kind for block in opening if block.match is not None or block.kind == "sum"} - {"convolution"}
    if not named or (groups and "sum" not in named and not any(MIXERS[kind].attends for kind in named & MIXERS.keys())):
        return None
    entry = next(
        (op for block in opening for key in block.ops for op in stream.sources[key] if op in stream.roots),
        min(stream.roots),
    )
    return _Wiring(stream, groups).build([start, *ends][: len(ends)], ends, (entry, opening))


def _grouped(sublayers: Iterable[Sublayer]) -> list[list[Sublayer]]:
    """Sublayers by layer: each layer has one token mixer."""
    groups: list[list[Sublayer]] = []
    for sublayer in sublayers:
        if not groups or (sublayer.mixes and any(earlier.mixes for earlier in groups[-1])):
            groups.append([])
        groups[-1].append(sublayer)
    return groups


def _bare(stream: Stream, op: int) -> Sum:
    """A residual sum that ``Stream.residual`` rejects: the earlier operand is the skip."""
    first, *rest = sorted(stream.sources[op], key=stream.rank.__getitem__)
    return Sum(op, first, tuple(rest))


def _mixes(blocks: Iterable[Block]) -> bool:
    return any(block.kind in MIXERS for block in blocks)


def _kinds(blocks: Iterable[Block]) -> list[str]:
    return [block.kind for block in blocks]


class _Wiring:
    """Finds the links between the blocks of one stream, and the values that they read from outside."""

    def __init__(self, stream: Stream, groups: Sequence[Sequence[Sublayer]]) -> None:
        self.stream = stream
        self.groups = groups
        self.view = stream.view
        self.layer_of: dict[int, int] = {}
        self.states = {state.op for group in groups for sublayer in group for state in sublayer.states}
        self.outside = OutsideReader(stream, self.states, self.layer_of)

    def build(
        self, entries: Sequence[int], ends: Sequence[int], opening: tuple[int, Sequence[Block]] | None = None
    ) -> StackBlocks:
        """Blocks of all layers; an ``opening`` is what enters the first blocks, and these blocks."""
        splitter, groups = Splitter(self.stream), self.groups
        split = [splitter.layer(group, entry, end) for group, entry, end in zip(groups, entries, ends, strict=True)]
        last = ends[-1] if ends else min(self.stream.roots) if opening is None else self.stream.end.op
        if opening is not None:
            entry, blocks = opening
            joined = bool(split) and not (_mixes(blocks) and _mixes(split[0]))
            split[: int(joined)] = [[*blocks, *split[0]] if joined else [*blocks]]
            entries = [entry, *entries[int(joined) :]]
        closing = splitter.closing(last)
        self.states |= {state.op for blocks in (*split, closing) for block in blocks for state in block.states}
        if len(split) > 1 and closing and _kinds([*split[-1], closing[0]]) == _kinds(split[-2]):
            # The norm after the last sum of each layer, not a final norm.
            split[-1].append(closing.pop(0))
            last = max(split[-1][-1].ops, key=self.stream.rank.__getitem__)
        for index, blocks in enumerate(split):
            self.layer_of |= {op: index for block in blocks for op in block.ops}
        layers = tuple(
            self._wired(index, entry, blocks) for index, (entry, blocks) in enumerate(zip(entries, split, strict=True))
        )
        return StackBlocks(layers, self._wired(len(layers), last, closing), self.stream, self.outside)

    def _wired(self, index: int, entry: int, blocks: Sequence[Block]) -> LayerBlocks:
        owner = {op: position for position, block in enumerate(blocks) for op in block.ops}
        links: dict[Link, None] = {}
        outside: dict[Outside, None] = {}
        wires, constant, rank = self.view.wires, self.view.constant, self.stream.rank.__getitem__
        for head, block in enumerate(blocks):
            for op in sorted(block.ops, key=rank):
                for wire in wires(op):
                    tail = owner.get(wire[0], -1)
                    if tail == head or constant(wire[0]):
                        continue
                    source = Source(*wire)
                    if source.op in owner or source.op == entry:
                        links[Link(tail, head, source)] = None
                    elif (value := self.outside.read(head, source)) is not None:
                        outside[value] = None
        return LayerBlocks(
            index, entry, tuple(blocks), tuple(links), tuple(outside), self._signature(blocks, links, outside)
        )

    def _signature(self, blocks: Sequence[Block], links: Iterable[Link], outside: Iterable[Outside]) -> Signature:
        return Signature(
            tuple((block.kind, self._shape_of(block)) for block in blocks),
            tuple(sorted({(link.tail, link.head) for link in links})),
            tuple(sorted({(value.head, value.kind) for value in outside})),
        )

    def _shape_of(self, block: Block) -> tuple[object, ...]:
        """The structure of a block, independent of names, constants and precision."""
        if block.kind in ("norm", "sum"):
            return (block.match.kind,) if block.match else ()
        view, counts = self.view, dict[tuple[object, ...], int]()
        for op in block.ops:
            kind = view.op_type(op)
            if kind in _UNDISTINCTIVE and block.kind != "op":
                continue
            sources = [source for source in view.wires(op) if view.constant(source[0])]
            shapes = [shape for source in sources if len(shape := view.shape(source)) > 1]
            key = kind, tuple(sorted(shapes))
            counts[key] = counts.get(key, 0) + 1
        states = tuple(sorted(view.output_shape(state.op) for state in block.states))
        return (block.match.kind if block.match else "", frozenset(counts.items()), states)
