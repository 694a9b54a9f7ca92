"""Sublayers: token mixers, feed-forward blocks and their states between two residual sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from irtools.decoder.stream import SHAPE_OPS, Stream, Sum
from irtools.graph.closure import closure
from irtools.graph.match import Match, Matcher, Mismatch
from irtools.ir.op import FLOATS
from irtools.model.ports import CACHE_WORDS

__all__ = ["StreamState", "Sublayer", "find_states", "find_sublayers", "mixer_outside"]


@dataclass(frozen=True, slots=True)
class StreamState:
    """A cached value: a ReadValue, or a model input with past values.

    Attributes
    ----------
    name : str
        ``variable_id``, or the name of the input.
    op : int
        Layer id of the ReadValue or Parameter.
    readers : frozenset of int
        Ops of the stream that read it.
    """

    name: str
    op: int
    readers: frozenset[int]


@dataclass(frozen=True)
class Sublayer:
    """A sublayer: one residual sum and the ops computed for it.

    Attributes
    ----------
    branches : tuple of frozenset of int
        Ops of each branch. An op that two branches share is in the first.
    states : tuple of StreamState
        States that its ops read.
    """

    index: int
    sum: Sum
    branches: tuple[frozenset[int], ...]
    states: tuple[StreamState, ...] = field(repr=False)
    matcher: Matcher = field(repr=False)

    @cached_property
    def ops(self) -> frozenset[int]:
        """All ops, including the sum."""
        return frozenset({self.sum.op, *self.sum.inner}.union(*self.branches))

    @cached_property
    def _found(self) -> dict[tuple[str, int], tuple[Match | None, list[Mismatch]]]:
        return {}

    def found(self, role: str, position: int) -> tuple[Match | None, list[Mismatch]]:
        """The first match of a role in one branch, and the mismatches before it; searched once."""
        key = role, position
        if key not in self._found:
            self._found[key] = self.matcher.find(role, self.branches[position])
        return self._found[key]

    @cached_property
    def _mixing(self) -> tuple[int | None, Match | None, tuple[Mismatch, ...]]:
        tried: list[Mismatch] = []
        for position in range(len(self.branches)):
            match, misses = self.found("token_mixer", position)
            tried += misses
            if match is not None:
                return position, match, tuple(tried)
        return 0 if self.states else None, None, tuple(tried)

    @property
    def mixing_index(self) -> int | None:
        """Position of the branch that mixes tokens; 0 if only a cached state shows it, None if none does."""
        return self._mixing[0]

    @property
    def mixing_match(self) -> Match | None:
        """Match of the token mixer."""
        return self._mixing[1]

    @property
    def misses(self) -> tuple[Mismatch, ...]:
        """Mismatches of the token mixer patterns, in the order they were tried."""
        return self._mixing[2]

    @property
    def mixer(self) -> str:
        """Kind of the token mixer; ``unknown`` if only a cached state shows that tokens mix."""
        if self.mixing_match is not None:
            return self.mixing_match.kind
        return "unknown" if self.states else "none"

    @property
    def mixes(self) -> bool:
        """True if the sublayer mixes tokens."""
        return self.mixer != "none"

    @cached_property
    def feed_forward(self) -> str:
        """Kind of the branches that do not mix tokens: ``experts`` if one has them, else ``dense`` or ``none``."""
        kinds = [
            match.kind
            for position in range(len(self.branches))
            if position != self.mixing_index and (match := self.found("feed_forward", position)[0]) is not None
        ]
        return "experts" if "experts" in kinds else kinds[0] if kinds else "none"


def find_sublayers(stream: Stream, sums: Sequence[Sum]) -> tuple[Sublayer, ...]:
    """Assign every op of the stream to the first sum that needs it; ``sums`` is ordered from the embeddings."""
    matcher = Matcher(stream.view, stream.ops)
    taken: set[int] = set()
    gathered: list[tuple[frozenset[int], ...]] = []
    for residual in sums:
        taken.add(residual.skip)
        gathered.append(tuple(_gather(stream, branch, taken) for branch in residual.branches))
        taken |= {residual.op, *residual.inner}
    owner = {op: index for index, branches in enumerate(gathered) for branch in branches for op in branch}
    states: dict[int, list[StreamState]] = {}
    for state in find_states(stream):
        readers = sorted({owner[op] for op in state.readers if op in owner})
        if len(readers) == 1:
            states.setdefault(readers[0], []).append(state)
    return tuple(
        Sublayer(index, residual, gathered[index], tuple(states.get(index, ())), matcher)
        for index, residual in enumerate(sums)
    )


def mixer_outside(stream: Stream, sublayers: Sequence[Sublayer]) -> int | None:
    """An op of the stream that mixes tokens or reads a state but belongs to no sublayer.

    There is one if the stream is not a plain chain of sums, so that whole layers are missing.
    """
    outside = stream.ops.difference(*(sublayer.ops for sublayer in sublayers))
    match, _ = Matcher(stream.view, stream.ops).find("token_mixer", outside)
    if match is not None:
        return match.anchor
    states = (state for state in find_states(stream) if stream.view.op_type(state.op) == "ReadValue")
    return next((op for state in states for op in state.readers if op in outside), None)


def _gather(stream: Stream, start: int, taken: set[int]) -> frozenset[int]:
    ops: set[int] = set()
    pending = [start]
    while pending:
        op = pending.pop()
        if op not in taken and op not in stream.roots:
            taken.add(op)
            ops.add(op)
            pending.extend(stream.sources[op])
    return frozenset(ops)


def find_states(stream: Stream) -> tuple[StreamState, ...]:
    """Cached values that ops of the stream read, in file order."""
    view = stream.view
    states = []
    for op in (*view.by_type.get("ReadValue", ()), *view.parameters):
        if op in stream.ops:
            continue
        if view.op_type(op) == "Parameter":
            port = view.output(op)
            if port.element_type not in FLOATS or len(port.shape) < 3:
                continue
        name = view.data(op).get("variable_id") or view.op_name(op)
        readers = _readers(stream, op)
        if view.op_type(op) == "ReadValue" or _is_past(stream, name, readers):
            states.append(StreamState(name, op, readers))
    return tuple(states)


def _is_past(stream: Stream, name: str, readers: frozenset[int]) -> bool:
    """True if an input is a cached value: concatenated with new values, or named like one."""
    joined = any(stream.view.op_type(op) == "Concat" for op in readers)
    return joined or any(word in name.lower() for word in (*CACHE_WORDS, "state"))


def _readers(stream: Stream, start: int) -> frozenset[int]:
    """The first ops of the stream below a value, without shape arithmetic."""
    view = stream.view

    def targets(op: int) -> Iterable[int]:
        return (
            ()
            if op in stream.ops
            else [target for target in view.successors(op) if view.op_type(target) not in SHAPE_OPS]
        )

    return frozenset(closure([start], targets) & stream.ops)
