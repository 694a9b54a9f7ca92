"""Choose the op that names a hidden state in the annotation."""

from __future__ import annotations

from collections import Counter

from irtools.decoder.stack import Locator
from irtools.decoder.stream import Stream
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView, Source

__all__ = ["Namer"]

_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")


class Namer:
    """Finds, for a value, a producer that the runtime will accept.

    The runtime resolves the friendly name among the live top-level ops and wants exactly one,
    of static rank 3 and static width.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self._counts = Counter(view.scan.names)
        self._live: set[int] | None = None

    def unique(self, op: int) -> bool:
        """Whether exactly one live op has this op's name."""
        name = self.view.op_name(op)
        if self._counts[name] == 1:
            return True
        live = self.live
        return (
            sum(
                other in live
                for other, label in zip(self.view.scan.ids, self.view.scan.names, strict=True)
                if label == name
            )
            == 1
        )

    @property
    def live(self) -> set[int]:
        """Ops that a Result or an Assign depends on: the reader drops the others."""
        if self._live is None:
            pending = [*self.view.results, *self.view.by_type.get("Assign", ())]
            self._live = set(pending)
            while pending:
                fresh = [source for source in self.view.producers(pending.pop()) if source not in self._live]
                self._live.update(fresh)
                pending += fresh
        return self._live

    def handed_on(self, stream: Stream, op: int, layer: int) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        """Name the value of an op that a layer hands to the next."""
        return self._pick(stream.same_value(op), layer)

    def read_by_head(self, source: Source, layer: int) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        """Name the value that the head reads."""
        found, current = [source.op], source.op
        while self.view.op_type(current) in _RESHAPES:
            current = self.view.producers(current)[0]
            found.append(current)
        return self._pick(found, layer, source)

    def _pick(
        self, candidates: list[int], layer: int, exact: Source | None = None
    ) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        fitting = []
        for op in candidates:
            port = self.view.port(exact) if exact and exact.op == op else (self.view.op(op).outputs or (None,))[0]
            if port is not None and len(port.shape) == 3 and port.shape[-1] > 0:
                fitting.append((op, port))
        if not fitting:
            port = self.view.op(candidates[0]).outputs[0]
            shape = ",".join("?" if size < 0 else str(size) for size in port.shape)
            raise LocateRefusedError(
                f"the hidden state of layer {layer} ({self.view.op_name(candidates[0])!r}) has the shape [{shape}]; "
                "the runtime accepts only rank 3 with a static width, so export the model with a static hidden size"
            )
        for op, port in fitting:
            if self.unique(op):
                source = exact if exact and exact.op == op else Source(op, port.id)
                index = self.view.output_index(source)
                rest = [other for other in candidates if other != op]
                return Locator(self.view.op_name(op), index), source, port.shape, rest
        name = self.view.op_name(fitting[0][0])
        twins = [key for key, label in zip(self.view.scan.ids, self.view.scan.names, strict=True) if label == name]
        raise LocateRefusedError(
            f"the hidden state of layer {layer} is produced by {name!r}, but {len(twins)} ops have that name "
            f"(layer ids {', '.join(map(str, twins[:5]))}), which the runtime refuses; give them unique names "
            "(`irtools verify --unsafe-fixes` does) and annotate again"
        )
