"""Choose the producer of each hidden state for the annotation."""

from __future__ import annotations

from functools import cached_property

from irtools.decoder.stream import Stream
from irtools.errors import LocateRefusedError
from irtools.graph.closure import closure
from irtools.graph.view import GraphView, Source
from irtools.ir.op import DYNAMIC, RESHAPES
from irtools.model.annotation import Locator

__all__ = ["Namer"]


class Namer:
    """Finds a producer that the runtime accepts for a value.

    The runtime looks up the friendly name among the live top-level ops. It requires exactly one op, with static rank 3
    and static width.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self._named: dict[str, list[int]] = {}
        for op, name in zip(view.scan.ids, view.scan.names, strict=True):
            self._named.setdefault(name, []).append(op)

    def named(self, name: str) -> list[int]:
        """Live ops with a friendly name; a unique op counts as live."""
        ops = self._named.get(name, [])
        return ops if len(ops) < 2 else [op for op in ops if op in self.live]

    @cached_property
    def live(self) -> set[int]:
        """Ops that a Result or an Assign depends on; OpenVINO drops the others when it reads the file."""
        return closure([*self.view.results, *self.view.by_type.get("Assign", ())], self.view.producers)

    def handed_on(self, stream: Stream, op: int, layer: int) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        """Find the producer of a layer's hidden state: the output of ``op`` that the stream continues from."""
        readers = (target for target in self.view.succ[op] if target in stream.ops)
        read = {source.port for reader in readers for source in self.view.inputs(reader) if source.op == op}
        if len(read) > 1:
            raise LocateRefusedError(
                f"the hidden state of layer {layer} is spread over {len(read)} outputs of {self.view.op_name(op)!r}, "
                "but the runtime reads one output; join them before the next layer"
            )
        return self._pick(stream.same_value(op), layer, Source(op, *read))

    def read_by_head(self, source: Source, layer: int) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        """Find the producer of the value that the lm_head reads."""
        candidates = [source.op]
        while self.view.op_type(candidates[-1]) in RESHAPES and self.view.producers(candidates[-1]):
            candidates.append(self.view.producers(candidates[-1])[0])
        return self._pick(candidates, layer, source)

    def _pick(
        self, candidates: list[int], layer: int, exact: Source
    ) -> tuple[Locator, Source, tuple[int, ...], list[int]]:
        ports = {op: self.view.output(op) for op in candidates}
        ports[exact.op] = self.view.port(exact) or ports[exact.op]
        # A reshape that splits the width carries the same numbers but is not a hidden state.
        width = ports[candidates[0]].shape[-1:]
        fitting = [op for op in candidates if len(ports[op].shape) == 3 and ports[op].shape[-1:] == width != (DYNAMIC,)]
        if not fitting:
            shape = ",".join("?" if size < 0 else str(size) for size in ports[candidates[0]].shape)
            raise LocateRefusedError(
                f"the hidden state of layer {layer} ({self.view.op_name(candidates[0])!r}) has the shape [{shape}]; "
                "the runtime accepts only rank 3 with a static width; export the model with a static hidden size"
            )
        for op in fitting:
            if len(self.named(self.view.op_name(op))) == 1:
                source = Source(op, ports[op].id)
                index = self.view.output_index(source)
                twins = [other for other in candidates if other != op]
                return Locator(self.view.op_name(op), index), source, ports[op].shape, twins
        name = self.view.op_name(fitting[0])
        namesakes = self.named(name)
        raise LocateRefusedError(
            f"the hidden state of layer {layer} is produced by {name!r}, but {len(namesakes)} ops have that name "
            f"(layer ids {', '.join(map(str, namesakes[:5]))}), which the runtime refuses; give them unique names "
            "with `irtools verify --unsafe-fixes` and annotate again"
        )
