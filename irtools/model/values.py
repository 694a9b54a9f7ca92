"""Classify values of a graph: norm outputs, reshaped values and rotary frequencies."""

from __future__ import annotations

from collections.abc import Iterator

from irtools.graph.view import GraphView, Source
from irtools.model.part import PartFacts

__all__ = ["carries", "norm_input", "rotary_frequencies", "rotary_widths"]

_SCALED = {"Multiply", "Add", "Divide", "Subtract"}
_ROOT = {"Sqrt", "Power", "Divide", "Add", "Maximum", "Convert", "Reshape", "Multiply"}


def _moving(graph: GraphView, key: int) -> list[Source]:
    return [source for source in graph.inputs(key) if not graph.constant(source.op)]


def norm_input(graph: GraphView, source: Source) -> Source | None:
    """The input of the RMS or layer norm that has the given value as its output, or None.

    The form is ``[scale, bias](x * (mean(x^2) + eps)^-0.5)`` or an MVN, with constant scale and bias.
    """
    for _ in range(8):
        kind = graph.op_type(source.op)
        if kind in ("MVN", "RMS", "RMSNorm", "GroupNormalization"):
            return graph.inputs(source.op)[0]
        moving = _moving(graph, source.op)
        if kind in ("Multiply", "Divide") and len(moving) == 2:
            for value, root in (moving, reversed(moving)):
                if _mean_square_of(graph, root, value):
                    return _uncentred(graph, value)
            return None
        if len(moving) != 1 or kind not in _SCALED | {"Convert", "Reshape"}:
            return None
        source = moving[0]
    return None


def _mean_square_of(graph: GraphView, root: Source, value: Source) -> bool:
    """True if ``root`` depends only on the mean of the square of ``value`` and on constants."""
    for _ in range(10):
        moving = _moving(graph, root.op)
        if not moving:
            return False
        if graph.op_type(root.op) == "ReduceMean":
            squared = _plain(graph, moving[0])
            if graph.op_type(squared.op) not in ("Power", "Multiply"):
                return False
            return all(_plain(graph, base) == _plain(graph, value) for base in _moving(graph, squared.op))
        if len(moving) != 1 or graph.op_type(root.op) not in _ROOT:
            return False
        root = moving[0]
    return False


def _uncentred(graph: GraphView, source: Source) -> Source:
    """Value from which a layer norm subtracts the mean; the value itself if it is not centred."""
    plain = _plain(graph, source)
    moving = _moving(graph, plain.op)
    if graph.op_type(plain.op) == "Subtract" and len(moving) == 2 and graph.op_type(moving[1].op) == "ReduceMean":
        return moving[0]
    return source


def _plain(graph: GraphView, source: Source) -> Source:
    """The value above all Converts."""
    while graph.op_type(source.op) == "Convert":
        source = graph.inputs(source.op)[0]
    return source


def carries(graph: GraphView, source: Source, wanted: Source) -> bool:
    """True if two values differ only by reshapes."""
    return graph.unreshaped(source) == graph.unreshaped(wanted)


def rotary_widths(part: PartFacts) -> frozenset[int]:
    """Numbers of rotary frequencies: dimensions of the constants that are multiplied with the positions."""
    return frozenset(dim for source in rotary_frequencies(part) for dim in part.graph.shape(source) if dim != 1)


def rotary_frequencies(part: PartFacts) -> frozenset[Source]:
    """Constants that are multiplied with the positions before the cosine."""
    sources = (_frequencies(part.graph, key) for key in part.live_ops("Cos"))
    return frozenset(source for source in sources if source is not None)


def _frequencies(graph: GraphView, key: int) -> Source | None:
    for above in _upward(graph, key):
        if graph.op_type(above) not in ("MatMul", "Multiply"):
            continue
        for source in graph.inputs(above):
            if graph.op_type(source.op) == "Broadcast":
                source = graph.inputs(source.op)[0]
            if graph.constant(source.op) and sum(dim != 1 for dim in graph.shape(source)) == 1:
                return source
    return None


def _upward(graph: GraphView, key: int, limit: int = 256) -> Iterator[int]:
    """Non-constant ops above an op, nearest first (``closure`` keeps no order and has no limit)."""
    pending, seen = [key], {key}
    for current in pending:
        if len(seen) > limit:
            return
        for source in _moving(graph, current):
            if source.op not in seen and graph.op_type(source.op) != "ShapeOf":
                seen.add(source.op)
                pending.append(source.op)
                yield source.op
