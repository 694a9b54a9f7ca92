"""Which ops a piece of a graph consists of, and the values at which it is cut off.

What is asked for are the ops between some starts and some ends: descendants of the one, ancestors of
the other. What these read besides (masks, rotary tables, the ops that make up a state's first value)
is followed back to the model's own inputs, but not into what comes before the piece: a value that is
computed from the tokens, or from a state that is written elsewhere, is cut off and becomes an input.
Of such a value whose shape alone is read, only the shape does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from irtools.graph.view import GraphView, Source

__all__ = ["Cut", "End", "Region", "Request", "find_region"]

_TOKENS = re.compile(r"input_ids|inputs?_embeds")
_SIDE = re.compile(r"mask|position|beam|type_ids|past|present|cache|state|_len")
_FLOATS = ("f32", "f16", "bf16", "f64")


@dataclass(frozen=True, slots=True)
class End:
    """A value that the piece is to give.

    Attributes
    ----------
    source : Source
    name : str
        What the output is called.
    result : int or None
        The model's own Result for it, which then stays as it is.
    """

    source: Source
    name: str
    result: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a piece is to reach from and to.

    Attributes
    ----------
    starts : frozenset of int
        The first ops of the piece.
    ends : tuple of End
    entry : Source or None
        The value in front of the starts that is cut off, for a piece of the decoder stack.
    entry_name : str
        What the input for it is called.
    stream : frozenset of Source
        Values of the same shape as the entry.
    tokens : frozenset of int
        Inputs of the model that the decoder stack starts from, where that is known.
    stateless : bool
        Whether states become inputs and outputs.
    """

    starts: frozenset[int]
    ends: tuple[End, ...]
    entry: Source | None = None
    entry_name: str = ""
    stream: frozenset[Source] = frozenset()
    tokens: frozenset[int] = frozenset()
    stateless: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A value that becomes an input of the piece.

    Attributes
    ----------
    source : Source
    kind : str
        ``value``, ``shape`` (of a value that is not in the piece) or ``state``.
    """

    source: Source
    kind: str


@dataclass(frozen=True, slots=True)
class Region:
    """What a piece consists of.

    Attributes
    ----------
    ops : frozenset of int
        Ops that stay as they are, with inputs of the model and constants.
    cuts : tuple of Cut
        In the order of computation, the entry first.
    entry : Source or None
    entry_name : str
        As requested.
    ends : tuple of End
    states : tuple of str
        Variables that are read and written in the piece, and stay.
    written : tuple of int
        Assigns whose value becomes an output.
    rewired : frozenset of int
        ShapeOf ops that read the entry instead of an earlier value of its shape.
    split : tuple of (str, bool)
        Variables of which only one half lies in the piece; True: the one that reads.
    """

    ops: frozenset[int]
    cuts: tuple[Cut, ...]
    entry: Source | None
    entry_name: str
    ends: tuple[End, ...]
    states: tuple[str, ...]
    written: tuple[int, ...] = ()
    rewired: frozenset[int] = frozenset()
    split: tuple[tuple[str, bool], ...] = ()


def find_region(view: GraphView, request: Request) -> Region:
    """Work out what a piece consists of.

    Parameters
    ----------
    view : GraphView
        Every start leads to an end, and every end is reached from a start.
    request : Request
    """
    return _Finder(view, request).region()


def below(view: GraphView, starts: Iterable[int], *, shapes: bool = True) -> set[int]:
    """Some ops and everything computed from them; without ``shapes`` not by way of a ShapeOf."""
    found = set(starts)
    pending = list(found)
    while pending:
        for consumer in view.consumers(pending.pop()):
            if consumer.op not in found and (shapes or view.op_type(consumer.op) != "ShapeOf"):
                found.add(consumer.op)
                pending.append(consumer.op)
    return found


def above(view: GraphView, ends: Iterable[int], within: Collection[int]) -> set[int]:
    """Some ops and everything they are computed from, as far as it is in ``within``."""
    found = {end for end in ends if end in within}
    pending = list(found)
    while pending:
        for source in view.producers(pending.pop()):
            if source in within and source not in found:
                found.add(source)
                pending.append(source)
    return found


@dataclass(slots=True)
class _Kept:
    """What has been found so far."""

    ops: set[int] = field(default_factory=set)
    cuts: dict[Source, str] = field(default_factory=dict)
    rewired: set[int] = field(default_factory=set)


class _Finder:
    def __init__(self, view: GraphView, request: Request) -> None:
        self.view, self.request = view, request
        self.below = below(view, request.starts)
        self.forced = request.starts if request.entry is None else frozenset()
        self.ends = {end.source.op for end in request.ends}
        self.core = above(view, self.ends, self.below)
        self.beyond = below(view, self._readers_of_ends()) - self.core
        self.upstream = below(view, self._tokens(), shapes=False)
        self.writers: dict[str, list[int]] = {}
        for op in view.by_type.get("Assign", ()):
            self.writers.setdefault(self.variable(op), []).append(op)
        self.own: dict[str, bool] = {}

    def variable(self, op: int) -> str:
        return self.view.data(op).get("variable_id", "")

    def _readers_of_ends(self) -> Iterator[int]:
        values = {end.source for end in self.request.ends}
        for op in self.ends:
            for consumer in self.view.consumers(op):
                if Source(op, consumer.port) in values:
                    yield consumer.op

    def _tokens(self) -> set[int]:
        """Inputs of the model whose way through it is cut: its tokens, else what it computes with."""
        view = self.view
        found = [op for op in self._data_above(self.ends) if view.op_type(op) == "Parameter"]
        names = {op: " ".join((view.op_name(op), *view.output(op).names)) for op in found}
        named = {op for op in found if _TOKENS.search(names[op])} | self.request.tokens
        main = [op for op in found if not _SIDE.search(names[op])]
        floats = {op for op in main if view.output(op).element_type in _FLOATS}
        return named or floats or set(main) or set(found)

    def _data_above(self, starts: Iterable[int], stop: Collection[int] = ()) -> set[int]:
        """Some ops and what their values are computed from, shape arithmetic and constants left out."""
        view = self.view
        found = set(starts)
        pending = [op for op in found if op not in stop]
        while pending:
            op = pending.pop()
            if view.op_type(op) == "ShapeOf":
                continue
            for source in view.producers(op):
                if source not in found and not view.constant(source):
                    found.add(source)
                    if source not in stop:
                        pending.append(source)
        return found

    # -- states ------------------------------------------------------------------------

    def _settle_states(self) -> None:
        """Find the states of the piece; the ops that compute their new values belong to it."""
        while True:
            fresh = [op for op in self._states_read() if self.variable(op) not in self.own]
            for op in fresh:
                variable = self.variable(op)
                writers = self.writers.get(variable, [])
                self.own[variable] = bool(writers) and all(map(self._written_inside, writers))
            if not fresh:
                return
            writers = [op for variable, own in self.own.items() if own for op in self.writers[variable]]
            self.core |= above(self.view, writers, self.below)

    def _states_read(self) -> set[int]:
        """ReadValues whose values the piece computes with."""
        read, seen = set(), set()
        pending = list(self.core)
        while pending:
            op = pending.pop()
            if self.view.op_type(op) == "ReadValue":
                read.add(op)
            if self.view.op_type(op) == "ShapeOf" or op in self.forced:
                continue
            for source in self.view.producers(op):
                if source not in seen and not self.view.constant(source) and not self._stops(source):
                    seen.add(source)
                    pending.append(source)
        return read

    def _stops(self, op: int) -> bool:
        """Whether a value from outside the core is cut off."""
        return op not in self.core and op in self.upstream

    def _written_inside(self, assign: int) -> bool:
        """Whether a state's new value is computed by the piece or beside it, not before or behind it."""
        view = self.view
        above_it = self._data_above([assign], stop=self.core | (self.upstream - self.below))
        computed = above_it - {assign}
        if computed & self.beyond:
            return False
        outer = {op for op in computed if op in self.upstream and view.op_type(op) != "Parameter"}
        return bool(computed & self.core) or not outer

    # -- everything else ---------------------------------------------------------------

    def region(self) -> Region:
        self._settle_states()
        kept = self._gather()
        view, request = self.view, self.request
        states = [variable for variable, own in self.own.items() if own]
        writers = [op for variable in states for op in self.writers[variable]]
        halves = self._written_only(kept)
        order = sorted(kept.cuts, key=lambda source: (source != request.entry, view.rank[source.op], source.port))
        split = [(variable, True) for variable, own in self.own.items() if not own]
        split += [(self.variable(op), False) for op in halves]
        return Region(
            ops=frozenset(kept.ops),
            cuts=tuple(Cut(source, kept.cuts[source]) for source in order),
            entry=request.entry,
            entry_name=request.entry_name,
            ends=request.ends,
            states=() if request.stateless else tuple(states),
            written=tuple([*writers, *halves] if request.stateless else halves),
            rewired=frozenset(kept.rewired),
            split=tuple(split),
        )

    def _written_only(self, kept: _Kept) -> list[int]:
        """Assigns outside the piece that write a value which the piece computes and does not give already."""
        given = {end.source for end in self.request.ends}
        found = []
        for op in self.view.by_type.get("Assign", ()):
            sources = self.view.inputs(op)[:1]
            if self.variable(op) not in self.own and sources and sources[0] not in given:
                found += [op] if sources[0].op in self.core and sources[0].op in kept.ops else []
        return found

    def _gather(self) -> _Kept:
        """Collect ops from the ends upwards, so that nothing is kept that no end needs."""
        kept = _Kept()
        shapes: list[int] = []
        self._collect(kept, self._roots(kept), shapes)
        while shapes:
            ready = [op for op in shapes if self._readable(kept, op)]
            shapes = [op for op in shapes if op not in ready]
            for op in ready:
                sources = [source.op for source in self.view.inputs(op) if self._take(kept, source, op)]
                self._collect(kept, sources, shapes)
            if not ready:
                for op in shapes:
                    self._cut_shape(kept, op)
                break
        return kept

    def _roots(self, kept: _Kept) -> list[int]:
        roots = []
        for end in self.request.ends:
            roots += [end.source.op] if self._take(kept, end.source, None) else []
            kept.ops |= {end.result} if end.result is not None else set()
        for variable, own in self.own.items():
            for op in self.writers[variable] if own else ():
                if not self.request.stateless:
                    roots.append(op)
                else:
                    roots += [source.op for source in self.view.inputs(op) if self._take(kept, source, op)]
        return roots

    def _collect(self, kept: _Kept, roots: Iterable[int], shapes: list[int]) -> None:
        pending = [op for op in roots if op not in kept.ops]
        while pending:
            op = pending.pop()
            if op in kept.ops:
                continue
            kept.ops.add(op)
            if self.view.op_type(op) == "ShapeOf" and op not in self.core and not self.view.constant(op):
                shapes.append(op)
                continue
            pending += [source.op for source in self.view.inputs(op) if self._take(kept, source, op)]

    def _take(self, kept: _Kept, source: Source, reader: int | None) -> bool:
        """Decide whether a value is computed in the piece; else it becomes an input of it."""
        kind = self.view.op_type(source.op)
        if self.view.constant(source.op) or kind == "Parameter":
            return True
        if kind == "ReadValue":
            inside = not self.request.stateless and self.own.get(self.variable(source.op), False)
            if not inside:
                kept.cuts[source] = "state"
            return inside
        forced = reader in self.forced and self.view.op_type(reader or 0) != "ReadValue"
        if source.op not in self.core and (forced or self._stops(source.op)):
            kept.cuts.setdefault(source, "value")
            return False
        return True

    def _readable(self, kept: _Kept, shape: int) -> bool:
        """Whether what a ShapeOf reads is in the piece, or cheap: computed from inputs that hold no values."""
        view = self.view
        for source in view.inputs(shape):
            if source in kept.cuts or source.op in kept.ops:
                continue
            if self._stops(source.op) and self.view.op_type(source.op) != "Parameter":
                return False
            for op in self._data_above([source.op], stop=kept.ops):
                kind = view.op_type(op)
                outside = kind == "ReadValue" and (self.request.stateless or not self.own.get(self.variable(op)))
                wide = kind == "Parameter" and view.output(op).element_type in _FLOATS
                if op not in kept.ops and (outside or wide):
                    return False
        return True

    def _cut_shape(self, kept: _Kept, op: int) -> None:
        """Cut behind a ShapeOf, or let it read the entry when that has the same shape."""
        source = self.view.inputs(op)[0]
        if self.request.entry is not None and source in self.request.stream:
            kept.rewired.add(op)
            return
        kept.ops.discard(op)
        kept.cuts[Source(op, self.view.output(op).id)] = "shape"
