"""Weights of a part: every constant of the file, with its scale and zero point if it is compressed.

Only the XML is read; the ``.bin`` is never opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from irtools.ir.constants import Constant, read_constants
from irtools.ir.op import FLOATS, INTEGERS
from irtools.ir.scan import BODY_OWNERS

if TYPE_CHECKING:
    from irtools.graph.view import GraphView

__all__ = ["Weight", "covered_bytes", "weights"]

_PASSING = ("Convert", "Reshape", "Transpose", "Squeeze", "Unsqueeze")
_NOT_LEARNED = INTEGERS | {"boolean", "string"}
_PLAIN = FLOATS | _NOT_LEARNED

_LONGEST = 64  # ops in the longest chain from a stored constant to the value that is used
_STEPS = 20  # most steps of the walks from all constants, per edge


class Weight(NamedTuple):
    """A constant with the constants that decompress it.

    Attributes
    ----------
    constant : Constant
        Constant with the values.
    shape : tuple of int
        Shape at the consumer; a grouped constant is reshaped before.
    kind : str
        Use in the model as given to :func:`weights`: ``embedding``, ``attention``, ``mlp``, ``experts``,
        ``head``, ... Several uses (tied weights) are joined by ``+``; the default is ``other``.
    consumers : tuple of int
        Layer ids of the ops that read it, in its graph.
    body : str
        Path of the body that contains it, such as the friendly name of a Loop, ``/`` and the name of the body;
        empty at the top level.
    owner : int or None
        Layer id of that Loop or If at the top level.
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
        """The values, scale and zero point that exist."""
        return tuple(part for part in (self.constant, self.scale, self.zero_point) if part is not None)

    @property
    def size(self) -> int:
        """Bytes in the ``.bin``, scale and zero point included."""
        if self.scale is None and self.zero_point is None:
            return self.constant.size
        return sum(part.size for part in self.parts)

    @property
    def elements(self) -> int:
        """Number of values."""
        return self.constant.elements

    @property
    def learned(self) -> bool:
        """True for probable weights; false for axes, shapes, epsilons and flags."""
        plain = self.scale is None and self.constant.element_type in _NOT_LEARNED
        return not plain and self.constant.elements > 1

    @property
    def group_size(self) -> int | None:
        """Number of values per scale along the last axis; None if not compressed in groups."""
        scale, values = self.scale, self.constant.shape
        if scale is None or len(scale.shape) != len(values) or len(values) <= len(self.shape):
            return None
        return values[-1] if scale.shape[-1] == 1 and scale.elements > 1 else None

    @property
    def precision(self) -> str:
        """Element type and scheme: ``f32``, ``u4 asymmetric, groups of 64``, ``i8 symmetric, per channel``."""
        kind = self.constant.element_type
        if self.scale is None:
            return kind
        scheme = "asymmetric" if self.zero_point is not None else "symmetric"
        if self.group_size:
            return f"{kind} {scheme}, groups of {self.group_size}"
        return f"{kind} {scheme}, per {'tensor' if self.scale.elements == 1 else 'channel'}"


def weights(graph: GraphView, kinds: Mapping[int, str] | None = None) -> tuple[Weight, ...]:
    """Constants with their scales and zero points.

    Parameters
    ----------
    kinds : mapping of int to str, optional
        Part of the model of each op at the top level, by layer id.

    Returns
    -------
    tuple of Weight
        In file order, bodies last. Every constant is in one of them, as values, scale or zero point.
    """
    table = graph.scan.once("weights", lambda: _table(graph))
    return tuple(_of_kind(weight, kinds) for weight in table) if kinds else table


def _of_kind(weight: Weight, kinds: Mapping[int, str]) -> Weight:
    """The weight with its use in the model."""
    constant, shape, _, consumers, body, owner, scale, zero_point = weight
    users = consumers if owner is None else (owner,)
    uses = {kinds[user] for user in users if user in kinds}
    if not uses:
        return weight
    kind = uses.pop() if len(uses) == 1 else "+".join(sorted(uses))
    return Weight(constant, shape, kind, consumers, body, owner, scale, zero_point)


def _table(graph: GraphView) -> tuple[Weight, ...]:
    found: list[Weight] = []
    pending: list[tuple[GraphView, str, int | None]] = [(graph, "", None)]
    while pending:
        current, body, owner = pending.pop()
        found += _weights(current, body, owner)
        inner = [
            (view, f"{body}/{current.op_name(key)}/{name}".lstrip("/"), key if owner is None else owner)
            for kind in BODY_OWNERS
            for key in current.by_type.get(kind, ())
            for name, view in current.bodies(key).items()
        ]
        pending += reversed(inner)
    return tuple(found)


def _weights(graph: GraphView, body: str, owner: int | None) -> Iterator[Weight]:
    table = {constant.id: constant for constant in read_constants((graph.scan,))}
    readers = graph.constant_readers()
    candidates: dict[int, Weight] = {}
    taken: set[int] = set()
    left = _STEPS * (len(graph.scan.edges) + 1000)
    for key, constant in table.items():
        end, users, steps = _users(graph, key, readers, left)
        left -= steps
        values, scale, zero_point = _decompression(graph, end, table) if end != key else (key, None, None)
        if scale is None or values != key:
            scale = zero_point = None
        weight = Weight(constant, graph.output_shape(end), "other", users, body, owner, scale, zero_point)
        candidates[key] = weight
        if scale is not None:
            taken |= {part.id for part in weight.parts[1:]}
    yield from (weight for key, weight in candidates.items() if key not in taken)


def _users(
    graph: GraphView, key: int, readers: Mapping[int, Sequence[int]], most: int
) -> tuple[int, tuple[int, ...], int]:
    """Last constant op after a constant, all non-constant consumers of the constant ops, and the steps that it took.

    The walk ends after ``most`` steps: the constants of a damaged file can all lead to all of its ops.
    """
    end, steps, below = key, 0, readers.get(key, ())
    while len(below) == 1:  # almost all constants: one op after the other
        steps += 1
        if not graph.constant(below[0]):
            return end, (below[0],), steps
        end = below[0]
        below = readers.get(end, ())
    users: dict[int, None] = {}
    pending, seen, end, steps = [key], {key}, key, 0
    for current in pending:
        if steps > most:
            break
        inner = False
        below = readers.get(current, ())
        steps += len(below)
        for reader in below:
            if not graph.constant(reader):
                users[reader] = None
            elif reader not in seen:
                seen.add(reader)
                pending.append(reader)
                inner = True
        if not inner and end == key:
            end = current
    return end, tuple(users), steps


def _decompression(
    graph: GraphView, end: int, table: Mapping[int, Constant]
) -> tuple[int, Constant | None, Constant | None]:
    """Constant with the values (layer id), scale and zero point of the value computed by ``end``."""
    scale = zero_point = None
    key = end
    for _ in range(_LONGEST):
        if key in table:
            # A product of two uncompressed constants is not a decompression.
            return (key, None, None) if table[key].element_type in _PLAIN else (key, scale, zero_point)
        sources = graph.producers(key)
        kind = graph.op_type(key)
        if kind == "Multiply" and len(sources) == 2 and scale is None:
            # The scale has one element per group, channel or tensor.
            key, other = sorted(sources, key=lambda source: prod(graph.output_shape(source)), reverse=True)
            scale = _leaf(graph, other, table)
        elif kind == "Subtract" and len(sources) == 2 and zero_point is None:
            key, zero_point = sources[0], _leaf(graph, sources[1], table)
        elif kind in _PASSING and sources:
            key = sources[0]
        else:
            return key, None, None
    return key, None, None


def _leaf(graph: GraphView, key: int, table: Mapping[int, Constant]) -> Constant | None:
    """Constant at the start of a chain of conversions; of a scale with a scale of its own, the larger one."""
    for _ in range(_LONGEST):
        if key in table:
            return table[key]
        sources = graph.producers(key)
        if not sources or graph.op_type(key) not in (*_PASSING, "Multiply"):
            return None
        key = max(sources, key=lambda source: prod(graph.output_shape(source))) if len(sources) > 1 else sources[0]
    return None


def covered_bytes(constants: Iterable[Constant]) -> int:
    """Number of bytes of the ``.bin`` that constants use; shared bytes count once."""
    covered = end = 0
    for offset, size in sorted((constant.offset, constant.size) for constant in constants):
        covered += max(0, offset + size - max(end, offset))
        end = max(end, offset + size)
    return covered
