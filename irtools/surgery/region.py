"""Which ops a piece of a graph consists of, and the values at which it is cut off.

What is asked for are the ops between some starts and some ends: descendants of the one, ancestors of
the other. What these read besides (masks, rotary tables, the ops that make up a state's first value)
is followed back to the model's own inputs, but not into what comes before the piece: a value that is
computed from the tokens, or from a state that is written elsewhere, is cut off and becomes an input.
Of such a value whose shape alone is read, only the shape does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from irtools.graph.view import GraphView, Source
from irtools.ir.op import FLOATS
from irtools.surgery.fragile import fragile_states
from irtools.surgery.reach import above, below, data_above
from irtools.surgery.shapes import SameShape
from irtools.surgery.wanted import End, Request

__all__ = ["Cut", "Region", "find_region"]

_TOKENS = re.compile(r"input_ids|inputs?_embeds")
_SIDE = re.compile(r"mask|position|beam|type_ids|past|present|cache|state|_len")


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
        The entry first, states last, the others in the order of computation.
    entry : Source or None
    entry_name : str
        As requested.
    ends : tuple of End
    states : tuple of str
        Variables that are read and written in the piece, and stay.
    written : tuple of int
        Assigns whose value becomes an output.
    opened : tuple of str
        States of the piece that became inputs and outputs because OpenVINO would not run them.
    rewired : mapping of int to Source
        ShapeOf ops that read a value of the piece instead of an earlier one of the same shape.
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
    opened: tuple[str, ...] = ()
    rewired: Mapping[int, Source] = field(default_factory=dict)
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


@dataclass(slots=True)
class _Kept:
    """What has been found so far."""

    ops: set[int] = field(default_factory=set)
    cuts: dict[Source, str] = field(default_factory=dict)
    rewired: dict[int, Source] = field(default_factory=dict)


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
            if view.inputs(op):
                self.writers.setdefault(self.variable(op), []).append(op)
        self.own: dict[str, bool] = {}
        self.opened: set[str] = set()
        self.cheap: set[int] = set()

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
        found = [op for op in data_above(view, self.ends) if view.op_type(op) == "Parameter"]
        names = {op: " ".join((view.op_name(op), *view.output(op).names)) for op in found}
        named = {op for op in found if _TOKENS.search(names[op])} | self.request.tokens
        main = [op for op in found if not _SIDE.search(names[op])]
        floats = {op for op in main if view.output(op).element_type in FLOATS}
        return named or floats or set(main) or set(found)

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

    def _stays(self, variable: str) -> bool:
        """Whether a state stays one."""
        return self.own.get(variable, False) and not self.request.stateless and variable not in self.opened

    def _stops(self, op: int) -> bool:
        """Whether a value from outside the core is cut off."""
        return op in self.upstream and op not in self.core and op not in self.cheap

    def _written_inside(self, assign: int) -> bool:
        """Whether a state's new value is computed by the piece or beside it, not before or behind it."""
        view = self.view
        above_it = data_above(view, [assign], stop=self.core | (self.upstream - self.below))
        computed = above_it - {assign}
        if computed & self.beyond:
            return False
        outer = {op for op in computed if op in self.upstream and view.op_type(op) != "Parameter"}
        return bool(computed & self.core) or not outer

    # -- everything else ---------------------------------------------------------------

    def region(self) -> Region:
        self._settle_states()
        kept = self._gather()
        while fragile := fragile_states(self.view, kept.ops, self.forced):
            self.opened |= set(map(self.variable, fragile))
            kept = self._gather()
        request = self.request
        states = [variable for variable in self.writers if self.own.get(variable)]
        writers = [op for variable in states if not self._stays(variable) for op in self.writers[variable]]
        halves = self._written_only(kept)
        order = sorted(kept.cuts, key=self._order)
        split = [(variable, True) for variable, own in self.own.items() if not own]
        split += [(self.variable(op), False) for op in halves]
        return Region(
            ops=frozenset(kept.ops),
            cuts=tuple(Cut(source, kept.cuts[source]) for source in order),
            entry=request.entry,
            entry_name=request.entry_name,
            ends=request.ends,
            states=tuple(filter(self._stays, states)),
            written=(*writers, *halves),
            opened=tuple(variable for variable in states if variable in self.opened),
            rewired=kept.rewired,
            split=tuple(split),
        )

    def _order(self, source: Source) -> tuple[int, int, int]:
        """Where a cut value comes among the inputs: the entry first, states last and as they are written."""
        if self.view.op_type(source.op) == "ReadValue":
            variable = self.variable(source.op)
            return 2, list(self.writers).index(variable) if variable in self.writers else -1, source.op
        return int(source != self.request.entry), self.view.rank[source.op], source.port

    def _written_only(self, kept: _Kept) -> list[int]:
        """Assigns outside the piece that write a value which the piece computes and does not give already."""
        given = {end.source for end in self.request.ends}
        found = []
        for variable, writers in self.writers.items():
            for op in writers if variable not in self.own else ():
                source = self.view.inputs(op)[0]
                if source not in given and source.op in self.core and source.op in kept.ops:
                    found.append(op)
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
                self._cut_shapes(kept, shapes)
                break
        return kept

    def _roots(self, kept: _Kept) -> list[int]:
        roots = []
        for end in self.request.ends:
            roots += [end.source.op] if self._take(kept, end.source, None) else []
            kept.ops |= {end.result} if end.result is not None else set()
        for variable, own in self.own.items():
            for op in self.writers[variable] if own else ():
                if self._stays(variable):
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
            sources = self.view.inputs(op)
            if self.view.op_type(op) == "ShapeOf" and op not in self.core and not self.view.constant(op) and sources:
                shapes.append(op)
            else:
                pending += [source.op for source in sources if self._take(kept, source, op)]

    def _take(self, kept: _Kept, source: Source, reader: int | None) -> bool:
        """Decide whether a value is computed in the piece; else it becomes an input of it."""
        kind = self.view.op_type(source.op)
        if self.view.constant(source.op) or kind == "Parameter":
            return True
        if kind == "ReadValue":
            if not self._stays(self.variable(source.op)):
                kept.cuts[source] = "state"
                return False
            return True
        forced = reader in self.forced and self.view.op_type(reader or 0) != "ReadValue"
        if source.op not in self.core and (forced or self._stops(source.op)):
            kept.cuts.setdefault(source, "value")
            return False
        return True

    def _readable(self, kept: _Kept, shape: int) -> bool:
        """Whether what a ShapeOf reads is in the piece, or is computed from the model's own integer inputs."""
        source = self.view.inputs(shape)[0]
        if source in kept.cuts or source.op in kept.ops:
            return True
        before = self._stops(source.op)
        needed = data_above(self.view, [source.op], stop=kept.ops) - kept.ops
        for op in needed:
            kind = self.view.op_type(op)
            floating = self.view.output(op).element_type in FLOATS
            if kind == "ReadValue" and not self._stays(self.variable(op)):
                return False
            if floating and (kind == "Parameter" or before):
                return False
        if before:
            self.cheap |= needed
        return True

    def _cut_shapes(self, kept: _Kept, shapes: list[int]) -> None:
        """Let each ShapeOf read a value of the piece that has the same shape; cut behind it where there is none."""
        request, rank = self.request, self.view.rank
        same = SameShape(self.view, request.stream, request.closing)
        order = sorted((op for op in kept.ops if not self.view.constant(op)), key=rank.__getitem__)
        for op in sorted(shapes, key=rank.__getitem__):
            source = self.view.inputs(op)[0]
            found = request.entry if same.in_stream(source) else None
            if found is None and request.stream:
                found = next((value for value in same.like(source, order) if not self._leads(kept, op, value.op)), None)
            if found is not None:
                kept.rewired[op] = found
            else:
                kept.ops.discard(op)
                kept.cuts[Source(op, self.view.output(op).id)] = "shape"

    def _leads(self, kept: _Kept, first: int, last: int) -> bool:
        """Whether one op of the piece is computed from another, as the piece is wired by now."""
        seen, pending = {last}, [last]
        while pending:
            op = pending.pop()
            if op == first:
                return True
            sources = [kept.rewired[op].op] if op in kept.rewired else self.view.producers(op)
            for source in sources:
                if source in kept.ops and source not in seen:
                    seen.add(source)
                    pending.append(source)
        return False
