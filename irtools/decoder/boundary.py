"""Which values layers hand to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from irtools.decoder.names import Scopes
from irtools.decoder.stream import Stream
from irtools.decoder.stretch import Stretch
from irtools.errors import LocateRefusedError
from irtools.graph.closure import closure

__all__ = ["boundaries"]

_REDUCTIONS = {"MVN", "ReduceMean", "ReduceSum", "ReduceL2", "NormalizeL2", "GroupNormalization"}


def boundaries(stream: Stream, scopes: Scopes | None, pieces: Sequence[Stretch], ends: Sequence[int]) -> list[int]:
    """The ops whose values cross from each layer into the next.

    Mostly the last residual sum. When it goes on scaled, or with values from outside the
    stream written into it (image features), what arrives at the next layer, unless the names
    say that the next layer does it. When a norm lies between, the names say whose it is: it ends
    a layer (BART), or each layer begins with one and keeps it as its residual (MiniMax). Without
    names, a first layer that starts from bare embeddings (GPT-1) shows that norms come after the
    block. When an earlier value of the stream is mixed in again, only the names can tell.

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
        A norm or an earlier value lies between and no name says to which layer it belongs, or
        norms interrupt the stream in some places only.
    """
    found, norms = [], []
    for last in ends:
        end, skip = pieces[last].sum.op, pieces[last + 1].sum.skip
        between, mixed = ([], False) if skip in stream.same_value(end) else _between(stream, end, skip)
        norms.append(_normalises(stream, between))
        votes = _votes(stream, scopes, last, between)
        if not between or votes > 0:
            found.append(end)
        elif votes < 0 or not (norms[-1] or mixed) or (norms[-1] and _starts_bare(stream, pieces)):
            found.append(skip)
        else:
            raise _unsettled(stream, end, skip, "norm" if norms[-1] else "earlier value mixed in")
    if any(norms) and not all(norms):
        name = stream.view.op_name(pieces[ends[norms.index(True)] + 1].sum.skip)
        raise LocateRefusedError(
            f"{name!r} normalises the residual stream between two layers and nothing does between the others: two "
            "stacks follow each other, and which one is meant is not to be seen"
        )
    return found


def _unsettled(stream: Stream, end: int, skip: int, what: str) -> LocateRefusedError:
    names = f"{stream.view.op_name(end)!r} and {stream.view.op_name(skip)!r}"
    return LocateRefusedError(
        f"the {what} between {names} ends one layer or begins the next, and no name says which: the hidden state "
        "could be either; export the model with its module names"
    )


def _starts_bare(stream: Stream, pieces: Sequence[Stretch]) -> bool:
    """Whether the first layer starts from embeddings that no norm has touched."""
    return not _normalises(stream, _above(stream, pieces[0].sum.skip))


def _votes(stream: Stream, scopes: Scopes | None, last: int, between: Iterable[int]) -> int:
    """By their names, how many more ops are the next layer's than this one's."""
    if scopes is None or scopes.layers[last] == scopes.layers[last + 1]:
        return 0
    votes = Counter(scopes.number(stream.view.op_name(op)) for op in between)
    return votes[scopes.layers[last + 1]] - votes[scopes.layers[last]]


def _normalises(stream: Stream, ops: Iterable[int]) -> bool:
    return any(stream.view.op_type(op) in _REDUCTIONS for op in ops)


def _above(stream: Stream, start: int) -> set[int]:
    """``start`` and the ops of the stream that it is computed from."""
    return closure([start], stream.sources.__getitem__)


def _between(stream: Stream, end: int, skip: int) -> tuple[list[int], bool]:
    """Ops of the stream that make ``skip`` of ``end``, and whether they read an earlier value of the stream."""
    found, pending, mixed = [skip], [skip], False
    while pending:
        for source in stream.sources[pending.pop()]:
            if source == end or source in found:
                continue
            if stream.rank[source] < stream.rank[end]:
                mixed = True
                continue
            found.append(source)
            pending.append(source)
    return found, mixed
