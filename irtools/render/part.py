"""Graph, blocks and weights of one part of an export, for pictures and tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from irtools.anatomy.blocks import Block, StackBlocks, head_blocks, piece_blocks, stack_blocks
from irtools.anatomy.dims import Dims
from irtools.anatomy.roles import Role, attention_roles, state_ops
from irtools.decoder.mixers import MIXERS
from irtools.decoder.stack import DecoderStack
from irtools.decoder.stream import ancestors
from irtools.errors import IrtoolsError
from irtools.graph.closure import closure
from irtools.graph.match import Match, Matcher
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant, read_constant
from irtools.ir.op import FLOATS
from irtools.ir.pread import Allowance, WeightsReader
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.graft import Graft, find_graft
from irtools.model.integers import GraphIntegers
from irtools.model.own_head import OwnHead, find_own_head
from irtools.model.part import PartFacts
from irtools.model.ports import is_past
from irtools.model.weights import Weight, weights
from irtools.text import size_text

__all__ = ["DRAFT_HEAD", "DrawnHead", "DrawnPart", "shown_part", "weight_line"]

DRAFT_HEAD = "draft head"
"""Purpose of the weights of a draft head in a target. They are bytes of lm_head, and no further ones."""
_MOST_ENDS = 6
"""Inputs and outputs between which layers are searched in a part without a decoder stack."""
_READ_AT_MOST = 4 << 20
"""Bytes of the ``.bin`` that are read for axes and target shapes."""
_WEIGHT_KINDS = {
    **{kind: mixer.weights for kind, mixer in MIXERS.items()},
    "dense": "MLP",
    "router": "experts",
    "experts": "experts",
    "shared_expert": "experts",
    "norm": "norm",
}
"""Purpose of the weights of a block, by block kind."""


def shown_part(export: ModelDirectory, name: str) -> Document:
    """Find the part to show; for ``target`` in an export without one, the decoder or the largest IR.

    Raises
    ------
    ExportError
        The export has no such part, has no IR, or has several candidates for the target.
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
    """Size and precisions of weights, for example ``weights 27.0 KiB u4 + f32``.

    Types that hold less than 5 % of the bytes are omitted. Of several equal layers, the size is that of one.
    """
    return _line(
        *([(weight.constant.element_type, weight.size) for weight in layer if weight.learned] for layer in layers)
    )


def _line(*layers: Collection[tuple[str, int]]) -> str:
    """The line for learned weights, of which element type and bytes are given."""
    sizes = [sum([size for _, size in layer]) for layer in layers]
    total = sum(sizes)
    if not total:
        return ""
    by_type: dict[str, int] = {}
    for kind, size in chain.from_iterable(layers):
        by_type[kind] = by_type.get(kind, 0) + size
    types = sorted((kind for kind in by_type if by_type[kind] * 20 >= total), key=lambda kind: (-by_type[kind], kind))
    limit = "up to " if min(sizes) < max(sizes) else ""
    return f"weights {limit}{size_text(max(sizes))} {' + '.join(types)}"


@dataclass(frozen=True)
class DrawnHead:
    """An MTP head, or another part with layers.

    Attributes
    ----------
    fusion : Match or None
        The Concat that joins the inputs, and its projection.
    end : Source
        The output of the head.
    inputs : tuple of int
        Model inputs that enter the layers.
    name : str
        Name of the output.
    tail : tuple of int
        The lm_head and the ops below it, if the output is logits.
    """

    fusion: Match | None
    blocks: StackBlocks
    end: Source
    inputs: tuple[int, ...]
    name: str = "last_hidden_state"
    tail: tuple[int, ...] = ()


class _Constants(Mapping[int, Constant]):
    """Constants of a graph by layer id, each read when it is needed."""

    def __init__(self, view: GraphView) -> None:
        self._view = view

    def __getitem__(self, key: int) -> Constant:
        constant = read_constant(self._view.scan, self._view.index[key])
        if constant is None:
            raise KeyError(key)
        return constant

    def __iter__(self) -> Iterator[int]:
        return (key for kind in ("Const", "Constant") for key in self._view.by_type.get(kind, ()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class DrawnPart:
    """Cached facts about one IR.

    Parameters
    ----------
    any_layers : bool
        Without a decoder stack and an MTP head, find layers anywhere: those of a vision part, or of a piece.
    """

    def __init__(self, document: Document, stack: DecoderStack | None = None, *, any_layers: bool = False) -> None:
        self.document = document
        self.stack = stack
        self._any_layers = any_layers

    @property
    def view(self) -> GraphView:
        """Shorthand for ``document.graph``."""
        return self.document.graph

    @cached_property
    def blocks(self) -> StackBlocks | None:
        """The layers as blocks; None without a decoder stack or head."""
        if self.stack is not None:
            return stack_blocks(self.view, self.stack)
        return self.head.blocks if self.head else None

    @cached_property
    def head(self) -> DrawnHead | None:
        """The part as an MTP head: fusion, layers, and a hidden state as output."""
        view = self.view
        named = [result for result in view.results if "last_hidden_state" in view.result_names(result)]
        end = view.inputs(named[0])[0] if named else None
        fusion = self._fusion if named else None
        roots = [fusion.ops["projection"]] if fusion else self._inputs("inputs_embeds")
        if end is not None and roots:
            blocks = head_blocks(view, roots, end)
            if blocks.layers:
                return DrawnHead(fusion, blocks, end, tuple(self._inputs("hidden_states", "inputs_embeds")))
        return self._layered() if self._any_layers and self.stack is None else None

    def _layered(self) -> DrawnHead | None:
        """The part from the input to the output between which most blocks lie."""
        view, best, most = self.view, None, 0
        for result in view.results[:_MOST_ENDS]:
            end, tail = self._above_logits(result)
            above = ancestors(view, end.op) if end.op in view else set()  # not a constant
            name = ", ".join(view.result_names(result)[:1]) or view.op_name(result)
            for blocks, inputs in self._ways(above, end):
                named = sum(block.match is not None for layer in blocks.layers for block in layer.blocks)
                if named > most:
                    best, most = DrawnHead(None, blocks, end, inputs, name, tail), named
        return best

    def _above_logits(self, result: int) -> tuple[Source, tuple[int, ...]]:
        """The value that the lm_head of an output reads, and the ops from there; of other outputs, the value."""
        view = self.view
        match = Matcher(view).at("logits_tail", result)[0] if "logits" in view.result_names(result) else None
        if match is None:
            return view.inputs(result)[0], ()
        head = match.ops["head"]
        read = [source for source in view.inputs(head) if not view.constant(source.op)]
        return read[0], (head, *match.tail)

    def _ways(self, above: set[int], end: Source) -> Iterator[tuple[StackBlocks, tuple[int, ...]]]:
        """Layers from each input to a value, and those of a piece that begins inside a layer, with the inputs above."""
        view = self.view
        for root in [key for key in view.parameters if key in above][:_MOST_ENDS]:
            with suppress(IrtoolsError):  # too tangled to be layers
                yield head_blocks(view, [root], end, inner=True), (root,)
        roots = [key for key in (*view.parameters, *self._embeddings) if key in above and self._activation(key)]
        with suppress(IrtoolsError):
            piece = piece_blocks(view, roots, end) if roots else None
            if piece is not None:
                yield piece, self._entering(piece)

    @cached_property
    def _embeddings(self) -> tuple[int, ...]:
        """The Gather ops that look up embeddings."""
        matcher, gathers = Matcher(self.view), self.view.by_type.get("Gather", ())
        return tuple(key for key in gathers if matcher.at("embedding", key)[0])

    def _activation(self, op: int) -> bool:
        """True for an input or embedding with values for each token; a cached value is none."""
        port = self.view.output(op)
        return port.element_type in FLOATS and len(port.shape) > 1 and not any(map(is_past, port.names))

    def _entering(self, piece: StackBlocks) -> tuple[int, ...]:
        """The input above the first block of a piece."""
        above = ancestors(self.view, piece.layers[0].entry)
        return tuple([key for key in self.view.parameters if key in above][:1])

    @cached_property
    def _fusion(self) -> Match | None:
        matcher = Matcher(self.view)
        matches = (matcher.at("mtp_fusion", key)[0] for key in self.view.by_type.get("Concat", ()))
        return next((match for match in matches if match), None)

    @cached_property
    def graft(self) -> Graft | None:
        """The draft head that is grafted onto the part, if it is a target."""
        return find_graft(self.view)

    @cached_property
    def own_head(self) -> OwnHead | None:
        """The projection that computes the logits of the part, if it is a draft."""
        return find_own_head(PartFacts(self.document))

    @cached_property
    def dims(self) -> Dims:
        """Shapes of single values, with letters for batch and tokens."""
        view, blocks = self.view, self.blocks
        reader = WeightsReader(self.document.weights_path, Allowance(_READ_AT_MOST))
        integers = GraphIntegers(view, _Constants(view), reader)
        if blocks is None:
            return Dims(view, frozenset(), frozenset(), 0, integers)
        width = self.stack.hidden_size if self.stack else next(reversed(view.shape(blocks.stream.end)), 0)
        # Only sums and what enters a layer are [batch, tokens, width]: experts also have values of that rank and width.
        layers = (*blocks.layers, blocks.closing)
        sums = {op for layer in layers for block in layer.blocks if block.kind == "sum" for op in block.ops}
        stream = sums.union(layer.entry for layer in layers if layer.entry is not None)
        stream.update(op for op in view.parameters if op in blocks.stream.ops)
        return Dims(view, stream, blocks.stream.ops, width, integers)

    def roles(self, block: Block) -> tuple[Role, ...]:
        """The ops of an attention block by purpose, with those that read and write its states."""
        mixer = MIXERS.get(block.kind)
        if self.blocks is None or mixer is None or not mixer.attends:
            return ()
        beside = state_ops(self.view, block, block.ops, self.blocks.stream.ops)
        return attention_roles(self.view, block, self.blocks.stream.ops.__contains__, beside)

    def _inputs(self, *names: str) -> list[int]:
        """Model inputs with one of the tensor names."""
        return [key for key in self.view.parameters if not set(names).isdisjoint(self.view.op(key).outputs[0].names)]

    @cached_property
    def kinds(self) -> Mapping[int, str]:
        """Kind of each op for the weights table, by layer id."""
        if self.stack is not None:
            kinds = {self.stack.embedding: "embedding", self.stack.head: "head"}
            kinds |= {self.graft.matmul: DRAFT_HEAD} if self.graft else {}
        else:
            kinds = dict.fromkeys(self._embeddings, "embedding")
            kinds |= {self.own_head.matmul: "head"} if self.own_head else {}
        if self.blocks is not None:
            if self.stack is None:
                kinds |= dict.fromkeys(self._before_layers(self.blocks), "fusion")
            for layer in (*self.blocks.layers, self.blocks.closing):
                for block in layer.blocks:
                    if block.kind in _WEIGHT_KINDS:
                        kinds |= dict.fromkeys(block.ops, _WEIGHT_KINDS[block.kind])
        return kinds

    def _before_layers(self, blocks: StackBlocks) -> set[int]:
        """Ops of a head between its inputs and its layers."""
        inputs = self._inputs("hidden_states", "inputs_embeds")
        stop = {op for layer in (*blocks.layers, blocks.closing) for block in layer.blocks for op in block.ops}
        return closure(inputs, lambda key: [user for user in self.view.succ[key] if user not in stop]) - {*inputs}

    @cached_property
    def weights(self) -> tuple[Weight, ...]:
        """The weights table."""
        return weights(self.view, self.kinds)

    @cached_property
    def _read_by(self) -> Mapping[int, list[int]]:
        """Positions in ``weights`` of those that an op reads, by layer id."""
        read: dict[int, list[int]] = {}
        for number, weight in enumerate(self.weights):
            for consumer in weight.consumers if weight.owner is None else (weight.owner,):
                read.setdefault(consumer, []).append(number)
        return read

    @cached_property
    def _learned(self) -> Sequence[tuple[str, int] | None]:
        """Element type and bytes of each of the ``weights``; None for what is not learned."""
        return [(weight.constant.element_type, weight.size) if weight.learned else None for weight in self.weights]

    def weights_of(self, ops: Iterable[int]) -> tuple[Weight, ...]:
        """The weights that the ops read, without duplicates."""
        numbers = {number for op in ops for number in self._read_by.get(op, ())}
        read = [self.weights[number] for number in numbers]
        return tuple(sorted(read, key=lambda weight: (weight.body, weight.constant.id)))

    def weight_line(self, *layers: Iterable[int]) -> str:
        """The line of :func:`weight_line` for the weights that ops read, without collecting these."""
        read, learned = self._read_by, self._learned
        numbers = ({number for op in ops if op in read for number in read[op]} for ops in layers)
        return _line(*([one for number in some if (one := learned[number])] for some in numbers))
