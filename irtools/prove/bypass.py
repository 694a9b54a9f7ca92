"""Values that pass a tap by: computed before it from the tokens, and read after it.

Some families share values across layers by design: keys and values that later layers attend to
again, and inputs that each layer gets from the embeddings (Gemma 4). Whatever else passes a tap
by shows that it is no boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from irtools.decoder.stream import SHAPE_OPS
from irtools.graph.match import Matcher
from irtools.graph.view import GraphView, Source
from irtools.prove.annotated import Tap

__all__ = ["Bypass", "bypasses"]

_TOKENS = {"input_ids", "inputs_embeds", "per_layer_inputs", "hidden_states"}
_PRODUCTS = {"MatMul", "Einsum"}


@dataclass(frozen=True, slots=True)
class Bypass:
    """A value that passes taps by.

    Attributes
    ----------
    source : Source
    name : str
        Friendly name of its op.
    index : int
        Output index.
    passed : frozenset of int
        Positions of the taps.
    after : frozenset of int
        Positions of the taps that it is computed from.
    role : str
        ``keys and values`` or ``per-layer inputs``; ``""`` when no family shares such a value.
    """

    source: Source
    name: str
    index: int
    passed: frozenset[int]
    after: frozenset[int]
    role: str


def bypasses(view: GraphView, taps: Sequence[Tap], logits: int) -> tuple[Bypass, ...]:
    """The values that pass each tap by, in the order of the graph.

    Parameters
    ----------
    view : GraphView
    taps : sequence of Tap
    logits : int
        Layer id of the Result.
    """
    moving = _below(view, _token_inputs(view))
    live = _above(view, [logits]) & moving
    passed: dict[Source, dict[int, set[int]]] = {}
    behind = [_below(view, [tap.origin.op]) & live for tap in taps]
    for position, (tap, after) in enumerate(zip(taps, behind, strict=True)):
        for op in after - {tap.origin.op}:
            for source in view.inputs(op):
                if source.op in moving and source.op not in after and view.op_type(op) not in SHAPE_OPS:
                    passed.setdefault(source, {}).setdefault(position, set()).add(op)
    judge = _Judge(view, moving)
    widths = [port.shape for tap in taps if (port := view.port(tap.source)) is not None]
    found = []
    for source in sorted(passed, key=lambda source: (view.rank[source.op], source.port)):
        readers = set().union(*passed[source].values())
        role = judge.role(source, readers, widths[0][-1])
        computed = frozenset(position for position, after in enumerate(behind) if source.op in after)
        index = view.output_index(source)
        found.append(Bypass(source, view.op_name(source.op), index, frozenset(passed[source]), computed, role))
    return tuple(found)


def _token_inputs(view: GraphView) -> list[int]:
    return [op for op in view.parameters if _TOKENS & {view.op_name(op), *view.output(op).names}]


def _below(view: GraphView, start: Iterable[int]) -> set[int]:
    """Ops and what is computed from them, shapes left out."""
    return _closure(start, lambda op: [other for other in view.succ[op] if view.op_type(other) not in SHAPE_OPS])


def _above(view: GraphView, start: Iterable[int]) -> set[int]:
    """Ops and what they are computed from, shapes left out."""
    return _closure(start, lambda op: [] if view.op_type(op) in SHAPE_OPS else view.pred[op])


def _closure(start: Iterable[int], step: Callable[[int], Iterable[int]]) -> set[int]:
    seen = set(start)
    pending = list(seen)
    while pending:
        fresh = [other for other in step(pending.pop()) if other not in seen]
        seen.update(fresh)
        pending += fresh
    return seen


class _Judge:
    """Tells what is shared by design from what makes a tap no boundary."""

    def __init__(self, view: GraphView, moving: Collection[int]) -> None:
        self._view = view
        self._moving = moving
        self._matcher = Matcher(view, moving)

    def role(self, source: Source, readers: Collection[int], width: int) -> str:
        """What a value is that later layers read; ``""`` when it is nothing that a family shares."""
        if all(self._attends(op, source) for op in readers):
            return "keys and values"
        port = self._view.port(source)
        same_width = port is None or port.shape[-1:] == (width,)
        if (not same_width or self._joined(readers)) and self._before_mixing(source):
            return "per-layer inputs"
        return ""

    def _attends(self, op: int, source: Source) -> bool:
        """Whether an op takes a value as keys or values: of two activations multiplied, or of fused attention."""
        inputs = self._view.inputs(op)
        if self._view.op_type(op) == "ScaledDotProductAttention":
            return source in inputs[1:3] and source not in (inputs[0], *inputs[3:])
        return self._view.op_type(op) in _PRODUCTS and all(other.op in self._moving for other in inputs)

    def _joined(self, readers: Iterable[int]) -> bool:
        return all(self._view.op_type(op) == "Concat" for op in readers)

    def _before_mixing(self, source: Source) -> bool:
        above = _above(self._view, [source.op]) & set(self._moving)
        return self._matcher.find("token_mixer", above)[0] is None
