"""Values that a layer reads but does not compute: masks, rotary tables, values of other layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from irtools.decoder.stream import Stream, ancestors
from irtools.graph.view import Source
from irtools.ir.op import FLOATS

__all__ = ["Outside", "OutsideReader"]

_COMPARISONS = {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"}


@dataclass(frozen=True, slots=True)
class Outside:
    """A value from outside the layer.

    Attributes
    ----------
    head : int
        Position of the block that reads it.
    kind : str
        ``rotary``, ``mask``, ``layer`` (another layer computes it), ``stream`` (computed from the
        embeddings outside all layers) or ``input``.
    inputs : tuple of str
        Model inputs that it is computed from.
    layer : int or None
        The layer that computes it.
    source : Source
        The first of several values that are equal in the other fields.
    """

    head: int
    kind: str
    inputs: tuple[str, ...]
    layer: int | None
    source: Source


class OutsideReader:
    """Classifies values from outside a layer, each only once.

    ``states`` are the layer ids of the cached values that the layers read; ``layer_of`` gives the decoder layer of
    each op in one.
    """

    def __init__(self, stream: Stream, states: Collection[int], layer_of: Mapping[int, int]) -> None:
        self.stream = stream
        self._layer_of = layer_of
        self._states = states
        self.view = stream.view
        self._described: dict[int, tuple[str, tuple[str, ...]] | None] = {}
        self._first: dict[tuple[object, ...], Source] = {}

    def read(self, head: int, source: Source) -> Outside | None:
        """Classify a value; None for cached states and shape arithmetic."""
        if source.op not in self._described:
            self._described[source.op] = self._describe(source)
        description = self._described[source.op]
        if description is None:
            return None
        kind, inputs = description
        layer = self._layer(source.op)
        if layer is not None:
            kind = "layer"
        return Outside(head, kind, inputs, layer, self._first.setdefault((kind, layer, inputs), source))

    def _layer(self, op: int) -> int | None:
        """The layer that computes a value or the values that it is computed from."""
        # Not `closure`: the walk stops at the first op of a layer.
        pending, seen = [op] if op in self.stream.ops else [], {op}
        while pending:
            current = pending.pop()
            if current in self._layer_of:
                return self._layer_of[current]
            fresh = [source for source in self.stream.sources[current] if source not in seen]
            seen.update(fresh)
            pending += fresh
        return None

    def _describe(self, source: Source) -> tuple[str, tuple[str, ...]] | None:
        view, stream = self.view, self.stream
        port = view.port(source)
        kind = port.element_type if port else ""
        if kind not in (*FLOATS, "boolean"):
            return None
        if source.op in stream.ops and not (len(stream.roots) > 1 and view.op_type(source.op) == "Parameter"):
            return "stream", self._inputs(ancestors(view, source.op))
        above = ancestors(view, source.op)
        types = {view.op_type(op) for op in above}
        inputs = self._inputs(above)
        if "ReadValue" in types or not inputs or not above.isdisjoint(self._states):
            return None
        if types & {"Cos", "Sin"}:
            return "rotary", inputs
        masks = types & _COMPARISONS or kind == "boolean" or "attention_mask" in inputs
        return "mask" if masks else "input", inputs

    def _inputs(self, above: set[int]) -> tuple[str, ...]:
        """Names of the model inputs among ``above``, in the model's order."""
        return tuple(self.view.input_name(op) for op in self.view.parameters if op in above)
