"""The two ends of the residual stream: the lm_head and the token embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.decoder.stream import ancestors
from irtools.errors import LocateRefusedError
from irtools.graph.match import Match, Matcher
from irtools.graph.view import GraphView, Source
from irtools.ir.op import DYNAMIC
from irtools.model.ports import TOKEN_INPUTS

__all__ = ["LmHead", "find_embeddings", "find_head"]


@dataclass(frozen=True, slots=True)
class LmHead:
    """The lm_head and the path from it to the logits.

    Attributes
    ----------
    op : int
        Layer id of the MatMul.
    input : Source
        The value that the MatMul reads: the hidden state of the last layer.
    shape : tuple of int
        Shape of that value.
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
        """Last dimension of the logits; -1 if unknown."""
        return self.scores[-1] if self.scores else -1


def find_head(view: GraphView) -> LmHead:
    """Find the lm_head above the output named ``logits``, in whatever form the model has it.

    For what the runtime finds, see :func:`irtools.model.target.find_runtime_lm_head`.

    Raises
    ------
    LocateRefusedError
        There is no such output, or it is not computed by a single MatMul with constant weights.
    """
    result = view.result_named("logits")
    if result is None:
        outputs = [name for key in view.results for name in view.result_names(key)[:1]]
        listed = ", ".join(outputs[:6]) + (", ..." if len(outputs) > 6 else "") if outputs else "none"
        raise LocateRefusedError(
            f"no output is named 'logits' (outputs: {listed}): this is not a language model that drafting could use, "
            "or the output lost its name"
        )
    match, misses = Matcher(view).at("logits_tail", result)
    if match is None:
        miss = misses[-1]
        where = f" ({view.op_name(miss.op)})" if miss.op is not None else ""
        raise LocateRefusedError(f"no lm_head was found above the output 'logits': {miss.reason}{where}")
    op = match.ops["head"]
    source = next(source for source in view.inputs(op) if not view.constant(source.op))
    return LmHead(op, source, view.shape(source), view.shape(view.inputs(result)[0]), result, match.tail)


def find_embeddings(view: GraphView, head: LmHead) -> tuple[tuple[Match, ...], set[int]]:
    """Find the token embeddings that the input of the lm_head is computed from.

    Returns
    -------
    embeddings : tuple of Match
        The best first.
    above : set of int
        Ancestors of the lm_head input.

    Raises
    ------
    LocateRefusedError
        The lm_head input does not depend on a token embedding, or the logits are not scores of tokens.
    """
    above = ancestors(view, head.input.op)
    matcher = Matcher(view)
    candidates = [op for anchor in ("Gather", "Parameter") for op in view.by_type.get(anchor, ()) if op in above]
    matches = [match for op in candidates if (match := matcher.at("embedding", op)[0]) is not None]
    if not matches:
        inputs = ", ".join(repr(view.op_name(op)) for op in view.parameters if op in above) or "no input"
        raise LocateRefusedError(
            f"the logits are computed from {inputs} without a token embedding (a Gather of rows by token ids, or "
            "an input of embeddings): this is not a decoder-only language model"
        )
    matches.sort(key=lambda match: _preference(view, match, head))
    _require_token_scores(view, head, matches[0])
    best = _preference(view, matches[0], head)[:2]
    return tuple(match for match in matches if _preference(view, match, head)[:2] == best), above


def _require_token_scores(view: GraphView, head: LmHead, embedding: Match) -> None:
    """Refuse classifiers: their logits have rank 2 but are not the scores of one token."""
    rank = len(head.scores)
    if rank in (0, 3) or (rank == 2 and _rows(view, embedding) == head.vocabulary):
        return
    raise LocateRefusedError(
        f"the output 'logits' has rank {rank}, not 3 (batch, sequence, vocabulary): "
        "this is a classifier, not a language model"
    )


def _rows(view: GraphView, embedding: Match) -> int | None:
    """Rows of the embedding table; None for an input of embeddings."""
    table = view.output(embedding.ops["table"]).shape if "table" in embedding.ops else ()
    return table[0] if table else None


def _preference(view: GraphView, match: Match, head: LmHead) -> tuple[bool, bool, bool]:
    """Sort key: inputs that the runtime feeds first, then a table of the vocabulary's size, then the hidden size."""
    start = match.ops.get("ids", match.anchor)
    names = {view.op_name(start), *view.output(start).names}
    return (
        names.isdisjoint(TOKEN_INPUTS),
        _rows(view, match) not in (None, head.vocabulary),  # an input of embeddings has no table
        view.output(match.anchor).shape[-1:] != (head.shape[-1:] or (DYNAMIC,)),
    )
