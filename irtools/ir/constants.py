"""Constants of an IR, read from the XML; the ``.bin`` is never opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from math import prod
from typing import NamedTuple

from irtools.ir.op import MOST_DIMENSIONS, data_attributes
from irtools.ir.scan import BODY_OWNERS, Scan, Span, bodies
from irtools.text import whole_number

__all__ = ["ELEMENT_BITS", "Constant", "byte_size", "iter_graphs", "read_constant", "read_constants"]

ELEMENT_BITS = {
    "u1": 1,
    "u2": 2,
    "u3": 3,
    **dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), 4),
    "u6": 6,
    **dict.fromkeys(("boolean", "u8", "i8", "f8e4m3", "f8e5m2", "f8e8m0"), 8),
    **dict.fromkeys(("u16", "i16", "f16", "bf16"), 16),
    **dict.fromkeys(("u32", "i32", "f32"), 32),
    **dict.fromkeys(("u64", "i64", "f64"), 64),
}
"""Bits per element. Strings are absent because their size depends on the content."""

_PLAIN = re.compile(
    rb'<data element_type="(\w+)" shape="((?:[0-9]{1,18}(?:, ?[0-9]{1,18})*)?)" offset="([0-9]{1,18})" '
    rb'size="([0-9]{1,18})"\s*/?>'
)

_PLAIN_SHAPE = 19  # characters of a shape whose product needs no check
MOST_ELEMENTS = 2**60
"""Elements in the largest constant; the number of its bytes fits into 64 bits."""


class Constant(NamedTuple):
    """One constant. A model has hundreds of thousands, and a dataclass takes three times as long to make.

    Attributes
    ----------
    id : int
        Layer id in its graph.
    name : str
        Friendly name.
    offset, size : int
        Bytes in the ``.bin``.
    span : Span
        Byte range of the ``<layer>`` in the file.
    in_body : bool
        True if the constant is in the body of a Loop, TensorIterator or If.
    faults : tuple of str
        Attributes of ``<data>`` that are missing or not numeric; their fields are 0 or ``()``.
    """

    id: int
    name: str
    element_type: str
    shape: tuple[int, ...]
    offset: int
    size: int
    span: Span
    in_body: bool = False
    faults: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        return self.offset + self.size

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def byte_size(element_type: str, elements: int) -> int | None:
    """Number of bytes that OpenVINO stores elements in; None if the type does not determine it.

    Examples
    --------
    >>> byte_size("u4", 7), byte_size("u3", 9), byte_size("string", 3)
    (4, 6, None)
    """
    bits = ELEMENT_BITS.get(element_type)
    if bits is None:
        return None
    if element_type in ("u3", "u6"):  # three bytes hold 8 or 4 elements
        return 3 * -(-elements * bits // 24)
    return -(-elements * bits // 8)


def iter_graphs(scan: Scan) -> Iterator[Scan]:
    """Yield a graph and all graphs nested in it, each before those inside it."""
    pending = [scan]
    while pending:
        graph = pending.pop()
        yield graph
        if not frozenset(BODY_OWNERS).isdisjoint(graph.types):
            owners = (span for kind, span in zip(graph.types, graph.spans, strict=True) if kind in BODY_OWNERS)
            pending += [body for span in owners for _, body in bodies(graph, span)][::-1]


def read_constants(graphs: Iterable[Scan]) -> tuple[Constant, ...]:
    """Constants of the graphs from :func:`iter_graphs`, in file order; all graphs after the first are bodies."""
    first, *bodies = [
        graph.once("constants in a body" if number else "constants", partial(_of_graph, graph, number > 0))
        for number, graph in enumerate(graphs)
    ] or [()]
    return (*first, *chain.from_iterable(bodies)) if bodies else first


def _of_graph(graph: Scan, in_body: bool) -> tuple[Constant, ...]:
    return tuple(
        _constant(graph.data, key, name, span, in_body)
        for key, name, kind, span in zip(graph.ids, graph.names, graph.types, graph.spans, strict=True)
        if kind in ("Const", "Constant")
    )


def read_constant(scan: Scan, position: int) -> Constant | None:
    """The constant at a position of a graph that is not a body; None if another op is there."""
    if scan.types[position] not in ("Const", "Constant"):
        return None
    return _constant(scan.data, scan.ids[position], scan.names[position], scan.spans[position], False)


def _constant(data: bytes, key: int, name: str, span: Span, in_body: bool) -> Constant:
    plain = _PLAIN.search(data, span.start, span.end)
    if plain is not None and len(plain[2]) < _PLAIN_SHAPE:
        shape = tuple([int(dim) for dim in plain[2].split(b",")]) if plain[2] else ()
        return Constant(key, name, plain[1].decode(), shape, int(plain[3]), int(plain[4]), span, in_body)
    attributes = data_attributes(data, span)
    numbers = {key: whole_number(attributes.get(key, "")) for key in ("offset", "size")}
    shape_text = attributes.get("shape", "").strip()
    dims = [whole_number(dim.strip()) for dim in shape_text.split(",")] if shape_text else []
    shape = tuple(dim for dim in dims if dim is not None and dim >= 0)
    faults = [key for key, number in numbers.items() if number is None or number < 0]
    if (
        len(shape) < len(dims)
        or len(dims) > MOST_DIMENSIONS
        or prod(shape) > MOST_ELEMENTS
        or "shape" not in attributes
    ):
        faults.append("shape")
    return Constant(
        key,
        name,
        attributes.get("element_type", ""),
        () if "shape" in faults else shape,
        max(numbers["offset"] or 0, 0),
        max(numbers["size"] or 0, 0),
        span,
        in_body,
        tuple(faults),
    )
