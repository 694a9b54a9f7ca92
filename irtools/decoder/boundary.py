"""Boundary values: the hidden states that each layer passes to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from irtools.decoder.names import Scopes
from irtools.decoder.stream import Stream
from irtools.decoder.sublayer import Sublayer
from irtools.errors import LocateRefusedError
from irtools.graph.closure import closure

__all__ = ["boundaries"]

_REDUCTIONS = {"MVN", "ReduceMean", "ReduceSum", "ReduceL2", "NormalizeL2", "GroupNormalization"}


def boundaries(stream: Stream, scopes: Scopes | None, sublayers: Sequence[Sublayer], ends: Sequence[int]) -> list[int]:
    """Layer ids of the ops whose values cross from each layer into the next.

    Usually this is the last residual sum of the layer. If the sum is scaled, or values from outside the stream are
    written into it (image features), it is the value that arrives at the next layer, unless names assign these ops
    to the next layer. If a norm lies between, names decide: the norm ends the layer (BART), or it begins the next,
    which keeps it as its residual (MiniMax). Without names, a first layer that starts from plain embeddings (GPT-1)
    shows that norms follow the blocks. If an earlier value of the stream is mixed in, only names can decide.

    ``ends`` has the index of the last sublayer of each layer except the last.

    Raises
    ------
    LocateRefusedError
        No name assigns a norm or a mixed-in value to a layer, or norms separate only some of the layers.
    """
    values, norms = [], []
    for last in ends:
        end, skip = sublayers[last].sum.op, sublayers[last + 1].sum.skip
        between, mixed = ([], False) if skip in stream.same_value(end) else _between(stream, end, skip)
        norms.append(_normalises(stream, between))
        votes = _votes(stream, scopes, last, between)
        if not between or votes > 0:
            values.append(end)
        elif votes < 0 or not (norms[-1] or mixed) or (norms[-1] and _starts_bare(stream, sublayers)):
            values.append(skip)
        else:
            names = f"{stream.view.op_name(end)!r} and {stream.view.op_name(skip)!r}"
            raise LocateRefusedError(
                f"the {'norm' if norms[-1] else 'earlier value mixed in'} between {names} could end one layer or begin "
                "the next, and the names do not decide, so the hidden state is ambiguous; "
                "export the model with its module names"
            )
    if any(norms) and not all(norms):
        name = stream.view.op_name(sublayers[ends[norms.index(True)] + 1].sum.skip)
        raise LocateRefusedError(
            f"{name!r} normalizes the residual stream between two layers, but no norm lies between the others: there "
            "are two decoder stacks, and which one drafting should use is unknown"
        )
    return values


def _starts_bare(stream: Stream, sublayers: Sequence[Sublayer]) -> bool:
    """True if no norm lies between the embeddings and the first layer."""
    return not _normalises(stream, closure([sublayers[0].sum.skip], stream.sources.__getitem__))


def _votes(stream: Stream, scopes: Scopes | None, last: int, between: Iterable[int]) -> int:
    """Number of ops that names assign to the next layer, minus those that they assign to this one."""
    if scopes is None or scopes.layers[last] == scopes.layers[last + 1]:
        return 0
    votes = Counter(scopes.number(stream.view.op_name(op)) for op in between)
    return votes[scopes.layers[last + 1]] - votes[scopes.layers[last]]


def _normalises(stream: Stream, ops: Iterable[int]) -> bool:
    return any(stream.view.op_type(op) in _REDUCTIONS for op in ops)


def _between(stream: Stream, end: int, skip: int) -> tuple[list[int], bool]:
    """Ops of the stream that compute ``skip`` from ``end``, and True if they read an earlier value of the stream."""
    ops, mixed = [skip], False
    for op in ops:  # the loop appends to it
        for source in stream.sources[op]:
            if source == end or source in ops:
                continue
            if stream.rank[source] < stream.rank[end]:
                mixed = True
            else:
                ops.append(source)
    return ops, mixed
