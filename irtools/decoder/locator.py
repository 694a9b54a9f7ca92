"""Choose the producer of each hidden state for the annotation."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.decoder.stream import Stream
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView, Source
from irtools.ir.op import DYNAMIC, RESHAPES
from irtools.model.annotation import Locator
from irtools.text import shape_text

__all__ = ["Named", "Namer"]


@dataclass(frozen=True, slots=True)
class Named:
    """The producer of a layer's hidden state.

    Attributes
    ----------
    source : Source
        The output of the producer, as layer id and output port id of the graph.
    shape : tuple of int
        Shape of the hidden state, -1 for dynamic dimensions.
    twins : list of int
        Layer ids of the other ops with the same numbers.
    obstacle : str
        As in :class:`irtools.decoder.stack.DecoderLayer`.
    """

    locator: Locator
    source: Source
    shape: tuple[int, ...]
    twins: list[int]
    obstacle: str = ""


class Namer:
    """Finds a producer that the runtime accepts for a value.

    The runtime looks up the friendly name among the live top-level ops. It requires exactly one op, with static rank 3
    and static width. If several ops have the only fitting name, the producer is returned with the obstacle: its place
    in the graph is certain.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view

    def _accepted(self, name: str) -> tuple[int, ...]:
        """Ops that the runtime could mean by a name. A unique name of the stream needs no search for live ops."""
        ops = self.view.named.get(name, ())
        return ops if len(ops) < 2 else self.view.live_named(name)

    def handed_on(self, stream: Stream, op: int, layer: int) -> Named:
        """Find the producer of a layer's hidden state: the output of ``op`` that the stream continues from."""
        readers = (target for target in self.view.succ[op] if target in stream.ops)
        read = {source.port for reader in readers for source in self.view.inputs(reader) if source.op == op}
        if len(read) > 1:
            raise LocateRefusedError(
                f"the hidden state of layer {layer} is spread over {len(read)} outputs of {self.view.op_name(op)!r}, "
                "but the runtime reads one output; join them before the next layer"
            )
        return self._pick(stream.same_value(op), layer, Source(op, *read))

    def read_by_head(self, source: Source, layer: int) -> Named:
        """Find the producer of the value that the lm_head reads."""
        candidates = [source.op]
        while self.view.op_type(candidates[-1]) in RESHAPES:
            candidates.append(self.view.producers(candidates[-1])[0])
        return self._pick(candidates, layer, source)

    def _pick(self, candidates: list[int], layer: int, exact: Source) -> Named:
        ports = {op: self.view.output(op) for op in candidates}
        ports[exact.op] = self.view.port(exact) or ports[exact.op]
        # A reshape that splits the width carries the same numbers but is not a hidden state.
        width = ports[candidates[0]].shape[-1:]
        fitting = [op for op in candidates if len(ports[op].shape) == 3 and ports[op].shape[-1:] == width != (DYNAMIC,)]
        if not fitting:
            raise LocateRefusedError(
                f"the hidden state of layer {layer} ({self.view.op_name(candidates[0])!r}) has the shape "
                f"{shape_text(ports[candidates[0]].shape)}; "
                "the runtime accepts only rank 3 with a static width; export the model with a static hidden size"
            )
        unique = (op for op in fitting if len(self._accepted(self.view.op_name(op))) == 1)
        op = next(unique, fitting[0])
        name, source = self.view.op_name(op), Source(op, ports[op].id)
        locator = Locator(name, self.view.output_index(source))
        twins = [other for other in candidates if other != op]
        return Named(locator, source, ports[op].shape, twins, self._obstacle(name, layer))

    def _obstacle(self, name: str, layer: int) -> str:
        namesakes = self._accepted(name)
        if len(namesakes) < 2:
            return ""
        return (
            f"the hidden state of layer {layer} is produced by {name!r}, but {len(namesakes)} ops have that name "
            f"(layer ids {', '.join(map(str, namesakes[:5]))}), which the runtime refuses; give them unique names "
            "with `irtools verify --unsafe-fixes` and annotate again"
        )
