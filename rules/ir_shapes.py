"""IR024 and IR025: integer constants that shape the graph, read from the ``.bin``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from irtools.authoring import Context, Finding, Severity, rule
from irtools.graph.view import GraphView, Source
from irtools.model.document import Document
from irtools.model.integers import GraphIntegers
from irtools.text import plural, shape_text

_RESTORE = "Restore the .bin; it is incomplete, damaged or belongs to another model."
_REDUCTIONS = (
    *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogicalAnd", "ReduceLogicalOr"),
)
_AXES = {
    **dict.fromkeys(("Split", "VariadicSplit", "CumSum", "Squeeze", "MVN", "NormalizeL2", *_REDUCTIONS), 1),
    **dict.fromkeys(("Gather", "Roll"), 2),
    **dict.fromkeys(("ScatterUpdate", "ScatterElementsUpdate"), 3),
    "Slice": 4,
}
"""Input index of the axes, which count dimensions of input 0, by op type."""
_LARGEST = 2**31
"""No dimension, repeat count or step of a language model reaches this."""

Values = tuple[int | None, ...]


class _Site(NamedTuple):
    """One op with integers to check: the constants of its graph, its layer id, and its inputs."""

    integers: GraphIntegers
    op: int
    inputs: tuple[Source, ...]

    def values(self, index: int) -> Values | None:
        """Values of an input; None if there is none, or its length is unknown."""
        return self.integers.of(self.inputs[index]) if index < len(self.inputs) else None

    def whole(self, index: int) -> tuple[int, ...] | None:
        """Values of an input whose values are all constant."""
        values = self.values(index)
        return None if values is None or None in values else tuple([v for v in values if v is not None])

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of an input as the file records it; empty for a scalar and for an unknown rank."""
        return self.integers.shape(self.op, index) if index < len(self.inputs) else ()

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the first output as the file records it."""
        return self.integers.shape(self.op, len(self.inputs))


def _axes(site: _Site) -> str | None:
    """Fault of the axes of an op that counts the dimensions of its first input."""
    values = site.whole(_AXES[site.integers.graph.op_type(site.op)])
    return None if values is None else _beyond(values, len(site.shape(0)))


def _beyond(values: tuple[int, ...], rank: int) -> str | None:
    wrong = next((value for value in values if not -(rank or _LARGEST) <= value < (rank or _LARGEST)), None)
    if wrong is not None:
        return f"the axis {wrong}" + (f" of a value of rank {rank}" if rank else "")
    if rank and len(values) > 1 and len({value % rank for value in values}) < len(values):
        return f"the axes {shape_text(values)}, with one of them twice,"
    return None


def _unsqueeze(site: _Site) -> str | None:
    values = site.whole(1)
    return None if values is None else _beyond(values, len(site.output))


def _gather(site: _Site) -> str | None:
    fault = _axes(site)
    axis, shape, indices = site.whole(2), site.shape(0), site.values(1)
    if fault or not shape or axis is None or len(axis) != 1 or indices is None or site.integers.graph.constant(site.op):
        return fault
    size = shape[axis[0]]
    wrong = next((i for i in indices if i is not None and not -size <= i < size), None) if size >= 0 else None
    return f"the index {wrong} into {plural(size, 'value')}" if wrong is not None else None


def _transpose(site: _Site) -> str | None:
    order, rank = site.whole(1), len(site.shape(0))
    if not order or not rank or sorted(order) == list(range(rank)):
        return None
    return f"the order {shape_text(order)} for the {plural(rank, 'dimension')} of a value"


def _slice(site: _Site) -> str | None:
    steps = site.whole(3)
    return "a step of 0" if steps is not None and 0 in steps else _axes(site)


def _range(site: _Site) -> str | None:
    return "a step of 0" if site.whole(2) == (0,) else None


_INDEXING: dict[str, Callable[[_Site], str | None]] = {
    **dict.fromkeys(_AXES, _axes),
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "Transpose": _transpose,
    "Slice": _slice,
    "Range": _range,
}


def _dimensions(values: Values, least: int) -> str | None:
    wrong = next((v for v in values if v is not None and not least <= v < _LARGEST), None)
    if wrong is not None:
        return f"the dimension {wrong}"
    return f"{values.count(-1)} dimensions of -1" if values.count(-1) > 1 else None


def _reshape(site: _Site) -> str | None:
    target, shape = site.values(1), site.shape(0)
    if target is None:
        return None
    fault = _dimensions(target, -1)
    if fault:
        return fault
    if site.integers.graph.flag(site.op, "special_zero"):
        if shape and 0 in target[len(shape) :]:
            return f"the target {_shown(target)}, whose 0 stands for a dimension that {shape_text(shape)} does not have"
        kept = [dim if dim >= 0 else None for dim in shape]
        target = tuple(kept[at] if value == 0 and at < len(kept) else value for at, value in enumerate(target))
    elif fault := _emptied(site, target):
        return fault
    if not shape or min(shape) < 0 or None in target:
        return None
    elements, known = math.prod(shape), math.prod(v for v in target if v is not None and v != -1)
    fits = elements == known if -1 not in target else elements == 0 or (known > 0 and elements % known == 0)
    return None if fits else f"the target {_shown(target)} for the {elements:,} elements of {shape_text(shape)}"


def _shown(values: Values) -> str:
    return "[" + ", ".join("?" if value is None else str(value) for value in values) + "]"


def _repeats(site: _Site) -> str | None:
    target = site.values(1)
    return None if target is None else _dimensions(target, 0)


def _broadcast(site: _Site) -> str | None:
    target = site.values(1)
    return _repeats(site) or (None if target is None else _emptied(site, target))


def _emptied(site: _Site, target: Values) -> str | None:
    """Fault of a target with a 0 where the file records a dimension: the value would have no elements."""
    output = site.output
    empty = len(target) == len(output) and any(v == 0 and dim > 0 for v, dim in zip(target, output, strict=True))
    return f"the target {_shown(target)} for a result of {shape_text(output)}" if empty else None


def _lengths(site: _Site) -> str | None:
    lengths, axis, shape = site.whole(2), site.whole(1), site.shape(0)
    if lengths is None:
        return None
    fault = _dimensions(lengths, -1)
    if fault or not shape or axis is None or len(axis) != 1 or not -len(shape) <= axis[0] < len(shape):
        return fault
    size, total = shape[axis[0]], sum(length for length in lengths if length >= 0)
    fits = size < 0 or (total <= size if -1 in lengths else total == size)
    return None if fits else f"the lengths {_shown(lengths)} for a dimension of {size}"


def _count(index: int) -> Callable[[_Site], str | None]:
    def check(site: _Site) -> str | None:
        values = site.whole(index)
        wrong = next((v for v in values if not 0 < v < _LARGEST), None) if values else None
        return f"the count {wrong}" if wrong is not None else None

    return check


_SHAPING: dict[str, Callable[[_Site], str | None]] = {
    "Reshape": _reshape,
    "Broadcast": _broadcast,
    "Tile": _repeats,
    "VariadicSplit": _lengths,
    "TopK": _count(1),
    "OneHot": _count(1),
}


def _recorded(site: _Site) -> str | None:
    """Contradiction between the target of a Reshape and the shape of its output in the ``.xml``."""
    target, output = site.values(1), site.output
    if target is None or not output:
        return None
    same = len(target) == len(output) and all(
        value is None or value < 1 or dim in (value, -1) for value, dim in zip(target, output, strict=True)
    )
    return None if same else f"the target {_shown(target)}, but the .xml records the result {shape_text(output)}"


def _impossible(
    context: Context, checks: dict[str, Callable[[_Site], str | None]]
) -> Iterator[tuple[Document, list[tuple[GraphView, int, str]]]]:
    """Graph, op and fault of each op whose integers cannot be right, for each part that has one."""
    for document in context.all_documents:
        found = []
        for integers in context.integers(document):
            graph = integers.graph
            for kind, check in checks.items():
                for key in graph.by_type.get(kind, ()):
                    fault = check(_Site(integers, key, graph.inputs(key)))
                    if fault is not None:
                        found.append((graph, key, fault))
        if found:
            yield document, found


def _finding(document: Document, found: list[tuple[GraphView, int, str]], severity: Severity | None = None) -> Finding:
    """One finding for all faulty ops of a file: they have one cause."""
    graph, key, fault = found[0]
    name, kind, line = graph.op_name(key), graph.op_type(key), graph.line(key)
    more = f"; so have {plural(len(found) - 1, 'other op')}" if len(found) > 1 else ""
    message = f"the file gives the {kind} {name!r} ({document.path.name}:{line}) {fault}{more}"
    return Finding(message, _RESTORE, document.weights_path, op=name, severity=severity)


@rule("IR024", "impossible-index", Severity.ERROR, "The .bin has an axis or index that the graph cannot have")
def impossible_index(context: Context) -> Iterator[Finding]:
    """The .bin has an axis or index that the graph cannot have.

    What it checks
    --------------
    The integer constants that ops use as axes, orders of dimensions, indices of a Gather and steps, including
    those in the bodies of Loop and If: an axis beyond the rank of the value, an order that is not a permutation,
    an index beyond the dimension, a step of 0. The rules read at most 500,000 bytes of all ``.bin`` files of
    an export together.

    Why it matters
    --------------
    The file has the right size but other content: zeros of an interrupted download that had reserved its
    space, or the weights of another model. OpenVINO rejects the model with a message about an axis or a shape
    that does not name the file, or the model generates garbage.

    How to fix it
    -------------
    Restore the ``.bin`` from the source of the ``.xml``.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1: "Axis -440484776 out of the tensor rank range [-2, 1]".
    """
    for document, found in _impossible(context, _INDEXING):
        yield _finding(document, found)


@rule("IR025", "impossible-shape", Severity.ERROR, "The .bin has a target shape that the graph cannot have")
def impossible_shape(context: Context) -> Iterator[Finding]:
    """The .bin has a target shape that the graph cannot have.

    What it checks
    --------------
    The integer constants that give the target shape of a Reshape or Broadcast (also a Concat of constants and
    computed dimensions), repeat counts, the lengths of a split, and the counts of TopK and OneHot: a negative or
    huge dimension, more than one -1, a shape that does not hold the known elements of the value. A target that
    only contradicts the shape that the ``.xml`` records for the result is a warning, because OpenVINO computes
    that shape again.

    Why it matters
    --------------
    As for IR024: the ``.bin`` has the right size, but not the content that belongs to the ``.xml``.

    How to fix it
    -------------
    Restore the ``.bin`` from the source of the ``.xml``.

    Source
    ------
    Reproduced with OpenVINO 2026.4.1: a ``.bin`` of zeros, of another model and of shuffled bytes is rejected
    while the model is read ("While validating node 'opset1::Reshape ...").
    """
    certain = set()
    for document, found in _impossible(context, _SHAPING):
        certain.add(document)
        yield _finding(document, found)
    for document, found in _impossible(context, {"Reshape": _recorded}):
        if document not in certain:
            yield _finding(document, found, Severity.WARNING)
