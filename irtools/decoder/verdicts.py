"""Verdicts of the witnesses on the located stack and its layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from irtools.decoder.grouping import Grouping
from irtools.decoder.head import LmHead
from irtools.decoder.mixers import MIXERS
from irtools.decoder.names import Scopes
from irtools.decoder.stack import DecoderLayer, Verdict
from irtools.decoder.stream import Stream
from irtools.decoder.sublayer import Sublayer
from irtools.model.config import TextConfig
from irtools.text import plural

__all__ = ["Evidence", "layer_verdicts", "stack_verdicts"]

_NUMBER = re.compile(r"(?<![0-9])[0-9]{1,18}(?![0-9])")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of all witnesses.

    Attributes
    ----------
    walked, dominating : frozenset of int
        Layer ids of the sums that the walk and the dominators find.
    named : Grouping or None
        Layers by names.
    grouping : Grouping
        The chosen layers.
    """

    stream: Stream
    head: LmHead
    walked: frozenset[int]
    dominating: frozenset[int]
    sublayers: Sequence[Sublayer]
    scopes: Scopes | None
    named: Grouping | None
    config: TextConfig
    grouping: Grouping


def layer_verdicts(evidence: Evidence, index: int, members: Sequence[Sublayer], value: int) -> tuple[Verdict, ...]:
    """One verdict per witness on one layer, whose hidden state is the value of the op ``value``."""
    final = index == len(evidence.grouping) - 1
    end = members[-1].sum.op
    return (
        _walk(evidence, members[-1], value, final),
        _dominators(evidence, end, final),
        _names(evidence, index, members),
        _state(members),
        _config(evidence, index, members),
    )


def _walk(evidence: Evidence, last: Sublayer, value: int, final: bool) -> Verdict:
    if last.sum.op not in evidence.walked:
        return Verdict("walk", None, "the walk did not reach this sum")
    if final:
        return Verdict("walk", True, "the head reads it after the last residual sum")
    following = evidence.sublayers[last.index + 1].sum.skip
    if following in evidence.stream.same_value(value):
        return Verdict("walk", True, "the residual sums of the next layer start from it")
    return Verdict(
        "walk", True, "the last residual sum of the layer; the next layer transforms it before its first sum"
    )


def _dominators(evidence: Evidence, end: int, final: bool) -> Verdict:
    if end not in evidence.dominating:
        return Verdict("dominators", None, "not a dominator: other values bypass the layer")
    if final:
        return Verdict("dominators", True, "every path to the logits passes it")
    return Verdict("dominators", True, "every path from the embeddings to the logits passes it")


def _names(evidence: Evidence, index: int, members: Sequence[Sublayer]) -> Verdict:
    if evidence.scopes is None:
        return Verdict("names", None, "no scope numbers the layers")
    numbers = {number for sublayer in members if (number := evidence.scopes.layers[sublayer.index]) is not None}
    if not numbers:
        return Verdict("names", None, "no scope of its ops has a number")
    first = next((number for number in evidence.scopes.layers if number is not None), 0)
    listed = ", ".join(f"{evidence.scopes.prefix}{number}" for number in sorted(numbers))
    agrees = numbers == {first + index}
    return Verdict("names", agrees, f"computed in {listed}")


def _state(members: Sequence[Sublayer]) -> Verdict:
    states = [state.name for sublayer in members for state in sublayer.states]
    if not states:
        return Verdict("state", None, "owns no state")
    owners = [sublayer for sublayer in members if sublayer.states]
    if len(owners) > 1:
        return Verdict("state", False, f"{len(owners)} blocks of this layer own states")
    listed = ", ".join(states[:2]) + (", ..." if len(states) > 2 else "")
    return Verdict("state", True, f"owns {len(states)}: {listed}")


def _config(evidence: Evidence, index: int, members: Sequence[Sublayer]) -> Verdict:
    config, count = evidence.config, len(evidence.grouping)
    if config.num_layers is None:
        return Verdict("config", None, "config.json gives no number of layers")
    if config.num_layers != count:
        return Verdict(
            "config", False, f"config.json says {plural(config.num_layers, 'layer')}, but {count} were found"
        )
    if len(config.layer_types) == count:
        kind = config.layer_types[index]
        mixer = next((sublayer.mixer for sublayer in members if sublayer.mixes), "none")
        contradiction = _contradiction(kind, mixer)
        return Verdict("config", not contradiction, f"layer {index} of {count}, {kind}{contradiction}")
    return Verdict("config", True, f"layer {index} of {count}")


def _contradiction(kind: str, mixer: str) -> str:
    if kind in MIXERS and MIXERS[kind].configured and mixer not in (kind, "unknown"):
        return f" (the graph looks like {mixer})"
    return ""


def stack_verdicts(evidence: Evidence, layers: Sequence[DecoderLayer]) -> tuple[Verdict, ...]:
    """One verdict per witness on the stack as a whole."""
    count, total = len(layers), len(evidence.sublayers)
    ends = {evidence.sublayers[members[-1]].sum.op for members in evidence.grouping.layers()}
    sums = plural(len(evidence.dominating), "sum")
    return (
        _seen("walk", ends & evidence.walked, count, f"{len(evidence.walked)} residual sums, {total} needed"),
        _seen("dominators", ends & evidence.dominating, count, f"{sums} on every path"),
        _stack_names(evidence),
        _stack_state(layers),
        _stack_config(evidence, layers),
    )


def _seen(witness: str, ends: set[int], count: int, reason: str) -> Verdict:
    if len(ends) == count:
        return Verdict(witness, True, reason)
    return Verdict(witness, None, f"{reason}: finds {len(ends)} of {count} layers and contradicts none")


def _stack_names(evidence: Evidence) -> Verdict:
    if evidence.scopes is None:
        return Verdict("names", None, "no scope numbers the layers")
    if evidence.named is None:
        return Verdict("names", None, f"the numbers under {evidence.scopes.scope!r} do not increase by one")
    agrees = evidence.named.last == evidence.grouping.last
    return Verdict("names", agrees, f"{plural(len(evidence.named), 'layer')} under {evidence.scopes.scope!r}")


def _stack_state(layers: Sequence[DecoderLayer]) -> Verdict:
    owners = [layer for layer in layers if layer.states]
    if not owners:
        return Verdict("state", None, "the model has no state")
    if any(verdict.agrees is False for layer in owners for verdict in layer.verdicts if verdict.witness == "state"):
        return Verdict("state", False, "two blocks of one layer own states")
    by_mixer: dict[str, list[int]] = {}
    for layer in owners:
        numbers = [int(match[0]) for state in layer.states if (match := _NUMBER.search(state))]
        if numbers:
            by_mixer.setdefault(layer.mixer, []).append(min(numbers))
    counted = all(order == sorted(order) for order in by_mixer.values())
    reason = f"{len(owners)} of {len(layers)} layers own states"
    return Verdict("state", counted, reason + ("" if counted else ", whose numbers do not increase with the layers"))


def _stack_config(evidence: Evidence, layers: Sequence[DecoderLayer]) -> Verdict:
    config = evidence.config
    if config.num_layers is None:
        return Verdict("config", None, "config.json gives no number of layers")
    size = "" if config.hidden_size is None else f" of hidden size {config.hidden_size}"
    agrees = config.num_layers == len(layers) and config.hidden_size in (None, layers[0].shape[-1])
    return Verdict("config", agrees, f"config.json says {plural(config.num_layers, 'layer')}{size}")
