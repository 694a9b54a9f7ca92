"""Matrices of an MTP head, each with the matrices of the target that do the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from irtools.anatomy.blocks import LayerBlocks
from irtools.graph.view import GraphView

__all__ = ["HeadMatrix", "Place", "layer_matrices", "named_product", "place", "unique"]

Place = tuple[str, int]
"""Friendly name of an op and the index of one of its inputs."""
_SMALLEST = 1024
"""Elements of a matrix; the structure of smaller ones varies too much by chance."""
_LARGEST = 2**28
"""Elements; larger constants, such as those of many experts, are not decompressed."""
_NUMBERED = re.compile(r"Constant_\d+")


@dataclass(frozen=True, slots=True)
class HeadMatrix:
    """A matrix of the head.

    Attributes
    ----------
    name : str
        Friendly name of its constant, or of the MatMul if the exporter gave the constant only a number.
    place : Place
        The input of the MatMul.
    counterparts : tuple of Place
        The same matrix in layers of the target with the same structure.
    """

    name: str
    place: Place
    counterparts: tuple[Place, ...] = ()


def layer_matrices(
    graph: GraphView, layer: LayerBlocks, target: GraphView, others: Sequence[LayerBlocks]
) -> Iterator[HeadMatrix]:
    """Matrices of a layer of the head; ``others`` are layers of the target with the same structure."""
    for number, block in enumerate(layer.blocks):
        own = list(_products(graph, block.ops))
        theirs = [list(_products(target, other.blocks[number].ops)) for other in others]
        theirs = [products for products in theirs if len(products) == len(own)]
        for position, product in enumerate(own):
            found = [named_product(target, products[position]) for products in theirs]
            one = named_product(graph, product)
            if one is not None:
                yield HeadMatrix(one.name, one.place, tuple(other.place for other in found if other is not None))


def named_product(graph: GraphView, op: int) -> HeadMatrix | None:
    """The constant operand of a MatMul; None if it is too small or too large, or its name is not unique."""
    index = next(index for index, source in enumerate(graph.inputs(op)) if graph.constant(source.op))
    source = graph.inputs(op)[index]
    shape = graph.shape(source)
    if math.prod(shape[-2:]) < _SMALLEST or math.prod(shape) > _LARGEST or not unique(graph, op):
        return None
    key = source.op
    while graph.producers(key):
        key = graph.producers(key)[0]
    name = graph.op_name(key)
    return HeadMatrix(graph.op_name(op) if _NUMBERED.fullmatch(name) else name, place(graph, op, index))


def place(graph: GraphView, op: int, index: int) -> Place:
    """Place of an input."""
    return graph.op_name(op), index


def unique(graph: GraphView, op: int) -> bool:
    """True if no other live op of the graph has the name of this one."""
    return len(graph.live_named(graph.op_name(op))) == 1


def _products(graph: GraphView, ops: Iterable[int]) -> Iterator[int]:
    """MatMuls with one constant operand, in graph order."""
    for op in sorted(ops, key=graph.rank.__getitem__):
        if graph.op_type(op) == "MatMul" and sum(map(graph.constant, graph.producers(op))) == 1:
            yield op
