"""What differs between the ops of two aligned graphs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from irtools.compare.align import Alignment
from irtools.compare.labels import COMMUTATIVE, Graph, attributes
from irtools.compare.model import Change, OpChange, OpRef, WeightChange
from irtools.compare.stored import StoredPair
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant
from irtools.ir.op import Op, Port
from irtools.text import plural, shape_text

__all__ = ["Found", "OpComparer", "port_text", "renamed"]

_PORTS = frozenset(("Parameter", "Result"))
_NAME_KEYS = ("fused_names", "original_name")
_GENERATED = re.compile(r"([A-Za-z]\w*?)_\d+(?:[/.]\w+)?")
_WHOLE = ("i64", "i32")
_MOST_NUMBERS = 8


@dataclass
class Found:
    """Differences of one region while they are gathered; fields as of ``RegionDiff``."""

    removed: list[OpRef] = field(default_factory=list)
    added: list[OpRef] = field(default_factory=list)
    changed: list[OpChange] = field(default_factory=list)
    weights: list[WeightChange] = field(default_factory=list)
    renamed: int = 0


def port_text(port: Port) -> str:
    """Type and shape of a value."""
    return f"{port.element_type} {shape_text(port.shape)}"


def renamed(one: str, other: str) -> bool:
    """Whether two names differ in more than the number that OpenVINO gives what has no name."""
    if one == other:
        return False
    first, second = _GENERATED.fullmatch(one), _GENERATED.fullmatch(other)
    return first is None or second is None or first[1] != second[1]


class OpComparer:
    """Compares ops that are paired, and lists those that are not.

    Parameters
    ----------
    stored : StoredPair
        The weights of both files.
    """

    def __init__(self, stored: StoredPair) -> None:
        self.stored = stored

    def compare(self, alignment: Alignment, ops_a: Collection[int], ops_b: Collection[int], found: Found) -> None:
        """Compare some ops of ``a`` with their pairs, and find ops of ``b`` that have none."""
        for op in ops_a:
            other = alignment.to_b.get(op)
            if other is not None:
                self._pair(alignment, op, other, found)
            elif alignment.a.view.op_type(op) not in _PORTS:
                found.removed.append(_ref(alignment.a, op))
        for op in ops_b:
            if op not in alignment.to_a and alignment.b.view.op_type(op) not in _PORTS:
                found.added.append(_ref(alignment.b, op))

    def _pair(self, alignment: Alignment, one: int, other: int, found: Found) -> None:
        a, b = alignment.a, alignment.b
        refs = (_ref(a, one), _ref(b, other))
        found.weights += self.stored.compare(a, b, refs)
        first, second = a.view.op(one), b.view.op(other)
        structure = [*_rewired(alignment, one, other)]
        if a.fine(one) != b.fine(other):
            structure += _attributes(first, second)
            structure += self._inside(alignment, one, other, found)
            self._add(found, refs, "shapes", list(_outputs(first, second)))
        structure += _constants(a, b, first, second)
        self._add(found, refs, "structure", structure)
        self._add(found, refs, "rt_info", list(_rt_info(first, second)))
        if first.opset != second.opset:
            self._add(found, refs, "versions", [Change("opset", first.opset, second.opset)])
        found.renamed += renamed(first.name, second.name)

    def _add(self, found: Found, refs: tuple[OpRef, OpRef], category: str, changes: list[Change]) -> None:
        if changes:
            found.changed.append(OpChange(*refs, category, tuple(changes)))  # type: ignore[arg-type]

    def _inside(self, alignment: Alignment, one: int, other: int, found: Found) -> Iterator[Change]:
        """Compare the bodies of a Loop or If."""
        a, b = alignment.a, alignment.b
        first, second = a.bodies(one), b.bodies(other)
        for name in first.keys() & second.keys():
            inner = Alignment(first[name], second[name], alignment.palette)
            ops_a, ops_b = inner.a.ops, inner.b.ops
            inner.region(ops_a, ops_b)
            self.compare(inner, ops_a, ops_b, found)
        if first and a.wiring(one) != b.wiring(other):
            yield Change("connections of the body", "", "")


def _ref(graph: Graph, op: int) -> OpRef:
    return OpRef(op, graph.view.op_name(op), graph.view.op_type(op), graph.body)


def _attributes(first: Op, second: Op) -> Iterator[Change]:
    if first.type != second.type:
        yield Change("type", first.type, second.type)
        return
    one, other = dict(attributes(first)), dict(attributes(second))
    if first.type in _PORTS:
        return  # what they say are the type and shape of the port
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key):
            yield Change(key, one.get(key), other.get(key))


def _outputs(first: Op, second: Op) -> Iterator[Change]:
    for index, (one, other) in enumerate(zip(first.outputs, second.outputs, strict=False)):
        if (one.element_type, one.shape) != (other.element_type, other.shape):
            yield Change(f"output {index}", port_text(one), port_text(other))
    if len(first.outputs) != len(second.outputs):
        yield Change("outputs", str(len(first.outputs)), str(len(second.outputs)))


def _constants(a: Graph, b: Graph, first: Op, second: Op) -> Iterator[Change]:
    """Small constants that an op reads as they are: axes, shapes, an epsilon."""
    counts = len(a.view.inputs(first.id)), len(b.view.inputs(second.id))
    if counts[0] != counts[1]:
        yield Change("number of inputs", *map(str, counts))
        return
    sides = _direct(a, first), _direct(b, second)
    for index, (one, other) in enumerate(zip(*sides, strict=False)):
        if one is None or other is None:
            continue  # computed, such as a decompressed weight
        before, now = a.blob.numbers(one, floats=True), b.blob.numbers(other, floats=True)
        if before is None or now is None:
            declared = [_declared(constant) for constant in (one, other)]
            if declared[0] != declared[1] and one.element_type == other.element_type in _WHOLE:
                yield Change(f"constant {index}", *declared)
        elif before != now and _comparable(before, now) and not _close(before, now):
            texts = [_value_text(constant, numbers) for constant, numbers in ((one, before), (other, now))]
            yield Change(f"constant {index}", *texts)


def _declared(constant: Constant) -> str:
    return f"{constant.element_type} {shape_text(constant.shape)}, {plural(constant.size, 'byte')}"


def _direct(graph: Graph, op: Op) -> list[Constant | None]:
    """Constants that an op reads as they are; None for an input that is computed from constants."""
    inputs = [source for source in graph.view.inputs(op.id) if graph.view.constant(source.op)]
    return [graph.constants.get(source.op) for source in inputs]


def _comparable(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether they are part of what an op is; several floats are weights."""
    return len(one) == len(other) == 1 or _whole(one, other)


def _whole(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(isinstance(value, int) for value in (*one, *other))


def _close(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two numbers are the same but for the precision that they are stored in."""
    return all(abs(x - y) <= 1e-3 * abs(x) and isinstance(x, float) for x, y in zip(one, other, strict=False))


def _value_text(constant: Constant, numbers: tuple[float, ...]) -> str:
    """Numbers as they are; bytes that spell a word, as tokenizers store them, as that word."""
    text = "".join(chr(int(number)) for number in numbers) if constant.element_type == "u8" else ""
    return f'"{text}"' if len(text) > 1 and text.isascii() and text.isprintable() else _number_text(numbers)


def _number_text(numbers: tuple[float, ...]) -> str:
    shown = ", ".join(f"{number:g}" if isinstance(number, float) else str(number) for number in numbers[:_MOST_NUMBERS])
    more = ", ..." if len(numbers) > _MOST_NUMBERS else ""
    return shown if len(numbers) == 1 else f"[{shown}{more}]"


def _rt_info(first: Op, second: Op) -> Iterator[Change]:
    one, other = first.rt_info, second.rt_info
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key) and not key.startswith(_NAME_KEYS):
            yield Change(key, one.get(key), other.get(key))


def _rewired(alignment: Alignment, one: int, other: int) -> Iterator[Change]:
    """Inputs that come from somewhere else, both places being on both sides."""
    a, b = alignment.a.view, alignment.b.view
    first, second = a.inputs(one), b.inputs(other)
    wanted = {(alignment.to_b.get(source.op), source.port) for source in first}
    swaps = a.op_type(one) in COMMUTATIVE
    for index, (source, now) in enumerate(zip(first, second, strict=False)):
        known = source.op in alignment.to_b and now.op in alignment.to_a
        same = now in wanted if swaps else alignment.corresponds(source.op, now.op)
        if known and not same:
            yield Change(f"input {index}", a.op_name(source.op), b.op_name(now.op))
        elif known and not swaps and _output(a, source) != _output(b, now):
            outputs = _output(a, source), _output(b, now)
            yield Change(f"input {index}", *(f"{output} of {a.op_name(source.op)}" for output in outputs))


def _output(view: GraphView, source: Source) -> str:
    return f"output {view.output_index(source)}" if view.port(source) is not None else "no output"
