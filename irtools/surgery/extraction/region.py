"""The ops of a piece of a graph, and the values at its boundary.

A piece has the ops between some starts and some ends: descendants of the starts that are ancestors of the ends.
Their other inputs (masks, rotary tables, the ops that compute a state's first value) are followed back to the
model's own inputs, but not into the graph before the piece: a value that is computed from the tokens, or from a
state that is written elsewhere, is cut and becomes an input. If only a value's shape is used, the shape becomes
the input.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from irtools.graph.closure import closure
from irtools.graph.view import GraphView, Source
from irtools.ir.op import FLOATS
from irtools.model.ports import CACHE_WORDS
from irtools.surgery.extraction.fragile import fragile_states
from irtools.surgery.extraction.request import End, PieceRequest
from irtools.surgery.extraction.shapes import SameShape
from irtools.surgery.reach import above, below, data_above, state_writers, variable_id

__all__ = ["Cut", "PieceRegion", "find_region"]

_TOKENS = re.compile(r"input_ids|inputs?_embeds")  # anywhere in a name: `decoder_input_ids`, `input_embeds`
_SIDE = re.compile("|".join(("mask", "position", "beam", "type_ids", *CACHE_WORDS, "present", "state", "_len")))


@dataclass(frozen=True, slots=True)
class Cut:
    """A value that becomes an input of the piece.

    Attributes
    ----------
    kind : str
        ``value``, ``shape`` (of a value that is not in the piece) or ``state``.
    """

    source: Source
    kind: str


@dataclass(frozen=True, slots=True)
class PieceRegion:
    """Ops and boundary of a piece.

    Attributes
    ----------
    ops : frozenset of int
        Ops that stay unchanged, including inputs of the model and constants.
    cuts : tuple of Cut
        The entry first, states last, the others in the order of computation.
    entry_name : str
        See :class:`irtools.surgery.extraction.request.PieceRequest`.
    states : tuple of str
        Variables that are read and written in the piece, and stay states.
    written : tuple of int
        Assigns whose value becomes an output.
    opened : tuple of str
        States of the piece that became inputs and outputs because OpenVINO would not run them.
    rewired : mapping of int to Source
        ShapeOf ops that read a value of the piece instead of an earlier one of the same shape.
    split : tuple of (str, bool)
        Variables with only a ReadValue (True) or only an Assign (False) in the piece.
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


def find_region(view: GraphView, request: PieceRequest) -> PieceRegion:
    """Work out the ops and the boundary of a piece, whose starts all lead to an end and whose ends all have a start."""
    scope = _with_states(_scope(view, request))
    kept = _gather(scope)
    while fragile := fragile_states(view, kept.ops, scope.forced):
        scope = replace(scope, opened=scope.opened | {variable_id(view, op) for op in fragile})
        kept = _gather(scope, kept.cheap)
    states = [variable for variable in scope.writers if scope.own.get(variable)]
    halves = _half_states(scope, kept)
    split = [(variable, True) for variable, own in scope.own.items() if not own]
    return PieceRegion(
        ops=frozenset(kept.ops),
        cuts=_cuts(scope, kept),
        entry=request.entry,
        entry_name=request.entry_name,
        ends=request.ends,
        states=tuple(filter(scope.stays, states)),
        written=(*(op for state in states if not scope.stays(state) for op in scope.writers[state]), *halves),
        opened=tuple(variable for variable in states if variable in scope.opened),
        rewired=kept.rewired,
        split=(*split, *((variable_id(view, op), False) for op in halves)),
    )


# -- the scope: which values the piece computes itself ---------------------------------


@dataclass(frozen=True, slots=True)
class _Scope:
    """Values that a piece computes itself, decided before its ops are gathered."""

    view: GraphView
    request: PieceRequest
    forced: frozenset[int]  # starts whose inputs are cut
    below: Set[int]  # computed from the starts
    beyond: Set[int]  # computed from the ends
    upstream: Set[int]  # computed from the tokens, not through a shape
    writers: Mapping[str, list[int]]
    core: Set[int]  # between starts and ends, and what computes the new values of own states
    own: Mapping[str, bool] = field(default_factory=dict)  # variables read; True if written in the piece only
    opened: frozenset[str] = frozenset()  # as in `PieceRegion`

    def stays(self, variable: str) -> bool:
        """True if a state remains a state."""
        return self.own.get(variable, False) and not self.request.stateless and variable not in self.opened

    def outside(self, op: int) -> bool:
        """True if an op's values are cut, unless they are cheap to compute again."""
        return op in self.upstream and op not in self.core


def _scope(view: GraphView, request: PieceRequest) -> _Scope:
    """Return the scope without states."""
    ends = {end.source.op for end in request.ends}
    values = {end.source for end in request.ends if not end.inner}
    readers = [reader.op for op in ends for reader in view.consumers(op) if Source(op, reader.port) in values]
    descendants = below(view, request.starts)
    core = above(view, ends, descendants)
    return _Scope(
        view,
        request,
        forced=request.starts if request.entry is None else frozenset(),
        below=descendants,
        beyond=below(view, readers) - core,
        upstream=below(view, _tokens(view, ends, request.tokens), shapes=False),
        writers=state_writers(view),
        core=core,
    )


def _tokens(view: GraphView, ends: Iterable[int], located: frozenset[int]) -> set[int]:
    """Return the model inputs whose descendants are cut: the tokens, else the main inputs of the computation."""
    inputs = [op for op in data_above(view, ends) if view.op_type(op) == "Parameter"]
    names = {op: " ".join((view.op_name(op), *view.output(op).names)) for op in inputs}
    tokens = {op for op in inputs if _TOKENS.search(names[op])} | located
    main = {op for op in inputs if not _SIDE.search(names[op])}
    floats = {op for op in main if view.output(op).element_type in FLOATS}
    return tokens or floats or main or set(inputs)


def _with_states(scope: _Scope) -> _Scope:
    """Add the states of the piece, and the ops that compute their new values; those may read more states."""
    view = scope.view
    while True:
        own = dict(scope.own)
        for op in _states_read(scope):
            variable = variable_id(view, op)
            if variable not in own:
                writers = scope.writers.get(variable, [])
                own[variable] = bool(writers) and all(_written_inside(scope, writer) for writer in writers)
        if len(own) == len(scope.own):
            return scope
        writers = [op for variable, inside in own.items() if inside for op in scope.writers[variable]]
        scope = replace(scope, own=own, core=scope.core | above(view, writers, scope.below))


def _states_read(scope: _Scope) -> list[int]:
    """Return the ReadValues whose values the piece computes with, in file order."""
    view = scope.view

    def step(op: int) -> list[int]:
        if view.op_type(op) == "ShapeOf" or op in scope.forced:
            return []
        return [source for source in view.producers(op) if not view.constant(source) and not scope.outside(source)]

    reached = closure(scope.core, step)
    return [op for op in view.by_type.get("ReadValue", ()) if op in reached]


def _written_inside(scope: _Scope, assign: int) -> bool:
    """True if a state's new value is computed in the piece or beside it, not before or after it."""
    view = scope.view
    computed = data_above(view, [assign], stop=scope.core | (scope.upstream - scope.below)) - {assign}
    if computed & scope.beyond:
        return False
    outer = {op for op in computed if op in scope.upstream and view.op_type(op) != "Parameter"}
    return bool(computed & scope.core) or not outer


# -- gathering ops from the ends upwards -----------------------------------------------


@dataclass(slots=True)
class _Kept:
    """Ops and boundary gathered so far; the functions below add to it."""

    cheap: set[int]  # ops before the piece that may be kept, because they compute with integers only
    ops: set[int] = field(default_factory=set)
    cuts: dict[Source, str] = field(default_factory=dict)
    rewired: dict[int, Source] = field(default_factory=dict)


def _gather(scope: _Scope, cheap: Collection[int] = ()) -> _Kept:
    """Collect ops from the ends upwards, so that no op is kept that no end needs."""
    kept = _Kept(set(cheap))
    shapes = _collect(scope, kept, _roots(scope, kept))
    while shapes:
        ready = [op for op in shapes if _readable(scope, kept, op)]
        if not ready:
            _cut_shapes(scope, kept, shapes)
            break
        shapes = [op for op in shapes if op not in ready]
        for op in ready:
            shapes += _collect(scope, kept, _taken(scope, kept, op))
    return kept


def _roots(scope: _Scope, kept: _Kept) -> list[int]:
    roots = []
    for end in scope.request.ends:
        if _take(scope, kept, end.source, None):
            roots.append(end.source.op)
        if end.result is not None:
            kept.ops.add(end.result)
    for variable, own in scope.own.items():
        for op in scope.writers[variable] if own else ():
            roots += [op] if scope.stays(variable) else _taken(scope, kept, op)
    return roots


def _collect(scope: _Scope, kept: _Kept, roots: Iterable[int]) -> list[int]:
    """Keep ops with their ancestors in the piece; return the ShapeOf ops whose inputs are not decided yet."""
    view = scope.view
    shapes: list[int] = []

    def step(op: int) -> list[int]:
        if view.op_type(op) == "ShapeOf" and op not in scope.core and not view.constant(op):
            shapes.append(op)
            return []
        return [source for source in _taken(scope, kept, op) if source not in kept.ops]

    kept.ops.update(closure([op for op in roots if op not in kept.ops], step))
    return shapes


def _taken(scope: _Scope, kept: _Kept, reader: int) -> list[int]:
    """Return the producers of an op's inputs that are computed in the piece; cut the other inputs."""
    return [source.op for source in scope.view.inputs(reader) if _take(scope, kept, source, reader)]


def _take(scope: _Scope, kept: _Kept, source: Source, reader: int | None) -> bool:
    """Decide if a value is computed in the piece; cut it otherwise."""
    view = scope.view
    kind = view.op_type(source.op)
    if view.constant(source.op) or kind == "Parameter":
        return True
    if kind == "ReadValue":
        if scope.stays(variable_id(view, source.op)):
            return True
        kept.cuts[source] = "state"
        return False
    forced = reader is not None and reader in scope.forced and view.op_type(reader) != "ReadValue"
    if source.op not in scope.core and (forced or (scope.outside(source.op) and source.op not in kept.cheap)):
        kept.cuts.setdefault(source, "value")
        return False
    return True


def _readable(scope: _Scope, kept: _Kept, shape: int) -> bool:
    """True if the input of a ShapeOf is in the piece, or is computed from the model's own integer inputs."""
    view = scope.view
    source = view.inputs(shape)[0]
    if source in kept.cuts or source.op in kept.ops:
        return True
    before = scope.outside(source.op) and source.op not in kept.cheap
    needed = data_above(view, [source.op], stop=kept.ops) - kept.ops
    for op in needed:
        kind = view.op_type(op)
        floating = view.output(op).element_type in FLOATS
        if kind == "ReadValue" and not scope.stays(variable_id(view, op)):
            return False
        if floating and (kind == "Parameter" or before):
            return False
    if before:
        kept.cheap.update(needed)
    return True


def _cut_shapes(scope: _Scope, kept: _Kept, shapes: Iterable[int]) -> None:
    """Let each ShapeOf read a value of the piece with the same shape; if there is none, cut the ShapeOf's output."""
    view, request, rank = scope.view, scope.request, scope.view.rank
    same = SameShape(view, request.stream, request.closing)
    order = sorted((op for op in kept.ops if not view.constant(op)), key=rank.__getitem__)
    # Values of the residual stream that the piece takes or computes.
    taken = {source for source, kind in kept.cuts.items() if kind == "value"}
    here = (source for source in request.stream if source in taken or source.op in kept.ops)
    along = [request.entry] if request.entry else sorted(here, key=lambda source: rank[source.op])
    for op in sorted(shapes, key=rank.__getitem__):
        source = view.inputs(op)[0]
        value = None
        if same.in_stream(source):
            value = next((one for one in along if one != source and not _depends(scope, kept, one.op, op)), None)
        if value is None and request.stream:
            alike = same.like(source, order)
            value = next((candidate for candidate in alike if not _depends(scope, kept, candidate.op, op)), None)
        if value is not None:
            kept.rewired[op] = value
        else:
            kept.ops.discard(op)
            kept.cuts[Source(op, view.output(op).id)] = "shape"


def _depends(scope: _Scope, kept: _Kept, op: int, ancestor: int) -> bool:
    """True if an op of the piece is computed from another, with the rewiring so far."""

    def step(key: int) -> list[int]:
        sources = [kept.rewired[key].op] if key in kept.rewired else scope.view.producers(key)
        return [source for source in sources if source in kept.ops]

    return ancestor in closure([op], step)


# -- the boundary ----------------------------------------------------------------------


def _cuts(scope: _Scope, kept: _Kept) -> tuple[Cut, ...]:
    """Return the cut values as inputs: the entry first, states last and in the order of their Assigns."""
    view = scope.view
    places = {variable: place for place, variable in enumerate(scope.writers)}

    def order(source: Source) -> tuple[int, int, int]:
        if view.op_type(source.op) == "ReadValue":
            return 2, places.get(variable_id(view, source.op), -1), source.op
        return int(source != scope.request.entry), view.rank[source.op], source.port

    return tuple(Cut(source, kept.cuts[source]) for source in sorted(kept.cuts, key=order))


def _half_states(scope: _Scope, kept: _Kept) -> list[int]:
    """Return Assigns of states the piece does not read, if the piece computes the value and no end is that value."""
    ends = {end.source for end in scope.request.ends}
    return [
        op
        for variable, writers in scope.writers.items()
        if variable not in scope.own
        for op in writers
        if (source := scope.view.inputs(op)[0]) not in ends and source.op in scope.core and source.op in kept.ops
    ]
