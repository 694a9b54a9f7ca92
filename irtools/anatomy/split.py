"""Split the stretches of a layer into blocks, as the pattern rules name them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from irtools.decoder.stream import PASSES_ON, Stream
from irtools.decoder.stretch import State, Stretch
from irtools.graph.closure import closure
from irtools.graph.match import Match, Matcher

__all__ = ["Block", "Splitter"]

_AFFINE = ("Multiply", "Add", "Convert")
_BEFORE_MEAN = ("Convert", "Reshape", "Subtract")
_LARGEST_UNNAMED = 24


@dataclass(frozen=True, slots=True)
class Block:
    """Some ops of a layer that a pattern names, or one op that none does.

    Attributes
    ----------
    kind : str
        ``norm``, a kind of token mixer (``full_attention``, ``linear_attention``, ...),
        ``dense``, ``router``, ``experts``, ``shared_expert``, ``sum``, ``fusion`` or ``op``.
    ops : frozenset of int
        Layer ids.
    match : Match or None
        What the pattern said.
    states : tuple of State
        Cached values that it reads.
    """

    kind: str
    ops: frozenset[int] = field(repr=False)
    match: Match | None = None
    states: tuple[State, ...] = ()


class Splitter:
    """Splits the stretches of one stream.

    Parameters
    ----------
    stream : Stream
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.view = stream.view
        self.matcher = Matcher(stream.view, stream.ops)

    def layer(self, group: Sequence[Stretch], entry: int, end: int) -> list[Block]:
        """Split one layer.

        Parameters
        ----------
        group : sequence of Stretch
            Its stretches.
        entry, end : int
            Layer ids of the values that enter and leave it.
        """
        blocks: list[Block] = []
        for piece in group:
            own = self._own(piece)
            kinds = [self._kind(piece, position) for position in range(len(piece.branches))]
            routed = any(kind == "experts" for kind, _ in kinds)
            for branch, out, (kind, match) in zip(piece.branches, piece.sum.branches, kinds, strict=True):
                mixing = match is None or match.pattern != "dense"
                named = "shared_expert" if routed and kind == "dense" else kind
                core = Block(named, frozenset(), match, piece.states if mixing and kind != "experts" else ())
                blocks += self._branch(branch & own, piece.sum.skip, out, core)
            blocks.append(Block("sum", frozenset({piece.sum.op, *piece.sum.inner})))
        done = {op for block in blocks for op in block.ops}.union(*(piece.ops for piece in group))
        blocks += self._rest(self._between(entry, end) - done, [entry, *(piece.sum.op for piece in group)])
        rank = self.stream.rank
        return self._absorbed(sorted(blocks, key=lambda block: max(rank[op] for op in block.ops)))

    def _kind(self, piece: Stretch, position: int) -> tuple[str, Match | None]:
        """What one branch of a stretch is, and the pattern that says so."""
        if piece.mixing_branch is not None and position == piece.mixing_branch[0]:
            return piece.mixer, piece.mixing_branch[1]
        if piece.mixing_branch is None and piece.states and position == 0:
            return piece.mixer, None
        match, _ = self.matcher.find("token_mixer", piece.branches[position])
        if match is None:
            match, _ = self.matcher.find("feed_forward", piece.branches[position])
        return (match.kind, match) if match else ("", None)

    def _own(self, piece: Stretch) -> frozenset[int]:
        """Ops of a stretch that depend on what enters it.

        The others are computed from the embeddings for all layers, or belong to a value that
        another layer shares; the stretch is only the first to need them.
        """
        found = {piece.sum.skip}
        for op in sorted(piece.ops, key=self.stream.rank.__getitem__):
            if found & set(self.stream.sources[op]):
                found.add(op)
        return frozenset(found)

    def _absorbed(self, blocks: list[Block]) -> list[Block]:
        """Give a change of form that is left over to the block that reads it, else to the one before it."""
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
        """What lies between the last sum and the end of the stream: the final norm."""
        region = self._between(last, self.stream.end.op) - {last}
        return self._rest(region, [last])

    def _between(self, start: int, end: int) -> set[int]:
        """Ops of the stream that depend on ``start`` and that ``end`` depends on; not ``start``."""
        above, pending, floor = {end}, [end], self.stream.rank.get(start, -1)
        while pending:
            for source in self.stream.sources.get(pending.pop(), ()):
                if source not in above and self.stream.rank[source] > floor:
                    above.add(source)
                    pending.append(source)
        found = {start}
        for op in sorted(above, key=self.stream.rank.__getitem__):
            if found & set(self.stream.sources[op]):
                found.add(op)
        return found - {start}

    def _branch(self, branch: frozenset[int], value: int, out: int, core: Block) -> list[Block]:
        """Norms at either end of a branch, and its core between them."""
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
        found: list[Block] = []
        left = frozenset(ops)
        for op in sorted(ops, key=self.stream.rank.__getitem__):
            match = self.matcher.at("norm", op)[0] if op in left else None
            value = self._norm_input(match, through=("Convert", "Subtract")) if match else None
            if match and value is not None and self._width(value) == self._width(op):
                inside = self._above(op, left) - (self._above(value, left) if value in left else set())
                if self._closed(inside, op, value):
                    found.append(Block("norm", self._extended(inside, op, left), match))
                    left -= found[-1].ops
        return found

    def _rest(self, ops: set[int], values: Sequence[int]) -> list[Block]:
        """Blocks outside all branches: norms after a sum, feed-forward without a residual, single ops."""
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
        """Ops that no pattern names, one block each; very many are one block, which says so."""
        if len(ops) > _LARGEST_UNNAMED:
            return [Block("op", frozenset(ops))]
        return [Block("op", frozenset({op})) for op in sorted(ops, key=self.stream.rank.__getitem__)]

    def _norm_after(self, branch: frozenset[int], value: int) -> Block | None:
        """The norm that reads ``value`` and that the rest of the branch reads."""
        width = self._width(value)
        for op in sorted(branch, key=self.stream.rank.__getitem__)[:_LARGEST_UNNAMED]:
            match, _ = self.matcher.at("norm", op)
            if match and self._width(op) == width and self._norm_input(match, value) == value:
                ops = self._above(op, branch)
                if self._closed(ops, op, value):
                    return Block("norm", self._extended(ops, op, branch), match)
        return None

    def _norm_before(self, branch: frozenset[int], out: int) -> Block | None:
        """The norm that the branch ends with."""
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
        """The value that a norm reads, before it is converted or centred; not beyond ``value``."""
        op = match.ops.get("input")
        while op is not None and op != value and op in self.stream.ops and self.view.op_type(op) in through:
            op = self.view.producers(op)[0]
        return op

    def _width(self, op: int) -> int:
        outputs = self.view.op(op).outputs
        return outputs[0].shape[-1] if outputs and outputs[0].shape else 0

    def _above(self, op: int, branch: Collection[int]) -> set[int]:
        sources = self.stream.sources
        return closure([op], lambda op: [source for source in sources[op] if source in branch])

    def _readers(self, op: int) -> Iterator[int]:
        return (target for target in self.view.succ[op] if target in self.stream.ops)

    def _closed(self, ops: Collection[int], out: int, value: int) -> bool:
        """Whether only ``value`` enters a set of ops and only that of ``out`` leaves it."""
        inside = {*ops, value}
        return all(
            inside.issuperset(self.stream.sources[op]) and (op == out or inside.issuperset(self._readers(op)))
            for op in ops
        )

    def _extended(self, ops: set[int], out: int, branch: Collection[int]) -> frozenset[int]:
        """Take in the weight and bias that follow a norm, and a change of form."""
        while True:
            readers = [reader for reader in self._readers(out) if reader in branch]
            if len(readers) != 1 or len(list(self._readers(out))) != 1 or not self._affine(readers[0], out):
                return frozenset(ops)
            out = readers[0]
            ops.add(out)

    def _affine(self, op: int, value: int) -> bool:
        """Whether an op multiplies or shifts a value by constants, or hands it on in another form."""
        if self.view.op_type(op) in PASSES_ON:
            return self.view.producers(op)[0] == value
        others = [source for source in self.view.producers(op) if source != value]
        return self.view.op_type(op) in _AFFINE and all(map(self.view.constant, others))

    def _experts(self, ops: frozenset[int], match: Match) -> list[Block]:
        """Router, shared expert and experts."""
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
        """``start`` and what depends on it, within ``ops``."""
        found = set(start)
        for op in sorted(ops, key=self.stream.rank.__getitem__):
            if found & set(self.stream.sources[op]):
                found.add(op)
        return found

    def _has_weights(self, op: int) -> bool:
        return self.view.op_type(op) == "MatMul" and any(map(self.view.constant, self.view.producers(op)))
