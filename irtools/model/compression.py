"""The weight compression that was requested for a part, and the element types that its weights have."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from irtools.errors import OptionError
from irtools.graph.view import GraphView
from irtools.ir.constants import ELEMENT_BITS, Constant, iter_graphs, read_constants
from irtools.ir.op import FLOATS
from irtools.ir.rt_info import read_rt_info
from irtools.model.document import Document
from irtools.model.graft import GRAFT_PREFIX

if TYPE_CHECKING:
    from irtools.model.weights import Weight

__all__ = [
    "STORED",
    "Compression",
    "CompressionRequest",
    "CompressionSpec",
    "Matrix",
    "StoredCompression",
    "parse_spec",
    "recorded_request",
]

K = TypeVar("K")
STORED = frozenset(kind for kind, bits in ELEMENT_BITS.items() if bits <= 8 and kind != "boolean")
"""Element types of compressed weights."""
_SMALLEST = 256  # elements; compression leaves smaller constants alone
_MATRIX_OPS = {"MatMul", "Gather", "Convolution", "GroupConvolution"}
_FLOAT_MODES = {
    "f4e2m1": ("mxfp4", "fp4", "nvfp4"),
    "f8e4m3": ("mxfp8_e4m3", "fp8_e4m3"),
    "nf4": ("nf4",),
}
_CODEBOOK_MODES = ("cb4", "codebook", "adaptive_codebook")
_INTEGER_MODES = tuple(f"int{bits}_{scheme}" for bits in (8, 4, 3, 2) for scheme in ("sym", "asym"))
_MODES = {*_INTEGER_MODES, *(m for modes in _FLOAT_MODES.values() for m in modes)}
_BACKUPS = ("none", "int8_sym", "int8_asym", "mxfp8_e4m3", "fp8_e4m3")
_MORE = 0.02
"""Share of the values by which the primary precision may exceed the ratio."""
_NEARLY_ALL = 0.9
"""Least share for the ratio 1: weights whose channels the group size does not divide get the backup precision."""


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
    backup : str
        Precision of the other weights; ``none`` if they stay as they were, empty if not recorded.
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
    backup: str = ""

    @property
    def spec(self) -> CompressionSpec:
        """The recorded request, to compare with the weights."""
        return CompressionSpec(self.mode, self.group_size, self.backup or None, self.ratio)

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
    scope = entry.get("ignored_scope", "[]")  # a mapping if something was excluded
    return CompressionRequest(
        text["mode"].lower().removeprefix("compressweightsmode."),
        int(_number(text.get("group_size"), -1)),
        _number(text.get("ratio"), 1.0),
        text.get("all_layers", "False").lower() == "true",
        bool(scope) if isinstance(scope, Mapping) else scope.strip() not in ("[]", "{}", "", "None"),
        text.get("backup_mode", "").lower().removeprefix("backupmode."),
    )


@dataclass(frozen=True, slots=True)
class CompressionSpec:
    """A compression as someone asks for it: mode, group size, backup precision and ratio.

    Attributes
    ----------
    mode : str
        ``int4_asym``, ``int8_sym``, ``nf4``, ...; ``none`` for no compression.
    group_size : int or None
        -1 for one scale per channel; None if it does not matter.
    backup : str or None
        Precision of the last layer, embeddings and weights outside the ratio; None if it does not matter.
    ratio : float
        Share of the values in the primary precision, from 0 to 1.
    """

    mode: str
    group_size: int | None = None
    backup: str | None = None
    ratio: float = 1.0

    @property
    def in_eight_bits(self) -> bool:
        """True for a mode without a backup precision and a ratio: all weights have the mode."""
        return self.mode.startswith("int8")


def parse_spec(text: str) -> CompressionSpec:
    """Compression from text such as ``int4_asym:64:int8_sym``: mode, group size, backup precision, ratio.

    All but the mode can be left out from the end, or be empty.

    Raises
    ------
    OptionError
        The text is no compression.

    Examples
    --------
    >>> parse_spec("int4_asym:64:int8_sym")
    CompressionSpec(mode='int4_asym', group_size=64, backup='int8_sym', ratio=1.0)
    """
    mode, *rest = (piece.strip().lower() for piece in text.split(":"))
    group, backup, ratio, *extra = [*rest, "", "", ""]
    modes = ("none", *_INTEGER_MODES, *sorted(_MODES - set(_INTEGER_MODES)), *_CODEBOOK_MODES)
    fault = ""
    if mode not in modes:
        fault = f"{mode!r} is not a mode; the modes are {', '.join(modes)}"
    elif any(extra):
        fault = "there are more than four parts"
    elif group and not re.fullmatch(r"-1|[1-9][0-9]{0,6}", group):
        fault = f"the group size {group!r} is not a positive number or -1"
    elif backup and backup not in _BACKUPS:
        fault = f"{backup!r} is not a backup precision; they are {', '.join(_BACKUPS)}"
    elif ratio and not re.fullmatch(r"0?\.[0-9]+|0|1(\.0*)?", ratio):
        fault = f"the ratio {ratio!r} is not a number from 0 to 1"
    if fault:
        hint = "Write mode:group size:backup precision:ratio, such as int4_asym:64:int8_sym."
        raise OptionError(f"the compression {text!r} cannot be read: {fault}", hint=hint)
    return CompressionSpec(mode, int(group) if group else None, backup or None, float(ratio or 1))


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
    def group_size(self) -> int | None:
        """Number of values per scale; -1 for one scale per channel, None without a scale."""
        return None if self.weight.scale is None else self.weight.group_size or -1

    @property
    def modes(self) -> tuple[str, ...]:
        """Compression modes that store a weight in this form."""
        kind, zero = self.element_type, self.weight.zero_point
        if kind in _FLOAT_MODES:
            return _FLOAT_MODES[kind]
        if kind in ("i4", "u4") and self.weight.scale is None:
            return _CODEBOOK_MODES  # indices into a table of values
        if kind in ("i4", "u4", "i8", "u8", "u3", "u2"):
            # Older NNCF versions store symmetric weights unsigned, with one zero point for all values.
            symmetric = zero is None or zero.elements == 1
            return (f"int{kind[1]}_{'sym' if symmetric else 'asym'}",)
        return ()


@dataclass(frozen=True, slots=True)
class StoredCompression:
    """The compression of a part as its constants show it.

    Attributes
    ----------
    modes, backups : tuple of str
        Modes that store weights in the form that most of them have (by values): the primary and the backup precision.
        ``("none",)`` for uncompressed weights; no ``backups`` if no weight has the backup precision.
    form, backup_form : str
        The same forms in words, or the only mode.
    group_size : int or None
        Group size of most weights in the primary precision.
    ratio : float
        Share of the compressed values in the primary precision.
    step : float
        Share of the values in the largest matrix: the ratio cannot be met more exactly.
    """

    modes: tuple[str, ...]
    form: str
    group_size: int | None
    backups: tuple[str, ...]
    backup_form: str
    ratio: float
    step: float

    def differences(self, spec: CompressionSpec) -> dict[str, str]:
        """Differences from a requested compression, by ``mode``, ``group``, ``backup`` and ``ratio``."""
        found = {}
        if spec.mode not in self.modes:
            found["mode"] = f"the weights are {self.form} instead of {spec.mode.replace('none', 'uncompressed')}"
        if spec.group_size is not None and self.group_size not in (None, spec.group_size):
            found["group"] = f"{_groups(self.group_size)} instead of {_groups(spec.group_size)}"
        if spec.mode == "none" or spec.in_eight_bits or self.modes[0].startswith(("none", "int8")):
            return found
        if spec.backup is not None and self.backups and spec.backup not in self.backups:
            found["backup"] = f"the backup precision is {self.backup_form} instead of {spec.backup}"
        least = spec.ratio - self.step - _MORE if spec.ratio < 1 else _NEARLY_ALL
        if "mode" not in found and not least <= self.ratio <= spec.ratio + _MORE:
            found["ratio"] = f"{self.ratio:.0%} of the values are {self.form} instead of {spec.ratio:.0%}"
        return found


def _groups(size: int | None) -> str:
    return "one scale per channel" if size == -1 else f"groups of {size}"


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

    @classmethod
    def of(cls, document: Document) -> Compression:
        """Read the constants of a part."""
        return cls(document, read_constants(iter_graphs(document.scan)))

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
            if values.name.startswith(GRAFT_PREFIX):
                continue  # a draft head has its own precision, which no record names
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
            return _most(self._sizes) or ""
        return _most((matrix.element_type, matrix.weight.elements) for matrix in self.inner or self.matrices) or ""

    @property
    def stored(self) -> StoredCompression:
        """Compression as the constants show it."""
        inner = self.inner or self.matrices
        done = [matrix for matrix in inner if matrix.compressed]
        bits = min((matrix.bits for matrix in done), default=0)
        primary = [matrix for matrix in done if matrix.bits == bits]
        modes = _modes(primary) or ("none",)
        others = [m for m in self.matrices if m not in primary and (m.compressed or m.role in ("last", "embedding"))]
        backups = _modes([matrix for matrix in others if matrix.compressed]) or (("none",) if others else ())
        total = sum(matrix.weight.elements for matrix in done)
        sizes = [(m.group_size, m.weight.elements) for m in primary if set(m.modes) & set(modes)]
        return StoredCompression(
            modes,
            _form(primary, modes) or f"uncompressed ({self.main_type})",
            _most(sizes),
            backups,
            _form(others, backups) or "none",
            sum(matrix.weight.elements for matrix in primary) / total if total else 1.0,
            max((matrix.weight.elements for matrix in done), default=0) / total if total else 0.0,
        )


def _modes(matrices: Iterable[Matrix]) -> tuple[str, ...]:
    """Modes of most values."""
    return _most((matrix.modes, matrix.weight.elements) for matrix in matrices) or ()


def _form(matrices: Iterable[Matrix], modes: tuple[str, ...]) -> str:
    if len(modes) == 1 and modes != ("none",):
        return modes[0]
    return _most((m.weight.precision, m.weight.elements) for m in matrices if m.modes == modes and m.compressed) or ""


def _is_matrix(shape: tuple[int, ...]) -> bool:
    wide = [size for size in shape if size > 1]
    return len(wide) > 1 and math.prod(wide) >= _SMALLEST


def _most(sizes: Iterable[tuple[K, int]]) -> K | None:
    """The key with the largest sum of sizes; None without keys."""
    totals: Counter[K] = Counter()
    for key, size in sizes:
        totals[key] += size
    return totals.most_common(1)[0][0] if totals else None


def _last_product(graph: GraphView) -> int | None:
    """The last MatMul with a constant operand, in topological order."""
    products = [
        key
        for key in graph.by_type.get("MatMul", ())
        if any(map(graph.constant, graph.producers(key))) and not graph.op_name(key).startswith(GRAFT_PREFIX)
    ]
    return max(products, key=graph.rank.__getitem__, default=None)
