"""Put the witnesses together: take what they agree on, refuse what they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from irtools.decoder.boundary import boundaries
from irtools.decoder.causal import cross_attention, looks_causal
from irtools.decoder.dominators import dominating_sums
from irtools.decoder.explain import rejections
from irtools.decoder.grouping import by_names, choose
from irtools.decoder.head import find_embeddings, find_head
from irtools.decoder.locator import Namer
from irtools.decoder.names import read_names
from irtools.decoder.stack import DecoderLayer, DecoderStack
from irtools.decoder.stream import Stream, Sum
from irtools.decoder.stretch import Stretch, mixer_outside, stretches
from irtools.decoder.verdicts import Evidence, layer_verdicts, stack_verdicts
from irtools.decoder.walk import walk
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView
from irtools.model.config import read_config

__all__ = ["locate_stack"]


def locate_stack(view: GraphView, config: Mapping[str, Any] | None = None) -> DecoderStack:
    """Locate the decoder stack in a graph.

    Parameters
    ----------
    view : GraphView
    config : mapping, optional
        Content of config.json, as one witness among others.

    Returns
    -------
    DecoderStack

    Raises
    ------
    LocateRefusedError
        The graph is no decoder-only language model, or the witnesses contradict each other.
    """
    head = find_head(view)
    embeddings, above = find_embeddings(view, head)
    stream = Stream(view, [match.anchor for match in embeddings], head.input, above)
    walked, dominating = walk(stream), dominating_sums(stream)
    text = read_config(config)
    sums = _agreed(view, walked, dominating)
    pieces = stretches(stream, sums)
    _require_decoder(view, pieces)
    _require_whole(stream, pieces)
    scopes = read_names(view, pieces)
    grouping = choose(pieces, scopes, text)
    evidence = Evidence(
        stream=stream,
        head=head,
        walked=frozenset(residual.op for residual in walked),
        dominating=frozenset(residual.op for residual in dominating),
        pieces=pieces,
        scopes=scopes,
        named=by_names(pieces, scopes),
        config=text,
        grouping=grouping,
    )
    return _build(evidence, embeddings[0].anchor)


def _agreed(view: GraphView, walked: Sequence[Sum], dominating: Sequence[Sum]) -> Sequence[Sum]:
    """The sums of the witness that saw more, if the other saw nothing else."""
    first, second = [residual.op for residual in walked], [residual.op for residual in dominating]
    longer, shorter = (walked, second) if len(first) >= len(second) else (dominating, first)
    order = [residual.op for residual in longer]
    if not order:
        raise LocateRefusedError(
            "no residual stream leads from the embeddings to the head: no Add carries a value past the block that "
            "reads it, or several parallel streams do, so there is no single hidden state per layer"
        )
    strangers = [op for op in shorter if op not in set(order)]
    if strangers:
        raise LocateRefusedError(
            f"the walk and the dominators contradict each other about {view.op_name(strangers[0])!r}; "
            "there is no single residual stream"
        )
    return longer


def _require_decoder(view: GraphView, pieces: Sequence[Stretch]) -> None:
    foreign = cross_attention(pieces)
    if foreign is not None and foreign.mixing_branch is not None:
        name = view.op_name(foreign.mixing_branch[1].anchor)
        raise LocateRefusedError(
            f"this is the decoder of an encoder-decoder model: {name!r} attends to values from outside the residual "
            "stream (cross-attention); only decoder-only language models are annotated"
        )
    if any(piece.mixes for piece in pieces) and not looks_causal(view, pieces):
        raise LocateRefusedError(
            "this is an encoder: its attention sees later tokens too (no cached state, no causal mask), "
            "so there is nothing to draft; only decoder-only language models are annotated"
        )


def _require_whole(stream: Stream, pieces: Sequence[Stretch]) -> None:
    outside = mixer_outside(stream, pieces)
    if outside is not None:
        raise LocateRefusedError(
            f"{stream.view.op_name(outside)!r} mixes tokens outside the residual blocks that were found, "
            "so layers would be passed over: the residual stream is no plain chain of sums, which is not supported"
        )


def _build(evidence: Evidence, embedding: int) -> DecoderStack:
    view, pieces, grouping = evidence.stream.view, evidence.pieces, evidence.grouping
    namer = Namer(view)
    crossing = boundaries(evidence.stream, evidence.scopes, pieces, grouping.last[:-1])
    layers, twins = [], {}
    for index, members in enumerate(grouping.layers()):
        value = crossing[index] if index < len(crossing) else None
        layer, rest = _layer(evidence, namer, index, [pieces[member] for member in members], value)
        layers.append(layer)
        twins[index] = rest
    widths = {layer.shape[-1] for layer in layers[:-1]}
    if len(widths) > 1:
        raise LocateRefusedError(
            f"the residual stream changes its width ({', '.join(map(str, sorted(widths)))}): "
            "there is no single hidden size"
        )
    return DecoderStack(
        layers=tuple(layers),
        hidden_size=layers[0].shape[-1],
        scope=evidence.scopes.scope if evidence.scopes else "",
        embedding=embedding,
        stream_start=pieces[0].sum.skip,
        head=evidence.head.op,
        head_input=evidence.head.input,
        logits=evidence.head.logits,
        logits_tail=evidence.head.tail,
        last_sum=pieces[-1].sum.op,
        verdicts=stack_verdicts(evidence, layers),
        explain=partial(rejections, evidence, tuple(layers), twins),
    )


def _layer(
    evidence: Evidence, namer: Namer, index: int, members: Sequence[Stretch], value: int | None
) -> tuple[DecoderLayer, list[int]]:
    """Describe one layer; ``value`` is what it hands to the next, None for the last."""
    if value is None:
        locator, source, shape, rest = namer.read_by_head(evidence.head.input, index)
    else:
        locator, source, shape, rest = namer.handed_on(evidence.stream, value, index)
    forward = {piece.feed_forward for piece in members} - {"none"}
    number = evidence.scopes.layers[members[0].index] if evidence.scopes else None
    layer = DecoderLayer(
        index=index,
        locator=locator,
        source=source,
        shape=shape,
        sums=tuple(piece.sum.op for piece in members),
        mixer=next((piece.mixer for piece in members if piece.mixes), "none"),
        feed_forward="experts" if "experts" in forward else "dense" if forward else "none",
        states=tuple(state.name for piece in members for state in piece.states),
        scope=f"{evidence.scopes.prefix}{number}" if evidence.scopes and number is not None else "",
        ops=frozenset().union(*(piece.ops for piece in members)),
        verdicts=layer_verdicts(evidence, index, members, source.op),
    )
    return layer, rest
