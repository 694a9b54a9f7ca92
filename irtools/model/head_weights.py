"""The weights of lm_head: the constant ops from the stored values to the matrix, and their vocabulary axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from irtools.errors import EditError
from irtools.graph.view import GraphView, Source

__all__ = ["HeadWeights", "head_weights"]

_ELEMENTWISE = frozenset({"Convert", "Multiply", "Subtract"})


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """The lm_head MatMul and the constant ops that compute its weights.

    Attributes
    ----------
    matmul : int
        Layer id.
    hidden : Source
        The activation that it reads, its input 0.
    weights : int
        Layer id of the op at its input 1.
    vocabulary, width : int
        Rows and columns of the weights as ``[vocabulary, width]``.
    transposed : bool
        True if the weights are ``[vocabulary, width]`` (``transpose_b``), False for ``[width, vocabulary]``.
    axes : mapping of int to int
        Vocabulary axis of the output of each op whose output has one element per token of the vocabulary, from the
        constants to the matrix.
    """

    matmul: int
    hidden: Source
    weights: int
    vocabulary: int
    width: int
    transposed: bool
    axes: Mapping[int, int]


def head_weights(graph: GraphView, matmul: int) -> HeadWeights:
    """Follow the weights of a MatMul back to their constants.

    Compressed weights are chains of Convert, Subtract, Multiply and Reshape, as NNCF and OpenVINO write them.

    Raises
    ------
    EditError
        The weights have another form.
    """
    op = graph.op(matmul)
    sources = graph.inputs(matmul)
    if len(sources) != 2 or graph.constant(sources[0].op) or not graph.constant(sources[1].op):
        raise EditError(f"the lm_head {op.name!r} does not have its weights at input 1, so its rows cannot be chosen")
    if graph.flag(matmul, "transpose_a"):
        raise EditError(f"the lm_head {op.name!r} transposes its activations, so its rows cannot be chosen")
    shape = graph.shape(sources[1])
    if len(shape) != 2:
        raise EditError(f"the weights of the lm_head {op.name!r} have the shape {list(shape)}, not two dimensions")
    transposed = graph.flag(matmul, "transpose_b")
    axis = 0 if transposed else 1
    axes: dict[int, int] = {}
    _follow(graph, sources[1].op, axis, shape[axis], axes)
    return HeadWeights(matmul, sources[0], sources[1].op, shape[axis], shape[1 - axis], transposed, axes)


def _follow(graph: GraphView, end: int, axis: int, rows: int, axes: dict[int, int]) -> None:
    """Fill in the vocabulary axis of every op, constants first."""
    pending = [(end, axis, False)]
    while pending:
        key, axis, entered = pending.pop()
        if key in axes:
            if axes[key] != axis:
                raise _unknown(graph, key)
            continue
        kind, shape = graph.op_type(key), graph.output_shape(key)
        if entered or kind == "Const":
            if shape[axis] != rows:
                raise _unknown(graph, key)
            axes[key] = axis
            continue
        pending.append((key, axis, True))
        sources = graph.inputs(key)
        if kind == "Reshape":
            inner = graph.shape(sources[0])
            pending.append((sources[0].op, _reshaped(graph, key, inner, shape, axis, rows), False))
        elif kind in _ELEMENTWISE:
            for source in sources:
                inner = graph.shape(source)
                here = axis - (len(shape) - len(inner))
                if here >= 0 and inner[here] == rows:
                    pending.append((source.op, here, False))
                elif here >= 0 and inner[here] != 1:
                    raise _unknown(graph, key)
        else:
            raise _unknown(graph, key)


def _reshaped(graph: GraphView, key: int, inner: tuple[int, ...], outer: tuple[int, ...], axis: int, rows: int) -> int:
    """Vocabulary axis before a Reshape, which merges other axes only."""
    if axis == 0 and inner[:1] == (rows,):
        return 0
    if axis == len(outer) - 1 and inner[-1:] == (rows,):
        return len(inner) - 1
    raise _unknown(graph, key)


def _unknown(graph: GraphView, key: int) -> EditError:
    return EditError(
        f"the weights of lm_head are computed by the {graph.op_type(key)} {graph.op_name(key)!r}, which is "
        "unknown there, so its rows cannot be chosen"
    )
