"""Split the sublayers of a decoder layer into the blocks that pattern rules name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from irtools.decoder.mixers import MIXERS
from irtools.decoder.stream import PASSES_ON, Stream
from irtools.decoder.sublayer import StreamState, Sublayer, find_states
from irtools.graph.closure import closure
from irtools.graph.match import Match, Matcher

__all__ = ["Block", "Splitter"]

_AFFINE = ("Multiply", "Add", "Convert")
_BEFORE_MEAN = ("Convert", "Reshape", "Subtract")
_LARGEST_UNNAMED = 24


@dataclass(frozen=True, slots=True)
class Block:
    """Ops of a layer that a pattern names, or one op that no pattern names.

    Attributes
    ----------
    kind : str
        ``norm``, a kind of token mixer (``full_attention``, ``linear_attention``, ...),
        ``dense``, ``router``, ``experts``, ``shared_expert``, ``sum``, ``fusion`` or ``op``.
    ops : frozenset of int
        Layer ids.
    states : tuple of StreamState
        Cached values that the block reads.
    """

    kind: str
    ops: frozenset[int] = field(repr=False)
    match: Match | None = None
    states: tuple[StreamState, ...] = ()


class Splitter:
    """Splits the sublayers of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.view = stream.view
        self.matcher = Matcher(stream.view, stream.ops)

    def layer(self, group: Sequence[Sublayer], entry: int, end: int) -> list[Block]:
        """Split one layer; ``entry`` and ``end`` are the layer ids of the values that enter and leave it."""
        blocks: list[Block] = []
        for sublayer in group:
            own = self._own(sublayer)
            kinds = [self._kind(sublayer, position) for position in range(len(sublayer.branches))]
            routed = any(kind == "experts" for kind, _ in kinds)
            branches, single = self._experts_joined(sublayer.branches, kinds) if routed else (sublayer.branches, ())
            for number, (branch, out, (kind, match)) in enumerate(
                zip(branches, sublayer.sum.branches, kinds, strict=True)
            ):
                if number in single:
                    continue
                mixing = match is None or match.role == "token_mixer"
                named = "shared_expert" if routed and kind == "dense" else kind
                core = Block(named, frozenset(), match, sublayer.states if mixing else ())
                blocks += self._branch(branch & own, sublayer.sum.skip, out, core)
            blocks.append(Block("sum", frozenset({sublayer.sum.op, *sublayer.sum.inner})))
        done = {op for block in blocks for op in block.ops}.union(*(sublayer.ops for sublayer in group))
        blocks += self._rest(self._between(entry, end) - done, [entry, *(sublayer.sum.op for sublayer in group)])
        rank = self.stream.rank
        return self._absorbed(sorted(blocks, key=lambda block: max(rank[op] for op in block.ops)))

    def _kind(self, sublayer: Sublayer, position: int) -> tuple[str, Match | None]:
        """The kind of one branch of a sublayer, and the match that determines it."""
        if position == sublayer.mixing_index:
            return sublayer.mixer, sublayer.mixing_match
        match, _ = sublayer.found("token_mixer", position)
        if match is None:
            match, _ = sublayer.found("feed_forward", position)
        return (match.kind, match) if match else ("", None)

    def _experts_joined(
        self, branches: Sequence[frozenset[int]], kinds: Sequence[tuple[str, Match | None]]
    ) -> tuple[list[frozenset[int]], frozenset[int]]:
        """Join branches that are one expert each with that of the router; return all branches, and which are experts.

        Some exporters write the experts out one by one, as terms of the residual sum. Their weights are computed from
        what the router has chosen, those of a shared expert are not.
        """
        home = next(number for number, (kind, _) in enumerate(kinds) if kind == "experts")
        ranked = {op for op in branches[home] if self.view.op_type(op) == "TopK"}
        chosen = self._below(ranked, branches[home]) if ranked else set()
        single = frozenset(
            number
            for number, branch in enumerate(branches)
            if number != home and any(not chosen.isdisjoint(self.stream.sources[op]) for op in branch)
        )
        joined = list(branches)
        joined[home] = joined[home].union(*(branches[number] for number in single))
        return joined, single

    def _own(self, sublayer: Sublayer) -> set[int]:
        """Ops of a sublayer that depend on its input.

        The other ops are computed from the embeddings for all layers, or belong to a value that another layer shares.
        The sublayer is only the first to need them.
        """
        return self._below({sublayer.sum.skip}, sublayer.ops)

    def _absorbed(self, blocks: list[Block]) -> list[Block]:
        """Move each unnamed value-preserving op into the block that reads it, or else into the block before it."""
        owner = {op: position for position, block in enumerate(blocks) for op in block.ops}
        for block in reversed(blocks):
            op = next(iter(block.ops))
            if block.kind != "op" or len(block.ops) > 1 or self.view.op_type(op) not in PASSES_ON:
                continue
            readers = {owner[reader] for reader in self._readers(op) if reader in owner}
            before = [owner[source] for source in self.stream.sources[op] if source in owner]
            if len(readers) == 1 or before:
                owner[op] = readers.pop() if len(readers) == 1 else before[0]
        members: dict[int, set[int]] = {}
        for op, position in owner.items():
            members.setdefault(position, set()).add(op)
        return [
            replace(block, ops=frozenset(members[position]))
            for position, block in enumerate(blocks)
            if position in members
        ]

    def closing(self, last: int) -> list[Block]:
        """Blocks between the last sum and the end of the stream: the final norm, or the start of a layer."""
        ops = self._between(last, self.stream.end.op)
        match = self.matcher.find("token_mixer", ops)[0] if ops else None
        if match is None or MIXERS[match.kind].in_order:
            return self._rest(ops, [last])
        norm = self._norm_after(frozenset(ops), last)
        return ([norm] if norm else []) + self._core(frozenset(ops - norm.ops if norm else ops))

    def opening(self, last: int) -> list[Block]:
        """Blocks from the roots to the value of ``last``: the end of a layer that begins before them, or all there is.

        A sum of a root and a branch is the end of a branch whose start is not in the graph.
        """
        return self._upwards(frozenset(self._above(last, self.stream.ops - self.stream.roots)), last)

    def _upwards(self, ops: frozenset[int], out: int) -> list[Block]:
        """Split ops from their end: norms, sums with a root, and what enters these."""
        below: list[Block] = []
        while (block := self._norm_before(ops, out)) is not None:
            below.insert(0, block)
            start = self._norm_input(block.match) if block.match else None
            ops -= block.ops
            out = out if start is None else start
        ends, joined = self._open_sum(out)
        if ends:
            below.insert(0, Block("sum", joined))
            for end in ends:
                branch = frozenset(self._above(end, ops - joined))
                below[:0] = self._upwards(branch, end)
                ops -= branch
            return self._unnamed(ops - joined) + below
        norm = next((found for root in self.stream.roots if (found := self._norm_after(ops, root))), None)
        above = [norm] if norm else []
        return above + self._core(ops - above[0].ops if above else ops) + below

    def _open_sum(self, out: int) -> tuple[list[int], frozenset[int]]:
        """Ends of the branches that a sum adds to a root, and its ops; none if ``out`` is no such sum."""
        stream = self.stream
        if self.view.op_type(out) != "Add" or len(stream.sources[out]) < 2:
            return [], frozenset()
        terms, inner = stream.terms(out)
        skips = [term for term in terms if not stream.roots.isdisjoint(stream.unscaled(term))]
        ends = [term for term in terms if term not in skips]
        if not ends or not skips:
            return [], frozenset()
        scales = {op for term in skips for op in stream.unscaled(term)} - stream.roots
        return ends, frozenset({out, *inner, *scales})

    def _core(self, ops: frozenset[int]) -> list[Block]:
        """Blocks of ops without norms at their ends: a token mixer, a feed-forward block, or what no pattern names."""
        if not ops:
            return []
        match = self.matcher.find("token_mixer", ops)[0]
        if match is not None:
            states = tuple(state for state in find_states(self.stream) if state.readers & ops)
            return [Block(match.kind, ops, match, states)]
        match = self.matcher.find("feed_forward", ops)[0]
        if match is not None and match.kind == "experts":
            return self._experts(ops, match)
        products = [op for op in ops if self._has_weights(op)]
        if match is not None and len(products) > 1:
            return [Block("experts" if any(map(self._stacked, products)) else match.kind, ops, match)]
        return self._unnamed(ops)

    def _between(self, start: int, end: int) -> set[int]:
        """Ops of the stream on the paths from ``start`` to ``end``, without ``start``."""
        sources, rank, floor = self.stream.sources, self.stream.rank, self.stream.rank.get(start, -1)
        above = closure([end], lambda op: [source for source in sources.get(op, ()) if rank[source] > floor])
        return self._below({start}, above) - {start}

    def _branch(self, branch: frozenset[int], value: int, out: int, core: Block) -> list[Block]:
        """Split a branch into its norms at either end, and its core."""
        blocks = []
        before = self._norm_after(branch, value)
        rest = branch - (before.ops if before else frozenset())
        after = self._norm_before(rest, out) if core.kind else None
        rest -= after.ops if after else frozenset()
        blocks += [before] if before else []
        if core.kind == "experts" and core.match:
            blocks += self._experts(rest, core.match)
        elif core.kind and rest:
            blocks.append(Block(core.kind, rest, core.match, core.states))
        else:
            blocks += self._unnamed(rest)
        return blocks + ([after] if after else [])

    def norms_within(self, ops: Collection[int]) -> list[Block]:
        """Norms inside a block, such as those of queries and keys."""
        norms: list[Block] = []
        left = frozenset(ops)
        for op in sorted(ops, key=self.stream.rank.__getitem__):
            match = self.matcher.at("norm", op)[0] if op in left else None
            value = self._norm_input(match, through=("Convert", "Subtract")) if match else None
            if match and value is not None and self._width(value) == self._width(op):
                inside = self._above(op, left) - (self._above(value, left) if value in left else set())
                if self._closed(inside, op, value):
                    norms.append(Block("norm", self._extended(inside, op, left), match))
                    left -= norms[-1].ops
        return norms

    def _rest(self, ops: set[int], values: Sequence[int]) -> list[Block]:
        """Blocks outside all branches: norms after a sum, feed-forward without residual, single ops."""
        blocks = []
        pending = list(values)
        for value in pending:
            norm = self._norm_after(frozenset(ops), value)
            if norm is not None:
                blocks.append(norm)
                ops = ops - norm.ops
                pending.append(max(norm.ops, key=self.stream.rank.__getitem__))
        match, _ = self.matcher.find("feed_forward", ops)
        return [*blocks, Block("dense", frozenset(ops), match)] if match else blocks + self._unnamed(ops)

    def _unnamed(self, ops: Collection[int]) -> list[Block]:
        """Blocks for ops that no pattern names: one each, or a single block for very many ops."""
        if len(ops) > _LARGEST_UNNAMED:
            return [Block("op", frozenset(ops))]
        return [Block("op", frozenset({op})) for op in sorted(ops, key=self.stream.rank.__getitem__)]

    def _norm_after(self, branch: frozenset[int], value: int) -> Block | None:
        """The norm at the start of a branch, which reads ``value``."""
        if not any(value in self.stream.sources[op] for op in branch):
            return None
        width = self._width(value)
        for op in sorted(branch, key=self.stream.rank.__getitem__)[:_LARGEST_UNNAMED]:
            match, _ = self.matcher.at("norm", op)
            if match and self._width(op) == width and self._norm_input(match, value) == value:
                ops = self._above(op, branch)
                if self._closed(ops, op, value):
                    return Block("norm", self._extended(ops, op, branch), match)
        return None

    def _norm_before(self, branch: frozenset[int], out: int) -> Block | None:
        """The norm at the end of a branch."""
        for op in self.stream.unscaled(out):
            match = self.matcher.at("norm", op)[0] if op in branch else None
            start = self._norm_input(match) if match else None
            if match and start in branch:
                ops = self._above(out, branch) - self._above(start, branch)
                if start is not None and ops and self._closed(ops, out, start):
                    return Block("norm", frozenset(ops), match)
        return None

    def _norm_input(
        self, match: Match, value: int | None = None, *, through: Collection[str] = _BEFORE_MEAN
    ) -> int | None:
        """The input of a norm before it is converted or centered, not searched beyond ``value``."""
        op = match.ops.get("input")
        while op is not None and op != value and op in self.stream.ops and self.view.op_type(op) in through:
            op = self.view.producers(op)[0]
        return op

    def _width(self, op: int) -> int:
        return next(reversed(self.view.output_shape(op)), 0)

    def _above(self, op: int, branch: Collection[int]) -> set[int]:
        sources = self.stream.sources
        return closure([op], lambda op: [source for source in sources[op] if source in branch])

    def _readers(self, op: int) -> Iterator[int]:
        return (target for target in self.view.successors(op) if target in self.stream.ops)

    def _closed(self, ops: Collection[int], out: int, value: int) -> bool:
        """True if only ``value`` enters a set of ops and only the value of ``out`` leaves it."""
        inside = {*ops, value}
        return all(
            inside.issuperset(self.stream.sources[op]) and (op == out or inside.issuperset(self._readers(op)))
            for op in ops
        )

    def _extended(self, ops: set[int], out: int, branch: Collection[int]) -> frozenset[int]:
        """Add the weight, bias and value-preserving ops that follow a norm."""
        while True:
            readers = [reader for reader in self._readers(out) if reader in branch]
            if len(readers) != 1 or len(list(self._readers(out))) != 1 or not self._affine(readers[0], out):
                return frozenset(ops)
            out = readers[0]
            ops.add(out)

    def _affine(self, op: int, value: int) -> bool:
        """True if an op scales or shifts a value by constants, or preserves it."""
        if self.view.op_type(op) in PASSES_ON:
            return self.view.producers(op)[0] == value
        others = [source for source in self.view.producers(op) if source != value]
        return self.view.op_type(op) in _AFFINE and all(map(self.view.constant, others))

    def _experts(self, ops: frozenset[int], match: Match) -> list[Block]:
        """Split a mixture of experts into router, shared expert and experts."""
        ranked = {op for op in ops if self.view.op_type(op) == "TopK"}
        routed = self._below({match.ops["router"]}, set().union(*(self._above(op, ops) for op in ranked)))
        weighted = self._below(routed, ops)
        shared: set[int] = set()
        for add in sorted(weighted, key=self.stream.rank.__getitem__):
            plain = [source for source in self.stream.sources[add] if source in ops and source not in weighted]
            others = [source for source in self.stream.sources[add] if source in weighted]
            if self.view.op_type(add) == "Add" and len(plain) == len(others) == 1:
                alone = self._above(plain[0], ops) - self._above(others[0], ops)
                shared |= alone if any(map(self._has_weights, alone)) else set()
        parts = (("router", routed), ("shared_expert", shared), ("experts", ops - routed - shared))
        return [Block(kind, frozenset(part), match) for kind, part in parts if part]

    def _below(self, start: set[int], ops: Collection[int]) -> set[int]:
        """``start`` and the ops that depend on it, within ``ops``."""
        below = set(start)
        for op in sorted(ops, key=self.stream.rank.__getitem__):
            if not below.isdisjoint(self.stream.sources[op]):
                below.add(op)
        return below

    def _has_weights(self, op: int) -> bool:
        return self.view.op_type(op) == "MatMul" and any(map(self.view.constant, self.view.producers(op)))

    def _stacked(self, op: int) -> bool:
        """True if a MatMul has a matrix for each expert."""
        sources = [source for source in self.view.inputs(op) if self.view.constant(source.op)]
        return any(len(shape := self.view.shape(source)) > 2 and shape[0] > 1 for source in sources)
