"""Compare the ops of two aligned graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from irtools.compare.align import Alignment, generated_name
from irtools.compare.differences import Category, ComparedOp, Difference, OpChange, WeightChange
from irtools.compare.labels import COMMUTATIVE, Graph, attributes
from irtools.compare.stored import StoredPair
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import Constant
from irtools.ir.op import Op, Port
from irtools.text import joined, plural, shape_text

__all__ = ["Found", "OpComparer", "port_text", "renamed"]

_PORTS = frozenset(("Parameter", "Result"))
_NAME_KEYS = ("fused_names", "original_name")
_WHOLE = ("i64", "i32")
_Origin = tuple[int | None, str]
"""Producer of an input, as an op of ``b``, and its output; None for an unpaired producer."""
_CONSTANT: _Origin = (-1, "")
_MOST_NUMBERS = 8


@dataclass
class Found:
    """Mutable differences of one region; the fields are those of ``RegionDiff``."""

    removed: list[ComparedOp] = field(default_factory=list)
    added: list[ComparedOp] = field(default_factory=list)
    changed: list[OpChange] = field(default_factory=list)
    weights: list[WeightChange] = field(default_factory=list)
    renamed: int = 0


def port_text(port: Port) -> str:
    """Type and shape of a value."""
    return f"{port.element_type} {shape_text(port.shape)}"


def renamed(one: str, other: str) -> bool:
    """True if two names differ in more than the number in a name that OpenVINO generated."""
    if one == other:
        return False
    first = generated_name(one)
    return first is None or first != generated_name(other)


class OpComparer:
    """Compares paired ops, and lists unpaired ones."""

    def __init__(self, stored: StoredPair) -> None:
        self.stored = stored

    def compare(self, alignment: Alignment, ops_a: Collection[int], ops_b: Collection[int], differences: Found) -> None:
        """Compare ops of ``a`` with their counterparts, and record unpaired ops of both sides."""
        for op in ops_a:
            other = alignment.to_b.get(op)
            if other == op and self.stored.same and alignment.unchanged(op):
                continue
            if other is not None:
                self._pair(alignment, op, other, differences)
            elif alignment.a.view.op_type(op) not in _PORTS:
                differences.removed.append(_ref(alignment.a, op))
        for op in ops_b:
            if op not in alignment.to_a and alignment.b.view.op_type(op) not in _PORTS:
                differences.added.append(_ref(alignment.b, op))

    def _pair(self, alignment: Alignment, one: int, other: int, differences: Found) -> None:
        a, b = alignment.a, alignment.b
        refs = (_ref(a, one), _ref(b, other))
        differences.weights += self.stored.compare(a, b, refs)
        changes: dict[Category, list[Difference]] = {"shapes": [], "structure": [*_rewired(alignment, one, other)]}
        if a.text(one) != b.text(other) or a.bodies(one):  # most ops are the same bytes, and need not be parsed
            first, second = a.view.op(one), b.view.op(other)
            if a.fine(one) != b.fine(other):
                changes["structure"] += _attributes(first, second)
                changes["structure"] += self._inside(alignment, one, other, differences)
                changes["shapes"] += _outputs(first, second)
            entries = _entries(first.rt_info, second.rt_info)
            changes["rt_info"] = [entry for entry in entries if not entry.what.startswith(_NAME_KEYS)]
            changes["versions"] = [Difference("opset", first.opset, second.opset)] * (first.opset != second.opset)
            differences.renamed += renamed(first.name, second.name)
        changes["structure"] += _constants(a, b, one, other)
        differences.changed += (OpChange(*refs, kind, tuple(changed)) for kind, changed in changes.items() if changed)

    def _inside(self, alignment: Alignment, one: int, other: int, differences: Found) -> Iterator[Difference]:
        """Compare the bodies of a Loop or If."""
        a, b = alignment.a, alignment.b
        first, second = a.bodies(one), b.bodies(other)
        for name in first.keys() & second.keys():
            inner = Alignment(first[name], second[name], alignment.palette)
            ops_a, ops_b = inner.a.ops, inner.b.ops
            inner.names(ops_a, ops_b)
            inner.region(ops_a, ops_b)
            self.compare(inner, ops_a, ops_b, differences)
        if first and a.wiring(one) != b.wiring(other):
            yield Difference("connections of the body", "", "")


def _ref(graph: Graph, op: int) -> ComparedOp:
    return ComparedOp(op, graph.view.op_name(op), graph.view.op_type(op), graph.body)


def _attributes(first: Op, second: Op) -> Iterator[Difference]:
    if first.type != second.type:
        yield Difference("type", first.type, second.type)
        return
    if first.type not in _PORTS:  # their attributes repeat the type and shape of the port
        yield from _entries(dict(attributes(first)), dict(attributes(second)))


def _entries(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[Difference]:
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key):
            yield Difference(key, one.get(key), other.get(key))


def _outputs(first: Op, second: Op) -> Iterator[Difference]:
    for index, (one, other) in enumerate(zip(first.outputs, second.outputs, strict=False)):
        if (one.element_type, one.shape) != (other.element_type, other.shape):
            yield Difference(f"output {index}", port_text(one), port_text(other))
    if len(first.outputs) != len(second.outputs):
        yield Difference("outputs", str(len(first.outputs)), str(len(second.outputs)))


def _constants(a: Graph, b: Graph, first: int, second: int) -> Iterator[Difference]:
    """Changes in the small constants that an op reads directly: axes, shapes, an epsilon."""
    counts = len(a.view.inputs(first)), len(b.view.inputs(second))
    if counts[0] != counts[1]:
        yield Difference("number of inputs", *map(str, counts))
        return
    sides = _direct(a, first), _direct(b, second)
    for index, (one, other) in enumerate(zip(*sides, strict=False)):
        if one is None or other is None:
            continue  # computed, such as a decompressed weight
        before, now = a.blob.numbers(one, floats=True), b.blob.numbers(other, floats=True)
        if before is None or now is None:
            declared = [_declared(constant) for constant in (one, other)]
            if declared[0] != declared[1] and one.element_type == other.element_type in _WHOLE:
                yield Difference(f"constant {index}", *declared)
        elif before != now and _comparable(before, now) and not _close(before, now):
            texts = [_value_text(constant, numbers) for constant, numbers in ((one, before), (other, now))]
            yield Difference(f"constant {index}", *texts)


def _declared(constant: Constant) -> str:
    return f"{constant.element_type} {shape_text(constant.shape)}, {plural(constant.size, 'byte')}"


def _direct(graph: Graph, op: int) -> list[Constant | None]:
    """Constants that an op reads directly; None for an input that is computed from constants."""
    inputs = [source for source in graph.view.inputs(op) if graph.view.constant(source.op)]
    return [graph.constants.get(source.op) for source in inputs]


def _comparable(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """True if constants belong to the structure: single values or integers. Several floats are weights."""
    return len(one) == len(other) == 1 or all(isinstance(value, int) for value in (*one, *other))


def _close(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """True if floats are equal within the precision of f16."""
    return all(abs(x - y) <= 1e-3 * abs(x) and isinstance(x, float) for x, y in zip(one, other, strict=False))


def _value_text(constant: Constant, numbers: tuple[float, ...]) -> str:
    """The numbers; printable u8 bytes, which tokenizers use for words, as text."""
    text = "".join(chr(int(number)) for number in numbers) if constant.element_type == "u8" else ""
    if len(text) > 1 and text.isascii() and text.isprintable():
        return f'"{text}"'
    shown = ", ".join(f"{number:g}" if isinstance(number, float) else str(number) for number in numbers[:_MOST_NUMBERS])
    more = ", ..." if len(numbers) > _MOST_NUMBERS else ""
    return shown if len(numbers) == 1 else f"[{shown}{more}]"


def _rewired(alignment: Alignment, one: int, other: int) -> Iterator[Difference]:
    """Inputs with another producer or output; inputs with an unpaired producer are skipped.

    All constants count as one producer: only whether an input is constant or computed is compared here.
    """
    a, b = alignment.a.view, alignment.b.view
    first, second = a.inputs(one), b.inputs(other)
    if len(first) == len(second) and all(_kept(alignment, *pair) for pair in zip(first, second, strict=True)):
        return
    before = [_CONSTANT if a.constant(each.op) else (alignment.to_b.get(each.op), _output(a, each)) for each in first]
    after = [
        _CONSTANT if b.constant(each.op) else (each.op if each.op in alignment.to_a else None, _output(b, each))
        for each in second
    ]
    if a.op_type(one) in COMMUTATIVE:
        places = list(zip(_unmatched(before, after), _unmatched(after, before), strict=False))
    else:
        places = [(at, at) for at, (was, now) in enumerate(zip(before, after, strict=False)) if was != now]
    moved = [(was, now) for was, now in places if None not in (before[was][0], after[now][0])]
    if len(moved) > 1 and Counter(before[was] for was, _ in moved) == Counter(after[now] for _, now in moved):
        order = "exchanged" if len(moved) == 2 else "in another order"
        sides = [[view.op_name(sources[at].op) for at, _ in moved] for view, sources in ((a, first), (b, second))]
        yield Difference(f"inputs {joined(at for at, _ in moved)} {order}", *(", ".join(side) for side in sides))
        return
    for was, now in moved:
        texts = (a.op_name(first[was].op), b.op_name(second[now].op))
        if before[was][0] == after[now][0] and before[was] != _CONSTANT:
            texts = (f"{before[was][1]} of {texts[0]}", f"{after[now][1]} of {texts[1]}")
        yield Difference(f"input {now}", *texts)


def _kept(alignment: Alignment, source: Source, now: Source) -> bool:
    """True if an input has the same producer and output; decided without parsing, so some that do are missed."""
    a, b = alignment.a, alignment.b
    if a.view.constant(source.op) or b.view.constant(now.op):
        return a.view.constant(source.op) and b.view.constant(now.op)
    same = alignment.corresponds(source.op, now.op) and source.port == now.port
    return same and a.text(source.op) == b.text(now.op)


def _unmatched(values: Sequence[_Origin], others: Sequence[_Origin]) -> Iterator[int]:
    """Places of the values that are left over if each is cancelled against an equal one of the others."""
    left = Counter(others)
    for at, value in enumerate(values):
        if left[value]:
            left[value] -= 1
        else:
            yield at


def _output(view: GraphView, source: Source) -> str:
    return f"output {view.output_index(source)}" if view.port(source) is not None else "no output"
