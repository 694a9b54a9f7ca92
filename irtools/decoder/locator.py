"""Choose the op that names a hidden state in the annotation."""

from __future__ import annotations

from irtools.decoder.stream import Stream
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView, Source
from irtools.ir.op import DYNAMIC, RESHAPES
from irtools.model.annotation import Locator

__all__ = ["Namer"]


class Namer:
    """Finds, for a value, a producer that the runtime will accept.

    The runtime resolves the friendly name among the live top-level ops and wants exactly one,
    of static rank 3 and static width.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self._live: set[int] | None = None
        self._named: dict[str, list[int]] = {}
        for op, name in zip(view.scan.ids, view.scan.names, strict=True):
            self._named.setdefault(name, []).append(op)

    def named(self, name: str) -> list[int]:
        """Live ops of a friendly name; the only op of a name counts as live."""
        found = self._named.get(name, [])
        return found if len(found) < 2 else [op for op in found if op in self.live]

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
        """Name the value of an op that a layer hands to the next: the output that the stream goes on from."""
        readers = (target for target in self.view.succ[op] if target in stream.ops)
        read = {source.port for reader in readers for source in self.view.inputs(reader) if source.op == op}
        if len(read) > 1:
            raise LocateRefusedError(
                f"the hidden state of layer {layer} is spread over {len(read)} outputs of {self.view.op_name(op)!r}; "
                "the runtime takes it from one"
            )
        return self._pick(stream.same_value(op), layer, Source(op, *read))

    def read_by_head(self, source: Source, layer: int) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        """Name the value that the head reads."""
        found = [source.op]
        while self.view.op_type(found[-1]) in RESHAPES and self.view.producers(found[-1]):
            found.append(self.view.producers(found[-1])[0])
        return self._pick(found, layer, source)

    def _pick(
        self, candidates: list[int], layer: int, exact: Source
    ) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        ports = {op: self.view.output(op) for op in candidates}
        ports[exact.op] = self.view.port(exact) or ports[exact.op]
        # A reshape that splits the width carries the same numbers and is no hidden state.
        width = ports[candidates[0]].shape[-1:]
        fitting = [op for op in candidates if len(ports[op].shape) == 3 and ports[op].shape[-1:] == width != (DYNAMIC,)]
        if not fitting:
            shape = ",".join("?" if size < 0 else str(size) for size in ports[candidates[0]].shape)
            raise LocateRefusedError(
                f"the hidden state of layer {layer} ({self.view.op_name(candidates[0])!r}) has the shape [{shape}]; "
                "the runtime accepts only rank 3 with a static width, so export the model with a static hidden size"
            )
        for op in fitting:
            if len(self.named(self.view.op_name(op))) == 1:
                source = Source(op, ports[op].id)
                index = self.view.output_index(source)
                rest = [other for other in candidates if other != op]
                return Locator(self.view.op_name(op), index), source, ports[op].shape, rest
        name = self.view.op_name(fitting[0])
        twins = self.named(name)
        raise LocateRefusedError(
            f"the hidden state of layer {layer} is produced by {name!r}, but {len(twins)} ops have that name "
            f"(layer ids {', '.join(map(str, twins[:5]))}), which the runtime refuses; give them unique names "
            "(`irtools verify --unsafe-fixes` does) and annotate again"
        )
