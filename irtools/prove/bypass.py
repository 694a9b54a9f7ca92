"""Values that bypass a tap: computed from the tokens before the tap and read after it.

Some families share values across layers by design: keys and values that later layers attend to
again, inputs that each layer gets from the embeddings (Gemma 4), the embeddings themselves mixed
into every layer, router states added to the scores of the next router (Zaya). Any other bypass
shows that the tap is no layer boundary.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from irtools.decoder.stream import PASSES_ON, SHAPE_OPS, ancestors
from irtools.graph.closure import closure
from irtools.graph.match import Matcher
from irtools.graph.view import GraphView, Source
from irtools.model.ports import TOKEN_INPUTS
from irtools.prove.annotated import ResolvedTap

__all__ = ["Bypass", "bypasses"]

_TOKENS = {*TOKEN_INPUTS, "per_layer_inputs", "hidden_states"}
_SCALES = PASSES_ON | {"Multiply", "Divide"}
_PRODUCTS = {"MatMul", "Einsum"}


@dataclass(frozen=True, slots=True)
class Bypass:
    """A value that bypasses taps.

    Attributes
    ----------
    name : str
        Friendly name of its op.
    index : int
        Output index.
    passed : frozenset of int
        Positions of the bypassed taps.
    after : frozenset of int
        Positions of the taps that it is computed from.
    role : str
        ``keys and values``, ``per-layer inputs``, ``embeddings`` or ``router states``; ``""`` if no
        family shares such a value.
    """

    source: Source
    name: str
    index: int
    passed: frozenset[int]
    after: frozenset[int]
    role: str


def bypasses(view: GraphView, taps: Sequence[ResolvedTap], logits: int) -> tuple[Bypass, ...]:
    """Values that bypass taps, in graph order; ``logits`` is the layer id of the Result."""
    tokens = [op for op in view.parameters if _TOKENS & {view.op_name(op), *view.output(op).names}]
    moving = _below(view, tokens)
    live = ancestors(view, logits) & moving
    passed: dict[Source, dict[int, set[int]]] = {}
    behind = [_below(view, [tap.origin.op]) & live for tap in taps]
    for position, (tap, after) in enumerate(zip(taps, behind, strict=True)):
        for op in after - {tap.origin.op}:
            for source in view.inputs(op):
                if source.op in moving and source.op not in after and view.op_type(op) not in SHAPE_OPS:
                    passed.setdefault(source, {}).setdefault(position, set()).add(op)
    port = view.port(taps[0].source)
    width = port.shape[-1] if port is not None and port.shape else -1
    roles = _Roles(view, moving, passed, width)
    values = []
    for source in sorted(passed, key=lambda source: (view.rank[source.op], source.port)):
        computed = frozenset(position for position, after in enumerate(behind) if source.op in after)
        name, index = view.op_name(source.op), view.output_index(source)
        values.append(Bypass(source, name, index, frozenset(passed[source]), computed, roles.role(source)))
    return tuple(values)


def _below(view: GraphView, start: Iterable[int]) -> set[int]:
    """Ops and all ops computed from them, except shape arithmetic."""
    return closure(start, lambda op: [other for other in view.succ[op] if view.op_type(other) not in SHAPE_OPS])


class _Roles:
    """Roles of the values that a family shares by design, unlike other bypasses.

    Parameters
    ----------
    moving : collection of int
        Ops that depend on the tokens.
    passed : mapping
        For each bypassing value: the ops that read it, by position of the tap.
    width : int
        Width of the hidden states.
    """

    def __init__(
        self, view: GraphView, moving: Collection[int], passed: Mapping[Source, Mapping[int, set[int]]], width: int
    ) -> None:
        self._view = view
        self._moving = moving
        self._passed = passed
        self._width = width
        self._matcher = Matcher(view, moving)
        self._read_behind: dict[int, set[int]] = {}
        for source, taps in passed.items():
            self._read_behind.setdefault(self._unscaled(source.op), set()).update(taps)

    def role(self, source: Source) -> str:
        """Role of a value that later layers read; ``""`` if no family shares such a value."""
        readers = set().union(*self._passed[source].values())
        if all(self._attends(op, source) for op in readers):
            return "keys and values"
        narrow = not self._wide(source)
        if not self._before_mixing(source):
            return "router states" if narrow and self._routes(readers) else ""
        if narrow:
            return "per-layer inputs"
        # The skip value of a tap inside a block is read only after this tap.
        again = len(self._read_behind[self._unscaled(source.op)]) > 1
        return "embeddings" if again or all(self._view.op_type(op) == "Concat" for op in readers) else ""

    def _unscaled(self, op: int) -> int:
        """Op of the same value before scaling and reshapes."""
        while self._view.op_type(op) in _SCALES:
            above = [source for source in self._view.producers(op) if source in self._moving]
            if len(above) != 1:
                break
            op = above[0]
        return op

    def _attends(self, op: int, source: Source) -> bool:
        """True if an op uses a value as keys or values: in a product of two activations, or in fused attention."""
        inputs = self._view.inputs(op)
        if self._view.op_type(op) == "ScaledDotProductAttention":
            return source in inputs[1:3] and source not in (inputs[0], *inputs[3:])
        return self._view.op_type(op) in _PRODUCTS and all(other.op in self._moving for other in inputs)

    def _wide(self, source: Source) -> bool:
        """True if a value has the width of the residual stream."""
        port = self._view.port(source)
        return port is not None and port.shape[-1:] == (self._width,)

    def _routes(self, readers: Iterable[int]) -> bool:
        """True if the results of the readers choose experts before they have the width of the residual stream."""
        narrow = closure(
            readers,
            lambda op: [
                consumer.op
                for consumer in self._view.consumers(op)
                if not self._wide(Source(op, consumer.port)) and self._view.op_type(consumer.op) not in SHAPE_OPS
            ],
        )
        return any(self._view.op_type(op) == "TopK" for op in narrow)

    def _before_mixing(self, source: Source) -> bool:
        above = ancestors(self._view, source.op) & set(self._moving)
        return self._matcher.find("token_mixer", above)[0] is None
