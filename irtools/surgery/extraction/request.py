"""Requests for a piece: layers of the decoder stack, or the ops between given ops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from irtools.decoder.stack import DecoderStack
from irtools.errors import UsageError
from irtools.graph.find import find_op
from irtools.graph.view import GraphView, Source
from irtools.ir.constants import iter_graphs
from irtools.surgery.choice import parse_layer_list
from irtools.surgery.reach import below, data_above

__all__ = [
    "End",
    "PieceRequest",
    "between_ops",
    "model_outputs",
    "of_layers",
    "parse_layers",
    "residual_stream",
]

_OPEN = re.compile(r"(\d+)\s*-\s*$")
_OUTPUT = re.compile(r"(.+):(\d{1,9})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class End:
    """A value that becomes an output of the piece.

    Attributes
    ----------
    name : str
        Name of the output.
    result : int or None
        The model's own Result of the value, which then stays unchanged.
    inner : bool
        True if the piece also computes what follows from the value, such as new values of its states.
    """

    source: Source
    name: str
    result: int | None = None
    inner: bool = False


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """Starts and ends of a piece.

    Attributes
    ----------
    starts : frozenset of int
        The first ops of the piece.
    entry : Source or None
        For a piece of the decoder stack: the hidden state that the starts read, which becomes an input.
    entry_name : str
        Name of that input.
    stream : frozenset of Source
        Values of the residual stream that have the shape of the entry, including the entry.
    closing : frozenset of Source
        Later values of the residual stream, which may have another shape.
    tokens : frozenset of int
        Inputs of the model that the decoder stack starts from, if known.
    stateless : bool
        True if states become inputs and outputs.
    """

    starts: frozenset[int]
    ends: tuple[End, ...]
    entry: Source | None = None
    entry_name: str = ""
    stream: frozenset[Source] = frozenset()
    closing: frozenset[Source] = frozenset()
    tokens: frozenset[int] = frozenset()
    stateless: bool = field(kw_only=True)


def parse_layers(text: str, count: int) -> tuple[int, int]:
    """Parse consecutive layers; return the first and the last.

    Parameters
    ----------
    text : str
        ``3``, ``3-5``, ``last``, ``3-last`` or ``3-``, or ``all``.
    count : int
        Number of layers of the model.

    Raises
    ------
    EditError
        The text is not such a range, or the model has no such layers.
    UsageError
        The layers are not consecutive.

    Examples
    --------
    >>> parse_layers("1-last", 4), parse_layers("2", 4), parse_layers("all", 4)
    ((1, 3), (2, 2), (0, 3))
    """
    layers = parse_layer_list(_OPEN.sub(r"\1-last", text), count, like="3, 3-5 or 3-")
    if layers != tuple(range(layers[0], layers[-1] + 1)):
        raise UsageError(f"the layers {text} are not consecutive; extract them one by one")
    return layers[0], layers[-1]


def of_layers(
    view: GraphView,
    stack: DecoderStack,
    first: int,
    last: int,
    *,
    stateless: bool,
    to: Sequence[str] = (),
    whole: bool = False,
) -> PieceRequest:
    """Return a request for consecutive layers of a decoder stack that was located in this graph.

    Parameters
    ----------
    to : sequence of str
        Ends of the piece instead of the last layer's hidden state, such as ``logits``.
    whole : bool
        For the first layers: begin at the inputs of the model, and compute the embeddings in the piece.

    Raises
    ------
    UsageError
        There is no such end, it is not computed from the layers, or layers after the last one are needed for it.
    """
    entry = stack.layers[first - 1].source if first else _value(view, stack.stream_start)
    starts = {consumer.op for consumer in view.consumers(entry.op) if consumer.port == entry.port}
    ends = [end for name in to for end in _ends(view, name)] or [
        End(stack.layers[last].source, f"hidden_states.{last}")
    ]
    _require_within(view, stack, starts, ends, last)
    request = residual_stream(view, stack, PieceRequest(frozenset(starts), tuple(ends), stateless=stateless))
    if whole:
        roots = {op for op in data_above(view, [entry.op]) if view.op_type(op) == "Parameter"}
        return replace(request, starts=frozenset(roots), tokens=frozenset(roots))
    return replace(request, entry=entry, entry_name=f"hidden_states.{first - 1 if first else 'embeddings'}")


def residual_stream(view: GraphView, stack: DecoderStack, request: PieceRequest) -> PieceRequest:
    """Add to a request what is known of the shapes of the residual stream."""
    start = _value(view, stack.stream_start)
    # After the last sum only the tokens that lm_head reads may be left.
    closing = {stack.layers[-1].source, _value(view, stack.last_sum)}
    stream = {start, _value(view, stack.embedding)}
    for layer in stack.layers:
        stream |= {layer.source, *(_value(view, op) for op in layer.sums)}
    shape = view.shape(start)
    same = {source for source in stream - closing if view.shape(source) == shape}
    above = {stack.embedding, *(op for op in view.producers(stack.embedding) if not view.constant(op))}
    return replace(
        request,
        stream=frozenset(same) if len(shape) == 3 and shape[-1] > 0 else frozenset(),
        closing=frozenset(closing),
        tokens=frozenset(above),
    )


def _value(view: GraphView, op: int) -> Source:
    return Source(op, view.output(op).id)


def _require_within(view: GraphView, stack: DecoderStack, starts: set[int], ends: Sequence[End], last: int) -> None:
    """Refuse ends that are not computed from the layers, or only through layers after them."""
    computed = below(view, starts)
    for end in ends:
        if end.source.op not in computed:
            raise UsageError(f"--to {end.name!r} is not computed from these layers; give an op in or after them")
        if last + 1 < len(stack.layers) and stack.layers[last + 1].source.op in data_above(view, [end.source.op]):
            raise UsageError(
                f"--to {end.name!r} is computed from layer {last + 1} too; end the layers with the last one, as in "
                "--layers 3-"
            )


def model_outputs(view: GraphView) -> list[End]:
    """Return the outputs of the model as ends."""
    ends = []
    for key in view.results:
        names = view.result_names(key)
        ends.append(End(view.inputs(key)[0], names[0] if names else view.op_name(key), key if names else None))
    return ends


def between_ops(view: GraphView, starts: Sequence[str], ends: Sequence[str], *, stateless: bool) -> PieceRequest:
    """Return a request for the ops from given starts to given ends, both included.

    Parameters
    ----------
    starts, ends : sequence of str
        Ops as :func:`irtools.graph.find.find_op` takes them; an end may name an output as ``name:1``.

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
    return PieceRequest(frozenset(first), tuple(last), stateless=stateless)


def _not_above(view: GraphView, start: str, first: int, end: str, last: int) -> str:
    swapped = first in below(view, [last])
    advice = "swap them" if swapped else "draw their surroundings with `irtools render --around OP`"
    return f"--to {end!r} is not computed from --from {start!r}; {advice}"


def _start(view: GraphView, name: str) -> int:
    op = _find(view, name)
    if view.op_type(op) in ("Result", "Assign"):
        producers = [view.op_name(source) for source in view.producers(op)]
        advice = f"give its producer {producers[0]!r}" if producers else "give another op"
        raise UsageError(f"--from {name!r} computes nothing: it only reads a value; {advice}")
    return op


def _find(view: GraphView, name: str) -> int:
    try:
        return find_op(view, name)
    except UsageError:
        for body in list(iter_graphs(view.scan))[1:]:
            if name in body.names:
                inside = body.spans[0].start
                owner = next(op for op in view.scan.ids if view.span(op).start < inside < view.span(op).end)
                message = (
                    f"{name!r} is in the body of {view.op_name(owner)!r}, which cannot be cut; name that op instead"
                )
                raise UsageError(message) from None
        raise


def _ends(view: GraphView, wanted: str) -> list[End]:
    """Return the values that a name stands for: one output of an op, or all outputs."""
    match = None if wanted in view.scan.names else _OUTPUT.fullmatch(wanted)
    op, index = (_find(view, match[1]), int(match[2])) if match else (_find(view, wanted), None)
    kind, name = view.op_type(op), view.op_name(op)
    if kind in ("Result", "Assign"):
        names = view.result_names(op) if kind == "Result" else ()
        return [End(view.input(op), names[0] if names else name, op if names else None)]
    count = len(view.op(op).outputs)
    if index is not None and index >= count:
        raise UsageError(f"the op {name!r} has no output {index}; its last one is {count - 1}")
    indices = range(count) if index is None else [index]
    return [End(Source(op, view.output(op, index).id), f"{name}:{index}" if count > 1 else name) for index in indices]
