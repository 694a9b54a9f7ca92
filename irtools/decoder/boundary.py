"""Which values layers hand to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from irtools.decoder.names import Scopes
from irtools.decoder.stream import Stream
from irtools.decoder.stretch import Stretch
from irtools.errors import LocateRefusedError

__all__ = ["boundaries"]

_REDUCTIONS = {"MVN", "ReduceMean", "ReduceSum", "ReduceL2", "NormalizeL2", "GroupNormalization"}


def boundaries(stream: Stream, scopes: Scopes | None, pieces: Sequence[Stretch], ends: Sequence[int]) -> list[int]:
    """The ops whose values cross from each layer into the next.

    Mostly the last residual sum. When only the sum scaled by constants goes on, the scaled
    value. When something else is added on the way (image features written into the stream),
    the sum. When a norm lies between, the names say whose it is: it ends a layer (BART), or
    each layer begins with one and keeps it as its residual (MiniMax). Without names, a first
    layer that starts from bare embeddings (GPT-1) shows that norms come after the block.

    Parameters
    ----------
    stream : Stream
    scopes : Scopes or None
        What names say about the stretches.
    pieces : sequence of Stretch
    ends : sequence of int
        Index of the last stretch of each layer but the last layer.

    Returns
    -------
    list of int
        Layer ids.

    Raises
    ------
    LocateRefusedError
        A norm lies between and no name says to which layer it belongs, or norms interrupt
        the stream in some places only.
    """
    found, norms = [], []
    for last in ends:
        end, skip = pieces[last].sum.op, pieces[last + 1].sum.skip
        between = [] if skip in stream.same_value(end) else _between(stream, end, skip)
        norms.append(between is not None and _normalises(stream, between))
        found.append(end if not between else _whose(stream, scopes, pieces, last, between) if norms[-1] else skip)
    if any(norms) and not all(norms):
        name = stream.view.op_name(pieces[ends[norms.index(True)] + 1].sum.skip)
        raise LocateRefusedError(
            f"{name!r} normalises the residual stream between two layers and nothing does between the others: two "
            "stacks follow each other, and which one is meant is not to be seen"
        )
    return found


def _whose(stream: Stream, scopes: Scopes | None, pieces: Sequence[Stretch], last: int, between: Sequence[int]) -> int:
    """The sum, when the norm after it begins the next layer, or the norm, when it ends this one."""
    end, skip = pieces[last].sum.op, pieces[last + 1].sum.skip
    if scopes is not None:
        here, there = scopes.layers[last], scopes.layers[last + 1]
        votes = Counter(scopes.number(stream.view.op_name(op)) for op in between)
        if votes[here] != votes[there] and here != there:
            return skip if votes[here] > votes[there] else end
    if not _normalises(stream, _above(stream, pieces[0].sum.skip)):
        return skip
    raise LocateRefusedError(
        f"the norm between {stream.view.op_name(end)!r} and {stream.view.op_name(skip)!r} ends one layer or begins the "
        "next, and no name says which: the hidden state could be either; export the model with its module names"
    )


def _normalises(stream: Stream, ops: Iterable[int]) -> bool:
    return any(stream.view.op_type(op) in _REDUCTIONS for op in ops)


def _above(stream: Stream, start: int) -> set[int]:
    """``start`` and the ops of the stream that it is computed from."""
    found, pending = {start}, [start]
    while pending:
        fresh = [source for source in stream.sources[pending.pop()] if source not in found]
        found.update(fresh)
        pending += fresh
    return found


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
