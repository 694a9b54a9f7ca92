"""Which value a layer hands to the next one."""

from __future__ import annotations

from collections import Counter

from irtools.decoder.names import Scopes
from irtools.decoder.stream import Stream
from irtools.decoder.stretch import Stretch
from irtools.errors import LocateRefusedError

__all__ = ["handed_on"]

_REDUCTIONS = {"MVN", "ReduceMean", "ReduceSum", "ReduceL2", "NormalizeL2", "GroupNormalization"}


def handed_on(stream: Stream, scopes: Scopes | None, last: Stretch, following: Stretch) -> int:
    """The op whose value crosses from one layer into the next.

    Mostly the last residual sum. When only the sum scaled by constants goes on, the scaled
    value. When something else is added on the way (image features written into the stream),
    the sum. When a norm lies between (a norm after the block, as in BART, or a norm that the
    next block keeps as its residual), the names say whose norm it is.

    Parameters
    ----------
    stream : Stream
    scopes : Scopes or None
        What names say about the stretches.
    last, following : Stretch
        The last one of the layer and the first one of the next.

    Returns
    -------
    int
        Layer id.

    Raises
    ------
    LocateRefusedError
        A norm lies between and no name says to which layer it belongs.
    """
    end, skip = last.sum.op, following.sum.skip
    if skip in stream.same_value(end):
        return end
    between = _between(stream, end, skip)
    if between is None:
        return end
    if not any(stream.view.op_type(op) in _REDUCTIONS for op in between):
        return skip
    if scopes is not None:
        here, there = scopes.layers[last.index], scopes.layers[following.index]
        votes = Counter(scopes.number(stream.view.op_name(op)) for op in between)
        if votes[here] != votes[there] and here != there:
            return skip if votes[here] > votes[there] else end
    raise LocateRefusedError(
        f"the norm between {stream.view.op_name(end)!r} and {stream.view.op_name(skip)!r} ends one layer or begins the "
        "next, and no name says which: the hidden state could be either; export the model with its module names"
    )


def _between(stream: Stream, end: int, skip: int) -> list[int] | None:
    """Ops that make ``skip`` of ``end``; None when they read anything else but constants."""
    found, pending = [skip], [skip]
    while pending:
        op = pending.pop()
        for source in stream.view.producers(op):
            if source == end or stream.view.constant(source) or source in found:
                continue
            if source not in stream.ops or stream.rank[source] < stream.rank[end]:
                return None
            found.append(source)
            pending.append(source)
    return found
