"""What a user asks to be extracted: layers of the decoder stack, or the ops between some ops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from irtools.decoder.stack import DecoderStack
from irtools.errors import UsageError
from irtools.graph.find import find_op
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import iter_graphs
from irtools.surgery.choice import parse_layer_list
from irtools.surgery.reach import below

__all__ = ["End", "Request", "between_ops", "of_layers", "parse_layers"]

_OUTPUT = re.compile(r"(.+):(\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class End:
    """A value that the piece is to give.

    Attributes
    ----------
    source : Source
    name : str
        What the output is called.
    result : int or None
        The model's own Result for it, which then stays as it is.
    """

    source: Source
    name: str
    result: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a piece is to reach from and to.

    Attributes
    ----------
    starts : frozenset of int
        The first ops of the piece.
    ends : tuple of End
    entry : Source or None
        The value in front of the starts that is cut off, for a piece of the decoder stack.
    entry_name : str
        What the input for it is called.
    stream : frozenset of Source
        Values of the decoder stack that have the shape of the entry, itself among them.
    closing : frozenset of Source
        Those behind them, which may have another.
    tokens : frozenset of int
        Inputs of the model that the decoder stack starts from, where that is known.
    stateless : bool
        Whether states become inputs and outputs.
    """

    starts: frozenset[int]
    ends: tuple[End, ...]
    entry: Source | None = None
    entry_name: str = ""
    stream: frozenset[Source] = frozenset()
    closing: frozenset[Source] = frozenset()
    tokens: frozenset[int] = frozenset()
    stateless: bool = False


def parse_layers(text: str, count: int) -> tuple[int, int]:
    """First and last of some consecutive layers.

    Parameters
    ----------
    text : str
        ``3``, ``3-5``, ``last``, ``3-last`` or ``all``.
    count : int
        Layers that there are.

    Raises
    ------
    EditError
        It says something else, or there are no such layers.
    UsageError
        They are not consecutive.

    Examples
    --------
    >>> parse_layers("1-last", 4), parse_layers("2", 4), parse_layers("all", 4)
    ((1, 3), (2, 2), (0, 3))
    """
    layers = parse_layer_list(text, count, like="3 or 3-5")
    if layers != tuple(range(layers[0], layers[-1] + 1)):
        raise UsageError(f"the layers {text} do not follow each other; extract them one by one")
    return layers[0], layers[-1]


def of_layers(view: GraphView, stack: DecoderStack, first: int, last: int, *, stateless: bool) -> Request:
    """A request for consecutive layers of a decoder stack.

    Parameters
    ----------
    view : GraphView
    stack : DecoderStack
        Located in this graph.
    first, last : int
    stateless : bool
    """
    start = Source(stack.stream_start, view.output(stack.stream_start).id)
    entry = stack.layers[first - 1].source if first else start
    # Behind the last sum of all, only what the head reads may be left.
    closing = {stack.layers[-1].source, Source(stack.last_sum, view.output(stack.last_sum).id)}
    stream = {start, Source(stack.embedding, view.output(stack.embedding).id)}
    for layer in stack.layers:
        stream |= {layer.source, *(Source(op, view.output(op).id) for op in layer.sums)}
    port = view.port(entry)
    same = {
        source for source in stream - closing if (found := view.port(source)) and port and found.shape == port.shape
    }
    above = {stack.embedding, *(op for op in view.producers(stack.embedding) if not view.constant(op))}
    return Request(
        starts=frozenset(consumer.op for consumer in view.consumers(entry.op) if consumer.port == entry.port),
        ends=(End(stack.layers[last].source, f"hidden_states.{last}"),),
        entry=entry,
        entry_name=f"hidden_states.{first - 1 if first else 'embeddings'}",
        stream=frozenset(same) if port and len(port.shape) == 3 and port.shape[-1] > 0 else frozenset(),
        closing=frozenset(closing),
        tokens=frozenset(above),
        stateless=stateless,
    )


def between_ops(view: GraphView, starts: Sequence[str], ends: Sequence[str], *, stateless: bool) -> Request:
    """A request for the ops from some ops to others, both included.

    Parameters
    ----------
    view : GraphView
    starts, ends : sequence of str
        Ops as :func:`irtools.graph.find.find_op` takes them; an end may say an output as ``name:1``.
    stateless : bool

    Raises
    ------
    UsageError
        There is no such op or output, or an end is not computed from the starts.
    """
    first = {_start(view, name): name for name in starts}
    last = {end: name for name in ends for end in _ends(view, name)}
    reached = {op: below(view, [op]) for op in first}
    some_end, some_start = next(iter(last)), next(iter(first))
    for op, name in first.items():
        if not any(end.source.op in reached[op] for end in last):
            raise UsageError(_not_above(view, name, op, last[some_end], some_end.source.op))
    for end, name in last.items():
        if not any(end.source.op in ops for ops in reached.values()):
            raise UsageError(_not_above(view, first[some_start], some_start, name, end.source.op))
    return Request(frozenset(first), tuple(last), stateless=stateless)


def _not_above(view: GraphView, start: str, first: int, end: str, last: int) -> str:
    swapped = first in below(view, [last])
    advice = "swap them" if swapped else "`irtools render --around OP` shows what leads where"
    return f"--to {end!r} is not computed from --from {start!r}; {advice}"


def _start(view: GraphView, name: str) -> int:
    op = _find(view, name)
    if view.op_type(op) in ("Result", "Assign"):
        above = [view.op_name(source) for source in view.producers(op)]
        instead = f"give {above[0]!r}, which it reads" if above else "give another op"
        raise UsageError(f"--from {name!r} only takes what another op computes; {instead}")
    return op


def _find(view: GraphView, name: str) -> int:
    try:
        return find_op(view, name)
    except UsageError:
        for body in list(iter_graphs(view.scan))[1:]:
            if name in body.names:
                inside = body.spans[0].start
                owner = next(op for op in view.scan.ids if view.span(op).start < inside < view.span(op).end)
                message = f"{name!r} lies inside {view.op_name(owner)!r}, whose body stays whole; name that op instead"
                raise UsageError(message) from None
        raise


def _ends(view: GraphView, wanted: str) -> list[End]:
    """The values that a name stands for: one output of an op, or all of them."""
    match = _OUTPUT.fullmatch(wanted)
    index = None
    if match is None or wanted in view.scan.names:
        op = _find(view, wanted)
    else:
        op, index = _find(view, match[1]), int(match[2])
    kind, name = view.op_type(op), view.op_name(op)
    if kind in ("Result", "Assign"):
        names = view.result_names(op) if kind == "Result" else ()
        sources = view.inputs(op)[:1]
        if not sources:
            raise UsageError(f"--to {wanted!r} takes no value; give another op")
        return [End(source, names[0] if names else name, op if names else None) for source in sources]
    count = len(view.op(op).outputs)
    if index is not None and index >= count:
        raise UsageError(f"the op {name!r} has no output {index}; its last one is {count - 1}")
    indices = range(count) if index is None else [index]
    return [End(Source(op, view.output(op, index).id), f"{name}:{index}" if count > 1 else name) for index in indices]
