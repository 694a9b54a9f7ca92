"""The weight compression that was requested for a part, and the element types that its weights have."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from irtools.graph.view import GraphView
from irtools.ir.constants import ELEMENT_BITS, Constant
from irtools.ir.op import FLOATS
from irtools.ir.rt_info import read_rt_info
from irtools.model.document import Document

if TYPE_CHECKING:
    from irtools.model.weights import Weight

__all__ = ["STORED", "Compression", "CompressionRequest", "Matrix", "recorded_request"]

STORED = frozenset(kind for kind, bits in ELEMENT_BITS.items() if bits <= 8 and kind != "boolean")
"""Element types of compressed weights."""
_SMALLEST = 256  # elements; compression leaves smaller constants alone
_MATRIX_OPS = {"MatMul", "Gather", "Convolution", "GroupConvolution"}
_FLOAT_MODES = {
    "f4e2m1": ("mxfp4", "fp4", "nvfp4"),
    "f8e4m3": ("mxfp8_e4m3", "fp8_e4m3"),
    "nf4": ("nf4",),
}
_MODES = {"int8_sym", "int8_asym", "int4_sym", "int4_asym", *(m for modes in _FLOAT_MODES.values() for m in modes)}


@dataclass(frozen=True, slots=True)
class CompressionRequest:
    """Content of ``nncf/weight_compression`` in the rt_info.

    Attributes
    ----------
    mode : str
        ``int4_asym``, ``int8_sym``, ...
    group_size : int
        -1 for one scale per channel.
    ratio : float
        Share of the weights in the primary precision.
    all_layers : bool
        True if embeddings and the last layer get the primary precision too.
    ignored : bool
        True if some ops were excluded on purpose.
    """

    mode: str
    group_size: int
    ratio: float
    all_layers: bool
    ignored: bool

    @property
    def checkable(self) -> bool:
        """True if the constants show whether this mode was applied."""
        return self.mode in _MODES


def recorded_request(document: Document) -> CompressionRequest | None:
    """The request that a part's rt_info records; None if there is none."""
    nncf = read_rt_info(document.scan).get("nncf")
    entry = nncf.get("weight_compression") if isinstance(nncf, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(entry.get("mode"), str):
        return None
    text = {key: value for key, value in entry.items() if isinstance(value, str)}
    return CompressionRequest(
        text["mode"].lower().removeprefix("compressweightsmode."),
        int(_number(text.get("group_size"), -1)),
        _number(text.get("ratio"), 1.0),
        text.get("all_layers", "False").lower() == "true",
        text.get("ignored_scope", "[]").strip() not in ("[]", "{}", "", "None"),
    )


def _number(text: str | None, default: float) -> float:
    try:
        value = float(text or default)
    except ValueError:
        return default
    return value if abs(value) < 1e9 else default


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight with at least two dimensions and its role.

    The role is ``embedding``, ``last`` (the last MatMul of the graph), ``convolution`` or ``inner``.
    """

    weight: Weight
    role: str

    @property
    def element_type(self) -> str:
        """Element type of the stored values."""
        return self.weight.constant.element_type

    @property
    def compressed(self) -> bool:
        """True if the values are not stored as floats of 16 bits or more."""
        return self.element_type not in FLOATS

    @property
    def bits(self) -> int:
        """Bits per value."""
        return ELEMENT_BITS.get(self.element_type, 0)

    @property
    def modes(self) -> tuple[str, ...]:
        """Compression modes that store a weight in this form."""
        kind, zero = self.element_type, self.weight.zero_point
        if kind in _FLOAT_MODES:
            return _FLOAT_MODES[kind]
        if kind in ("i4", "u4", "i8", "u8"):
            # Older NNCF versions store symmetric weights unsigned, with one zero point for all values.
            symmetric = zero is None or zero.elements == 1
            return (f"int{kind[1]}_{'sym' if symmetric else 'asym'}",)
        return ()


class Compression:
    """The matrices of one part, whose graph can be built, and their stored precisions."""

    def __init__(self, document: Document, constants: Iterable[Constant]) -> None:
        self.document = document
        self.request = recorded_request(document)
        self._sizes = [
            (c.element_type, c.elements)
            for c in constants
            if c.element_type in FLOATS | STORED and not c.in_body and _is_matrix(c.shape)
        ]

    @cached_property
    def touched(self) -> bool:
        """True if a constant is compressed or the rt_info has a request; otherwise the graph is never read."""
        return self.request is not None or any(kind in STORED for kind, _ in self._sizes)

    @property
    def empty(self) -> bool:
        """True if the part has nothing to compress."""
        return not (self.matrices if self.touched else self._sizes)

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """Weights with at least two dimensions that a MatMul, Gather or convolution reads; empty if not ``touched``."""
        if not self.touched:
            return ()
        from irtools.model.weights import weights

        graph = self.document.graph
        last = _last_product(graph)
        matrices = []
        for weight in weights(graph):
            kinds = {graph.op_type(user) for user in weight.consumers if user in graph.index}
            values = weight.constant
            if values.element_type not in FLOATS | STORED or values.elements < _SMALLEST:
                continue  # for example the shape operand of the Reshape of a grouped weight
            if weight.body or not kinds & _MATRIX_OPS or not _is_matrix(weight.shape):
                continue
            role = "inner"
            if "Gather" in kinds:
                role = "embedding"
            elif kinds & {"Convolution", "GroupConvolution"}:
                role = "convolution"
            elif last in weight.consumers:
                role = "last"
            matrices.append(Matrix(weight, role))
        return tuple(matrices)

    @property
    def inner(self) -> tuple[Matrix, ...]:
        """Matrices that get the primary precision."""
        everything = self.request is not None and self.request.all_layers
        roles = {"inner", "last", "embedding"} if everything else {"inner"}
        return tuple(matrix for matrix in self.matrices if matrix.role in roles)

    @property
    def share(self) -> float:
        """Share of the values that are stored compressed, from 0 to 1."""
        total = sum(matrix.weight.elements for matrix in self.matrices)
        return sum(m.weight.elements for m in self.matrices if m.compressed) / total if total else 0.0

    @property
    def main_type(self) -> str:
        """Most frequent element type of the inner matrices, by number of values."""
        if not self.touched:
            return _most(self._sizes)
        return _most((matrix.element_type, matrix.weight.elements) for matrix in self.inner or self.matrices)


def _is_matrix(shape: tuple[int, ...]) -> bool:
    wide = [size for size in shape if size > 1]
    return len(wide) > 1 and math.prod(wide) >= _SMALLEST


def _most(sizes: Iterable[tuple[str, int]]) -> str:
    totals: Counter[str] = Counter()
    for key, size in sizes:
        totals[key] += size
    return totals.most_common(1)[0][0] if totals else ""


def _last_product(graph: GraphView) -> int | None:
    """The last MatMul with a constant operand, in topological order."""
    products = [key for key in graph.by_type.get("MatMul", ()) if any(map(graph.constant, graph.producers(key)))]
    return max(products, key=graph.rank.__getitem__, default=None)
