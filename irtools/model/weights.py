"""The weights of a part: every constant of the file, and what compression did to it.

Only the XML is read; the ``.bin`` is never opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from irtools.ir.constants import Constant, read_constants

if TYPE_CHECKING:
    from irtools.graph.view import GraphView

__all__ = ["Weight", "by_precision", "covered_bytes", "weights"]

_PASSING = ("Convert", "Reshape", "Transpose", "Squeeze", "Unsqueeze")
_PLAIN = ("f64", "f32", "f16", "bf16", "i64", "i32", "u64", "u32", "boolean", "string")
_NOT_LEARNED = ("i64", "i32", "u64", "u32", "boolean", "string")
_BODY_OWNERS = ("Loop", "TensorIterator", "If")


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant as the model uses it: together with what decompresses it.

    Attributes
    ----------
    constant : Constant
        That holds the values.
    shape : tuple of int
        As the consumer sees it (a grouped constant is reshaped first).
    kind : str
        What it is for: ``embedding``, ``attention``, ``mlp``, ``experts``, ``head``, ... as
        given to :func:`weights`; several (tied weights) are joined by ``+``; ``other`` when
        nobody said.
    consumers : tuple of int
        Layer ids of the ops that read it, in the graph that it is in.
    body : str
        Where it is when not at the top level: friendly name of the Loop or If and of the body,
        separated by ``/``.
    owner : int or None
        Layer id of that Loop or If at the top level.
    scale, zero_point : Constant or None
    """

    constant: Constant
    shape: tuple[int, ...]
    kind: str
    consumers: tuple[int, ...]
    body: str = ""
    owner: int | None = None
    scale: Constant | None = None
    zero_point: Constant | None = None

    @property
    def parts(self) -> tuple[Constant, ...]:
        """The constants it consists of."""
        return tuple(part for part in (self.constant, self.scale, self.zero_point) if part is not None)

    @property
    def size(self) -> int:
        """Bytes in the ``.bin``, scale and zero point included."""
        return sum(part.size for part in self.parts)

    @property
    def elements(self) -> int:
        """Number of values."""
        return self.constant.elements

    @property
    def learned(self) -> bool:
        """Whether it looks like weights, and not like an axis, a shape, an epsilon or a flag."""
        return self.elements > 1 and (self.scale is not None or self.constant.element_type not in _NOT_LEARNED)

    @property
    def group_size(self) -> int | None:
        """Values that share one scale along the last axis; None per channel, per tensor or uncompressed."""
        scale, values = self.scale, self.constant.shape
        if scale is None or len(scale.shape) != len(values) or len(values) <= len(self.shape):
            return None
        return values[-1] if scale.shape[-1] == 1 and scale.elements > 1 else None

    @property
    def precision(self) -> str:
        """Type and scheme: ``f32``, ``u4 asymmetric, groups of 64``, ``i8 symmetric, per channel``."""
        kind = self.constant.element_type
        if self.scale is None:
            return kind
        scheme = "asymmetric" if self.zero_point is not None else "symmetric"
        if self.group_size:
            return f"{kind} {scheme}, groups of {self.group_size}"
        return f"{kind} {scheme}, per {'tensor' if self.scale.elements == 1 else 'channel'}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a graph is: at the top level, or in a body."""

    body: str = ""
    owner: int | None = None


def _bodies(graph: GraphView, place: _Place) -> Iterator[tuple[GraphView, _Place]]:
    for kind in _BODY_OWNERS:
        for owner in graph.by_type.get(kind, ()):
            for name, body in graph.bodies(owner).items():
                path = f"{place.body}/{graph.op_name(owner)}/{name}".lstrip("/")
                yield body, _Place(path, owner if place.owner is None else place.owner)


def weights(graph: GraphView, kinds: Mapping[int, str] | None = None) -> tuple[Weight, ...]:
    """The weights table: constants joined with their scale and zero point.

    Parameters
    ----------
    graph : GraphView
    kinds : mapping of int to str, optional
        What each op of the top level is part of, by layer id.

    Returns
    -------
    tuple of Weight
        In file order, bodies last. Every constant is in one of them, as values, scale or zero
        point.
    """
    return tuple(_weights(graph, kinds or {}, _Place()))


def _weights(graph: GraphView, kinds: Mapping[int, str], place: _Place) -> Iterator[Weight]:
    table = {constant.id: constant for constant in read_constants((graph.scan,))}
    found: dict[int, Weight] = {}
    taken: set[int] = set()
    for key, constant in table.items():
        end, users = _users(graph, key)
        values, scale, zero_point = _decompression(graph, end, table)
        if scale is None or values != key:
            scale = zero_point = None
        kind = _kind(users if place.owner is None else (place.owner,), kinds)
        found[key] = Weight(constant, _shape_after(graph, end), kind, users, place.body, place.owner, scale, zero_point)
        taken |= {part.id for part in found[key].parts[1:]}
    yield from (weight for key, weight in found.items() if key not in taken)
    for body, inner in _bodies(graph, place):
        yield from _weights(body, kinds, inner)


def _kind(users: Iterable[int], kinds: Mapping[int, str]) -> str:
    return "+".join(sorted({kinds[user] for user in users if user in kinds})) or "other"


def _users(graph: GraphView, key: int) -> tuple[int, tuple[int, ...]]:
    """The last constant op on the way from a constant, and all ops behind such that are none."""
    users: dict[int, None] = {}
    pending, seen, end = [key], {key}, key
    for current in pending:
        inner = False
        for consumer in graph.consumers(current):
            if not graph.constant(consumer.op):
                users[consumer.op] = None
            elif consumer.op not in seen:
                seen.add(consumer.op)
                pending.append(consumer.op)
                inner = True
        if not inner and end == key:
            end = current
    return end, tuple(users)


def _decompression(
    graph: GraphView, end: int, table: Mapping[int, Constant]
) -> tuple[int, Constant | None, Constant | None]:
    """Constant with the values, scale and zero point of what arrives at ``end``."""
    scale = zero_point = None
    key = end
    while key not in table:
        sources = graph.producers(key)
        kind = graph.op_type(key)
        if kind == "Multiply" and len(sources) == 2 and scale is None:
            # The scale has one element per group, channel or tensor.
            key, other = sorted(sources, key=lambda source: _elements(graph, source), reverse=True)
            scale = _leaf(graph, other, table)
        elif kind == "Subtract" and len(sources) == 2 and zero_point is None:
            key, zero_point = sources[0], _leaf(graph, sources[1], table)
        elif kind in _PASSING and sources:
            key = sources[0]
        else:
            return key, None, None
    # A product of two plain constants is no decompression.
    return (key, None, None) if table[key].element_type in _PLAIN else (key, scale, zero_point)


def _leaf(graph: GraphView, key: int, table: Mapping[int, Constant]) -> Constant | None:
    """The constant behind a chain of conversions."""
    while key not in table:
        sources = graph.producers(key)
        if graph.op_type(key) not in _PASSING or not sources:
            return None
        key = sources[0]
    return table[key]


def _shape_after(graph: GraphView, key: int) -> tuple[int, ...]:
    outputs = graph.op(key).outputs
    return outputs[0].shape if outputs else ()


def _elements(graph: GraphView, key: int) -> int:
    return prod(_shape_after(graph, key))


def covered_bytes(found: Iterable[Constant]) -> int:
    """Bytes of the ``.bin`` that some constant refers to; what several share counts once."""
    covered = end = 0
    for offset, size in sorted((constant.offset, constant.size) for constant in found):
        covered += max(0, offset + size - max(end, offset))
        end = max(end, offset + size)
    return covered


def by_precision(found: Sequence[Weight]) -> dict[str, int]:
    """Bytes per precision, the largest first."""
    sizes: dict[str, int] = {}
    for weight in found:
        sizes[weight.precision] = sizes.get(weight.precision, 0) + weight.size
    return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))
