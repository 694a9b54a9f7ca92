"""Compare the weights of paired ops: precision, shape and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from irtools.compare.blob import Blob, same_bytes, same_file
from irtools.compare.differences import ComparedOp, WeightChange
from irtools.compare.labels import Graph
from irtools.ir.op import INTEGERS
from irtools.model.weights import Weight, weights

__all__ = ["StoredPair"]

_NO_FLOATS = INTEGERS | {"i16", "i8", "u16", "u8", "boolean", "string"}


class StoredPair:
    """The weights of two files; ``roles`` names the ops of ``a`` that are the ``embedding`` or the ``head``.

    Attributes
    ----------
    same : bool
        True if both files hold the same bytes.
    uncompared : int
        Pairs of weights whose values were not compared, because a file at a URL is not fetched whole.
    """

    def __init__(self, a: Graph, b: Graph, roles: dict[int, str], *, values: bool) -> None:
        self._graphs = a, b
        self._roles = roles
        self.values = values
        self.same = values and _same_files(a.blob, b.blob)
        self.uncompared = 0
        self._blobs = (a.blob, b.blob)

    @cached_property
    def _tables(self) -> dict[int, dict[int, Weight]]:
        return {
            id(graph.blob): {weight.constant.span.start: weight for weight in weights(graph.view)}
            for graph in self._graphs
        }

    def compare(self, a: Graph, b: Graph, ops: tuple[ComparedOp, ComparedOp]) -> Iterator[WeightChange]:
        """Compare the weights of two paired ops."""
        sides = [list(self._read(graph, op.id)) for graph, op in zip((a, b), ops, strict=True)]
        for one, other in zip(*sides, strict=False):
            if self._plain(one) and self._plain(other):
                continue  # an axis, a shape or an index belongs to the structure
            same_shape = one.shape == other.shape or one.elements == other.elements == 1
            differs = one.precision != other.precision or not same_shape
            if differs or (self.values and one.elements > 1 and self._other_numbers(one, other)):
                role = ops[0].type if ops[0].body else self._roles.get(ops[0].id, ops[0].type)
                precisions, shapes = (one.precision, other.precision), (one.shape, other.shape)
                yield WeightChange(*ops, role, *precisions, *shapes, values=not differs)

    @staticmethod
    def _plain(weight: Weight) -> bool:
        return weight.scale is None and weight.constant.element_type in _NO_FLOATS and weight.elements <= 64

    def _read(self, graph: Graph, op: int) -> Iterable[Weight]:
        """The weights behind the constant inputs of an op, by input index."""
        table = self._tables[id(graph.blob)]
        for source in graph.view.inputs(op):
            if graph.view.constant(source.op):
                for constant in _leaves(graph, source.op):
                    weight = table.get(graph.view.span(constant).start)
                    if weight is not None:
                        yield weight

    def _other_numbers(self, one: Weight, other: Weight) -> bool:
        pairs = list(zip(one.parts, other.parts, strict=False))
        if self.same and all(first.offset == second.offset for first, second in pairs):
            return False
        if not all(blob.whole for blob in self._blobs):
            self.uncompared += 1
            return False
        return any(first.size != second.size for first, second in pairs) or not same_bytes(*self._blobs, pairs)


def _leaves(graph: Graph, op: int) -> list[int]:
    """Constants that a constant op is computed from, in input order."""
    leaves: list[int] = []  # by hand: `closure` keeps no order
    seen, pending = {op}, [op]
    while pending:
        current = pending.pop()
        fresh = [source for source in dict.fromkeys(graph.view.producers(current)) if source not in seen]
        seen.update(fresh)
        pending += reversed(fresh)
        if graph.view.op_type(current) in ("Const", "Constant"):
            leaves.append(current)
    return leaves


def _same_files(a: Blob, b: Blob) -> bool:
    try:
        return same_file(a.path, b.path)
    except OSError:
        return False
