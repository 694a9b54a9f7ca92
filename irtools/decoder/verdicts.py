"""What each witness says about the located stack, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from irtools.decoder.grouping import Grouping
from irtools.decoder.head import Head
from irtools.decoder.names import Scopes
from irtools.decoder.stack import DecoderLayer, Verdict
from irtools.decoder.stream import Stream
from irtools.decoder.stretch import Stretch
from irtools.model.config import TextConfig

__all__ = ["Evidence", "layer_verdicts", "stack_verdicts"]

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the witnesses found.

    Attributes
    ----------
    stream : Stream
    head : Head
    walked, dominating : frozenset of int
        Layer ids of the sums that the walk and the dominators see.
    pieces : sequence of Stretch
    scopes : Scopes or None
    named : Grouping or None
        Layers by names.
    config : TextConfig
    grouping : Grouping
        The layers that were agreed on.
    """

    stream: Stream
    head: Head
    walked: frozenset[int]
    dominating: frozenset[int]
    pieces: Sequence[Stretch]
    scopes: Scopes | None
    named: Grouping | None
    config: TextConfig
    grouping: Grouping


def layer_verdicts(evidence: Evidence, index: int, members: Sequence[Stretch], value: int) -> tuple[Verdict, ...]:
    """One verdict per witness on one layer, whose hidden state is the value of an op."""
    final = index == len(evidence.grouping) - 1
    end = members[-1].sum.op
    return (
        _walk(evidence, members[-1], value, final),
        _dominators(evidence, end, final),
        _names(evidence, index, members),
        _state(members),
        _config(evidence, index, members),
    )


def _walk(evidence: Evidence, last: Stretch, value: int, final: bool) -> Verdict:
    if last.sum.op not in evidence.walked:
        return Verdict("walk", None, "the walk did not pass this sum")
    if final:
        return Verdict("walk", True, "the head reads it, after the last residual sum")
    following = evidence.pieces[last.index + 1].sum.skip
    if following in evidence.stream.same_value(value):
        return Verdict("walk", True, "the residual sums of the next layer start from it")
    return Verdict("walk", True, "the last residual sum of the layer; the next layer starts by changing it")


def _dominators(evidence: Evidence, end: int, final: bool) -> Verdict:
    if end not in evidence.dominating:
        return Verdict("dominators", None, "values that bypass this layer hide it")
    if final:
        return Verdict("dominators", True, "every path to the logits passes it")
    return Verdict("dominators", True, "every path from the embeddings to the logits passes it")


def _names(evidence: Evidence, index: int, members: Sequence[Stretch]) -> Verdict:
    if evidence.scopes is None:
        return Verdict("names", None, "no scope numbers the layers")
    numbers = {number for piece in members if (number := evidence.scopes.layers[piece.index]) is not None}
    if not numbers:
        return Verdict("names", None, "its ops have no numbered scope")
    first = next((number for number in evidence.scopes.layers if number is not None), 0)
    listed = ", ".join(f"{evidence.scopes.prefix}{number}" for number in sorted(numbers))
    agrees = numbers == {first + index}
    return Verdict("names", agrees, f"computed in {listed}")


def _state(members: Sequence[Stretch]) -> Verdict:
    states = [state.name for piece in members for state in piece.states]
    if not states:
        return Verdict("state", None, "reads no state of its own")
    holders = [piece for piece in members if piece.states]
    if len(holders) > 1:
        return Verdict("state", False, f"{len(holders)} blocks of this layer have states of their own")
    return Verdict("state", True, f"owns {len(states)}: {_short(states)}")


def _short(states: Sequence[str]) -> str:
    listed = ", ".join(states[:2])
    return listed + (", ..." if len(states) > 2 else "")


def _config(evidence: Evidence, index: int, members: Sequence[Stretch]) -> Verdict:
    config, count = evidence.config, len(evidence.grouping)
    if config.num_layers is None:
        return Verdict("config", None, "config.json says nothing of layers")
    if config.num_layers != count:
        return Verdict("config", False, f"config.json says {config.num_layers} layers, found {count}")
    if len(config.layer_types) == count:
        kind = config.layer_types[index]
        mixer = next((piece.mixer for piece in members if piece.mixes), "none")
        contradiction = _contradiction(kind, mixer)
        return Verdict("config", not contradiction, f"layer {index} of {count}, {kind}{contradiction}")
    return Verdict("config", True, f"layer {index} of {count}")


def _contradiction(kind: str, mixer: str) -> str:
    if kind in ("full_attention", "sliding_attention", "linear_attention") and mixer not in (kind, "unknown"):
        return f" (the graph looks like {mixer})"
    return ""


def stack_verdicts(evidence: Evidence, layers: Sequence[DecoderLayer]) -> tuple[Verdict, ...]:
    """One verdict per witness on the stack as a whole."""
    count, total = len(layers), len(evidence.pieces)
    ends = {evidence.pieces[members[-1]].sum.op for members in evidence.grouping.layers()}
    return (
        _seen("walk", ends & evidence.walked, count, f"{len(evidence.walked)} residual sums, {total} needed"),
        _seen("dominators", ends & evidence.dominating, count, f"{len(evidence.dominating)} sums on every path"),
        _stack_names(evidence, count),
        _stack_state(layers),
        _stack_config(evidence, layers),
    )


def _seen(witness: str, ends: set[int], count: int, reason: str) -> Verdict:
    if len(ends) == count:
        return Verdict(witness, True, reason)
    return Verdict(witness, None, f"{reason}: sees {len(ends)} of {count} layers, contradicts none")


def _stack_names(evidence: Evidence, count: int) -> Verdict:
    if evidence.scopes is None:
        return Verdict("names", None, "no scope numbers the layers")
    if evidence.named is None:
        return Verdict("names", None, f"the numbers under {evidence.scopes.scope!r} do not count up one by one")
    agrees = evidence.named.last == evidence.grouping.last
    return Verdict("names", agrees, f"{len(evidence.named)} layers under {evidence.scopes.scope!r}")


def _stack_state(layers: Sequence[DecoderLayer]) -> Verdict:
    owners = [layer for layer in layers if layer.states]
    if not owners:
        return Verdict("state", None, "the model keeps no state")
    if any(verdict.agrees is False for layer in owners for verdict in layer.verdicts if verdict.witness == "state"):
        return Verdict("state", False, "a layer has two blocks with states of their own")
    numbers = [[int(found[0]) for state in layer.states if (found := _NUMBER.findall(state))] for layer in owners]
    per_kind: dict[str, list[int]] = {}
    for layer, found in zip(owners, numbers, strict=True):
        if found:
            per_kind.setdefault(layer.mixer, []).append(min(found))
    counted = all(order == sorted(order) for order in per_kind.values())
    reason = f"{len(owners)} of {len(layers)} layers own states"
    return Verdict("state", counted, reason + ("" if counted else ", whose numbers do not rise with the layers"))


def _stack_config(evidence: Evidence, layers: Sequence[DecoderLayer]) -> Verdict:
    config = evidence.config
    if config.num_layers is None:
        return Verdict("config", None, "config.json says nothing of layers")
    said = f"config.json says {config.num_layers} layers"
    if config.hidden_size is not None:
        said += f" of hidden size {config.hidden_size}"
    width = config.hidden_size in (None, layers[0].shape[-1])
    return Verdict("config", config.num_layers == len(layers) and width, said)
