"""Integer values that shape a graph (axes, indices, target shapes), read from the ``.bin``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant
from irtools.ir.pread import WeightsReader
from irtools.ir.scan import BODY_OWNERS

__all__ = ["GraphIntegers", "file_integers"]

_MOST = 64
"""Values in the largest constant that is read: no axis, shape or list of indices of a language model is longer."""
_EXPECTED = 100_000
"""Bytes of them that a file at a URL is asked for at once; it is asked for the others one by one."""
_DEEPEST = 8
_SAME = frozenset({"Convert", "Reshape", "Squeeze", "Unsqueeze", "Identity"})


def file_integers(graph: GraphView, constants: Iterable[Constant], reader: WeightsReader) -> Iterator[GraphIntegers]:
    """Yield the integers of a graph and of all bodies in it; ``constants`` are those of the whole file."""
    constants = tuple(constants)
    reader.expect_integers((constant for constant in constants if constant.elements <= _MOST), _EXPECTED)
    yield GraphIntegers(graph, {constant.id: constant for constant in constants if not constant.in_body}, reader)
    table = {constant.span.start: constant for constant in constants if constant.in_body}
    pending = [graph]
    for current in pending:
        for owner in (key for kind in BODY_OWNERS for key in current.by_type.get(kind, ())):
            for body in current.bodies(owner).values():
                leaves = [key for kind in ("Const", "Constant") for key in body.by_type.get(kind, ())]
                own = {key: table[body.span(key).start] for key in leaves if body.span(key).start in table}
                yield GraphIntegers(body, own, reader)
                pending.append(body)


class GraphIntegers:
    """The integers of one graph: a whole file, or a body.

    Parameters
    ----------
    constants : mapping of int to Constant
        Constants of this graph, by layer id.
    """

    def __init__(self, graph: GraphView, constants: Mapping[int, Constant], reader: WeightsReader) -> None:
        self.graph = graph
        self._constants = constants
        self._reader = reader
        self._values: dict[tuple[int, int], tuple[int | None, ...] | None] = {}

    def shape(self, op: int, index: int) -> tuple[int, ...]:
        """Shape of a port of an op as the file records it, by position, inputs first; empty if it has no such port."""
        shapes = self.graph.port_shapes(op)
        return shapes[index] if index < len(shapes) else ()

    def of(self, source: Source, depth: int = 0) -> tuple[int | None, ...] | None:
        """The values of a vector or scalar; None in place of those that are computed, or None for an unknown length.

        A Concat of constants and computed values, as an exporter writes it for the target of a Reshape, has both.
        """
        key = source.op, depth  # a deeper value may be cut off
        if key not in self._values:
            self._values[key] = self._read(source, depth)
        return self._values[key]

    def _read(self, source: Source, depth: int) -> tuple[int | None, ...] | None:
        constant = self._constants.get(source.op)
        if constant is not None:
            return self._reader.integers(constant, _MOST)
        kind, inputs = self.graph.op_type(source.op), self.graph.inputs(source.op)
        if depth < _DEEPEST and inputs:
            if kind in _SAME:
                inner = self.of(inputs[0], depth + 1)
                if inner is not None:
                    return inner
            if kind == "Concat":
                pieces = [self.of(piece, depth + 1) for piece in inputs] if len(inputs) <= _MOST else [None]
                if all(piece is not None for piece in pieces) and sum(len(piece or ()) for piece in pieces) <= _MOST:
                    return tuple(value for piece in pieces for value in piece or ())
        # Only the output that is read has a shape to offer; ops with two integer outputs shape no graph.
        shape = self.shape(source.op, len(inputs))
        known = len(shape) == 1 and 0 <= shape[0] <= _MOST
        return (None,) * shape[0] if known else None
