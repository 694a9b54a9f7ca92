"""The two ends of the residual stream: the head and the embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.decoder.stream import ancestors
from irtools.errors import LocateRefusedError
from irtools.graph.match import Match, Matcher
from irtools.graph.view import GraphView, Source

__all__ = ["Head", "find_embeddings", "find_head"]


@dataclass(frozen=True, slots=True)
class Head:
    """The head and how the logits come from it.

    Attributes
    ----------
    op : int
        Layer id of the MatMul.
    input : Source
        The value it reads: the hidden state of the last layer.
    shape : tuple of int
        Of that value.
    scores : tuple of int
        Shape of the logits.
    logits : int
        Layer id of the Result.
    tail : tuple of int
        Ops between the MatMul and the Result.
    """

    op: int
    input: Source
    shape: tuple[int, ...]
    scores: tuple[int, ...]
    logits: int
    tail: tuple[int, ...]

    @property
    def vocabulary(self) -> int:
        """Last dimension of the logits, -1 if unknown."""
        return self.scores[-1] if self.scores else -1


def find_head(view: GraphView) -> Head:
    """Find the head above the output named ``logits``.

    Raises
    ------
    LocateRefusedError
        There is no such output, or it is not computed by one MatMul with constant weights.
    """
    named = [result for result in view.results if "logits" in view.result_names(result)]
    if not named:
        outputs = [name for result in view.results for name in view.result_names(result)[:1]]
        listed = ", ".join(outputs[:6]) + (", ..." if len(outputs) > 6 else "") if outputs else "none"
        raise LocateRefusedError(
            f"no output is named 'logits' (outputs: {listed}), so this is not a language model that drafting could use"
        )
    match, misses = Matcher(view).at("logits_tail", named[0])
    if match is None:
        miss = misses[-1]
        where = f" ({view.op_name(miss.op)})" if miss.op is not None else ""
        raise LocateRefusedError(f"no head found above the output 'logits': {miss.reason}{where}")
    op = match.ops["head"]
    source = next(source for source in view.inputs(op) if not view.constant(source.op))
    port = view.port(source)
    logits = view.port(view.inputs(named[0])[0])
    shape = logits.shape if logits else ()
    return Head(op, source, port.shape if port else (), shape, named[0], match.tail)


def find_embeddings(view: GraphView, head: Head) -> tuple[tuple[Match, ...], set[int]]:
    """Find the token embeddings that the head's input is computed from.

    Returns
    -------
    embeddings : tuple of Match
        The best first.
    above : set of int
        Ancestors of the head input.

    Raises
    ------
    LocateRefusedError
        The head's input is computed from no token embedding, or the logits score no tokens.
    """
    above = ancestors(view, head.input.op)
    matcher = Matcher(view)
    found: list[Match] = []
    for anchor in ("Gather", "Parameter"):
        for op in view.by_type.get(anchor, ()):
            if op in above:
                match, _ = matcher.at("embedding", op)
                if match is not None:
                    found.append(match)
    width = head.shape[-1] if head.shape else -1
    ranked = sorted(found, key=lambda match: _preference(view, match, head, width))
    if not ranked:
        inputs = ", ".join(repr(view.op_name(op)) for op in view.parameters if op in above) or "no input"
        raise LocateRefusedError(
            f"the logits are computed from {inputs} without a token embedding (a Gather of rows by token ids, or "
            "an input of embeddings): this is not a decoder-only language model"
        )
    _require_token_scores(view, head, ranked[0])
    best = _preference(view, ranked[0], head, width)[:2]
    return tuple(match for match in ranked if _preference(view, match, head, width)[:2] == best), above


def _require_token_scores(view: GraphView, head: Head, embedding: Match) -> None:
    """Refuse classifiers: logits of rank 2 that are not the scores of one token for the vocabulary."""
    rank = len(head.scores)
    if rank in (0, 3) or (rank == 2 and _rows(view, embedding) == head.vocabulary):
        return
    raise LocateRefusedError(
        f"the output 'logits' has rank {rank}, not 3 (batch, sequence, vocabulary): "
        "this is a classifier, not a language model"
    )


def _rows(view: GraphView, embedding: Match) -> int | None:
    """Rows of the embedding table, None for an input of embeddings."""
    return view.output(embedding.ops["table"]).shape[0] if "table" in embedding.ops else None


def _preference(view: GraphView, match: Match, head: Head, width: int) -> tuple[int, int, int]:
    """Sort key: the names the runtime feeds first, then a table of the vocabulary's size (an input has none), width."""
    start = match.ops.get("ids", match.anchor)
    names = {view.op_name(start), *view.output(start).names}
    known = 0 if names & {"input_ids", "inputs_embeds"} else 1
    outputs = view.output(match.anchor).shape
    return (
        known,
        0 if _rows(view, match) in (None, head.vocabulary) else 1,
        0 if outputs and outputs[-1] == width else 1,
    )
