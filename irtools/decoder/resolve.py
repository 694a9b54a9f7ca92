"""Combine the witnesses: accept a stack that they agree on, refuse one that they contradict."""

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
from irtools.decoder.sublayer import Sublayer, find_sublayers, mixer_outside
from irtools.decoder.verdicts import Evidence, layer_verdicts, stack_verdicts
from irtools.decoder.walk import walk
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView
from irtools.model.config import read_config

__all__ = ["locate_stack"]


def locate_stack(view: GraphView, config: Mapping[str, Any] | None = None) -> DecoderStack:
    """Locate the decoder stack in a graph; see :func:`irtools.decoder.locate`."""
    head = find_head(view)
    embeddings, above = find_embeddings(view, head)
    stream = Stream(view, [match.anchor for match in embeddings], head.input, above)
    walked, dominating = walk(stream), dominating_sums(stream)
    text = read_config(config)
    sums = _agreed(view, walked, dominating)
    sublayers = find_sublayers(stream, sums)
    _require_decoder(view, sublayers)
    _require_whole(stream, sublayers)
    scopes = read_names(view, sublayers)
    grouping = choose(sublayers, scopes, text)
    evidence = Evidence(
        stream=stream,
        head=head,
        walked=frozenset(residual.op for residual in walked),
        dominating=frozenset(residual.op for residual in dominating),
        sublayers=sublayers,
        scopes=scopes,
        named=by_names(scopes),
        config=text,
        grouping=grouping,
    )
    return _build(evidence, embeddings[0].anchor)


def _agreed(view: GraphView, walked: Sequence[Sum], dominating: Sequence[Sum]) -> Sequence[Sum]:
    """The sums of the witness that found more, if the other found no sum beside them."""
    first, second = [residual.op for residual in walked], [residual.op for residual in dominating]
    longer, shorter = (walked, second) if len(first) >= len(second) else (dominating, first)
    order = [residual.op for residual in longer]
    if not order:
        raise LocateRefusedError(
            "no residual stream leads from the embeddings to the lm_head: no Add carries a value past the block that "
            "reads it, or there are several parallel streams, so there is no single hidden state per layer"
        )
    strangers = [op for op in shorter if op not in set(order)]
    if strangers:
        raise LocateRefusedError(
            f"the walk and the dominators contradict each other about {view.op_name(strangers[0])!r}, "
            "so there is no single residual stream"
        )
    return longer


def _require_decoder(view: GraphView, sublayers: Sequence[Sublayer]) -> None:
    foreign = cross_attention(sublayers)
    if foreign is not None and foreign.mixing_match is not None:
        name = view.op_name(foreign.mixing_match.anchor)
        raise LocateRefusedError(
            f"this is the decoder of an encoder-decoder model: {name!r} attends to values from outside the residual "
            "stream (cross-attention); only decoder-only language models are annotated"
        )
    if any(sublayer.mixes for sublayer in sublayers) and not looks_causal(view, sublayers):
        raise LocateRefusedError(
            "this is an encoder, which drafting cannot use: its attention also sees later tokens (no cached state, no "
            "causal mask); only decoder-only language models are annotated"
        )


def _require_whole(stream: Stream, sublayers: Sequence[Sublayer]) -> None:
    outside = mixer_outside(stream, sublayers)
    if outside is not None:
        raise LocateRefusedError(
            f"{stream.view.op_name(outside)!r} mixes tokens outside the residual blocks that were found: some layers "
            "would be missing, because the residual stream is not a plain chain of sums, which is not supported"
        )


def _build(evidence: Evidence, embedding: int) -> DecoderStack:
    view, sublayers, grouping = evidence.stream.view, evidence.sublayers, evidence.grouping
    namer = Namer(view)
    crossing = boundaries(evidence.stream, evidence.scopes, sublayers, grouping.last[:-1])
    layers, twins = [], {}
    for index, members in enumerate(grouping.layers()):
        value = crossing[index] if index < len(crossing) else None
        layer, twins[index] = _layer(evidence, namer, index, [sublayers[member] for member in members], value)
        layers.append(layer)
    widths = {layer.shape[-1] for layer in layers[:-1]}
    if len(widths) > 1:
        raise LocateRefusedError(
            f"the residual stream changes its width ({', '.join(map(str, sorted(widths)))}), "
            "so there is no single hidden size"
        )
    return DecoderStack(
        layers=tuple(layers),
        hidden_size=layers[0].shape[-1],
        scope=evidence.scopes.scope if evidence.scopes else "",
        embedding=embedding,
        stream_start=sublayers[0].sum.skip,
        head=evidence.head.op,
        head_input=evidence.head.input,
        logits=evidence.head.logits,
        logits_tail=evidence.head.tail,
        last_sum=sublayers[-1].sum.op,
        verdicts=stack_verdicts(evidence, layers),
        stream=evidence.stream,
        sublayers=tuple(sublayers),
        _explain=partial(rejections, evidence, tuple(layers), twins),
    )


def _layer(
    evidence: Evidence, namer: Namer, index: int, members: Sequence[Sublayer], value: int | None
) -> tuple[DecoderLayer, list[int]]:
    """Describe one layer, and its twins: ops with the numbers of its hidden state ``value`` (None for the last)."""
    if value is None:
        named = namer.read_by_head(evidence.head.input, index)
    else:
        named = namer.handed_on(evidence.stream, value, index)
    forward = {sublayer.feed_forward for sublayer in members} - {"none"}
    number = evidence.scopes.layers[members[0].index] if evidence.scopes else None
    layer = DecoderLayer(
        index=index,
        locator=named.locator,
        source=named.source,
        shape=named.shape,
        sums=tuple(sublayer.sum.op for sublayer in members),
        mixer=next((sublayer.mixer for sublayer in members if sublayer.mixes), "none"),
        feed_forward="experts" if "experts" in forward else "dense" if forward else "none",
        states=tuple(state.name for sublayer in members for state in sublayer.states),
        scope=f"{evidence.scopes.prefix}{number}" if evidence.scopes and number is not None else "",
        ops=frozenset().union(*(sublayer.ops for sublayer in members)),
        verdicts=layer_verdicts(evidence, index, members, named.source.op),
        obstacle=named.obstacle,
    )
    return layer, named.twins
