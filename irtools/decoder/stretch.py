"""What lies between two residual sums: token mixers, feed-forward blocks and their states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from irtools.decoder.stream import SHAPE_OPS, Stream, Sum
from irtools.graph.match import Match, Matcher, Mismatch
from irtools.ir.op import FLOATS

__all__ = ["State", "Stretch", "find_states", "mixer_outside", "stretches"]


@dataclass(frozen=True, slots=True)
class State:
    """A cached value: a ReadValue, or a past value that is an input of the model.

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
class Stretch:
    """One residual sum and what is computed for it.

    Attributes
    ----------
    index : int
    sum : Sum
    branches : tuple of frozenset of int
        Ops of each branch; an op that two branches share is in the first.
    states : tuple of State
        What its ops read.
    """

    index: int
    sum: Sum
    branches: tuple[frozenset[int], ...]
    states: tuple[State, ...] = field(repr=False)
    matcher: Matcher = field(repr=False)

    @cached_property
    def ops(self) -> frozenset[int]:
        """All ops, the sum included."""
        return frozenset({self.sum.op, *self.sum.inner}.union(*self.branches))

    @cached_property
    def _mixing(self) -> tuple[tuple[int, Match] | None, tuple[Mismatch, ...]]:
        tried: list[Mismatch] = []
        for position, branch in enumerate(self.branches):
            match, misses = self.matcher.find("token_mixer", branch)
            tried += misses
            if match is not None:
                return (position, match), tuple(tried)
        return None, tuple(tried)

    @property
    def mixing_branch(self) -> tuple[int, Match] | None:
        """Which branch mixes tokens, and how."""
        return self._mixing[0]

    @property
    def misses(self) -> tuple[Mismatch, ...]:
        """Why token mixer patterns did not match, in the order they were tried."""
        return self._mixing[1]

    @property
    def mixer(self) -> str:
        """Kind of the token mixer; ``unknown`` when only a cached state shows that tokens mix."""
        if self.mixing_branch is not None:
            return self.mixing_branch[1].kind
        return "unknown" if self.states else "none"

    @property
    def mixes(self) -> bool:
        """Whether a token sees others here."""
        return self.mixer != "none"

    @cached_property
    def feed_forward(self) -> str:
        """``dense``, ``experts`` or ``none``: of the branches that do not mix; experts beside a dense one count."""
        mixing = self.mixing_branch[0] if self.mixing_branch is not None else 0 if self.states else -1
        found = [
            match.kind
            for position, branch in enumerate(self.branches)
            if position != mixing and (match := self.matcher.find("feed_forward", branch)[0]) is not None
        ]
        return "experts" if "experts" in found else found[0] if found else "none"


def stretches(stream: Stream, sums: Sequence[Sum]) -> tuple[Stretch, ...]:
    """Give every op of the stream to the first sum that needs it.

    Parameters
    ----------
    stream : Stream
    sums : sequence of Sum
        From the embeddings to the head.
    """
    matcher = Matcher(stream.view, stream.ops)
    taken: set[int] = set()
    gathered: list[tuple[frozenset[int], ...]] = []
    for residual in sums:
        taken.add(residual.skip)
        gathered.append(tuple(_gather(stream, branch, taken) for branch in residual.branches))
        taken |= {residual.op, *residual.inner}
    owner = {op: index for index, branches in enumerate(gathered) for branch in branches for op in branch}
    states: dict[int, list[State]] = {}
    for state in find_states(stream):
        readers = sorted({owner[op] for op in state.readers if op in owner})
        if len(readers) == 1:
            states.setdefault(readers[0], []).append(state)
    return tuple(
        Stretch(index, residual, gathered[index], tuple(states.get(index, ())), matcher)
        for index, residual in enumerate(sums)
    )


def mixer_outside(stream: Stream, pieces: Sequence[Stretch]) -> int | None:
    """An op of the stream that mixes tokens or reads a state and belongs to no stretch.

    There is one when the stream is no plain chain of sums, so that whole layers were passed over.
    """
    outside = stream.ops.difference(*(piece.ops for piece in pieces))
    match, _ = Matcher(stream.view, stream.ops).find("token_mixer", outside)
    if match is not None:
        return match.anchor
    states = (state for state in find_states(stream) if stream.view.op_type(state.op) == "ReadValue")
    return next((op for state in states for op in state.readers if op in outside), None)


def _gather(stream: Stream, start: int, taken: set[int]) -> frozenset[int]:
    found: set[int] = set()
    pending = [start]
    while pending:
        op = pending.pop()
        if op not in taken and op not in stream.roots:
            taken.add(op)
            found.add(op)
            pending.extend(stream.sources[op])
    return frozenset(found)


def find_states(stream: Stream) -> tuple[State, ...]:
    """The cached values that ops of the stream read, in file order."""
    view = stream.view
    found = []
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
            found.append(State(name, op, readers))
    return tuple(found)


def _is_past(stream: Stream, name: str, readers: frozenset[int]) -> bool:
    """Whether an input is a cached value: joined with new ones, or named so."""
    joined = any(stream.view.op_type(op) == "Concat" for op in readers)
    return joined or any(word in name.lower() for word in ("past", "cache", "state"))


def _readers(stream: Stream, start: int) -> frozenset[int]:
    """The first ops of the stream below a value, shapes left out."""
    view, found, seen, pending = stream.view, set(), {start}, [start]
    while pending:
        for target in view.succ[pending.pop()]:
            if target in stream.ops:
                found.add(target)
            elif target not in seen and view.op_type(target) not in SHAPE_OPS:
                seen.add(target)
                pending.append(target)
    return frozenset(found)
