"""Group sublayers into decoder layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from irtools.decoder.names import Scopes
from irtools.decoder.sublayer import Sublayer
from irtools.errors import LocateRefusedError
from irtools.model.config import TextConfig

__all__ = ["Grouping", "by_mixing", "by_names", "choose"]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Layers as runs of sublayers.

    Attributes
    ----------
    last : tuple of int
        Index of the last sublayer of each layer.
    """

    last: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.last)

    def layers(self) -> list[range]:
        """Sublayer indices of each layer."""
        firsts = [0, *(index + 1 for index in self.last[:-1])]
        return [range(first, last + 1) for first, last in zip(firsts, self.last, strict=True)]


def by_mixing(sublayers: Sequence[Sublayer]) -> Grouping | None:
    """Start a layer at each sublayer that mixes tokens; None if none does."""
    starts = [sublayer.index for sublayer in sublayers if sublayer.mixes]
    if not starts:
        return None
    return Grouping((*(start - 1 for start in starts[1:]), len(sublayers) - 1))


def by_names(scopes: Scopes | None) -> Grouping | None:
    """End a layer where the number in the names changes; None unless the numbers count up without gaps."""
    if scopes is None:
        return None
    numbers: list[int] = []
    for number in scopes.layers:
        previous = numbers[-1] if numbers else 0
        numbers.append(previous if number is None else number)
    last = (
        *(index for index, (number, following) in enumerate(pairwise(numbers)) if number != following),
        len(numbers) - 1,
    )
    counted = [numbers[index] for index in last]
    return Grouping(last) if counted == list(range(counted[0], counted[0] + len(counted))) else None


def _irregular(sublayers: Sequence[Sublayer], grouping: Grouping) -> str | None:
    """Reason to doubt the mixing rule: blocks that could be separate layers."""
    if not sublayers[0].mixes:
        return "the first residual sum belongs to a block that mixes no tokens"
    whole = [any(sublayers[index].feed_forward != "none" for index in layer) for layer in grouping.layers()]
    if any(whole) and not all(whole):
        return "only some of the layers would have a feed-forward block"
    return None


def choose(sublayers: Sequence[Sublayer], scopes: Scopes | None, config: TextConfig) -> Grouping:
    """Choose the grouping that the witnesses agree on.

    Raises
    ------
    LocateRefusedError
        The witnesses contradict each other, or the only one that applies is in doubt.
    """
    mixing, named = by_mixing(sublayers), by_names(scopes)
    if mixing is None:
        nearest = next((f" ({miss.pattern}: {miss.reason})" for sublayer in sublayers for miss in sublayer.misses), "")
        raise LocateRefusedError(
            f"none of the {len(sublayers)} blocks on the residual stream mixes tokens{nearest}: no attention, "
            "recurrence, convolution or cached state; this is not a language model, or no pattern knows its token mixer"
        )
    doubt = _irregular(sublayers, mixing)
    if named is not None:
        return _by_names_or_mixing(named, mixing, doubt, config.num_layers, scopes.scope if scopes else "")
    return _without_names(sublayers, mixing, doubt, config.num_layers)


def _by_names_or_mixing(
    named: Grouping, mixing: Grouping, doubt: str | None, counted: int | None, scope: str
) -> Grouping:
    """Choose the grouping with config.json's number of layers; without one, names if the mixing rule is in doubt."""
    if named.last == mixing.last:
        return mixing
    if counted == len(named) and (doubt is not None or counted != len(mixing)):
        return named
    if counted is None and doubt is not None:
        return named
    if counted == len(mixing) and doubt is None:
        return mixing
    raise LocateRefusedError(
        f"the witnesses contradict each other: token mixing gives {len(mixing)} layers, names under {scope!r} give "
        f"{len(named)}, config.json {'gives no number' if counted is None else f'says {counted}'}; "
        "correct config.json if it is wrong, or export the model with its module names"
    )


def _without_names(sublayers: Sequence[Sublayer], mixing: Grouping, doubt: str | None, counted: int | None) -> Grouping:
    """Choose the mixing rule, unless it is in doubt or config.json counts each residual sum as a layer."""
    if len(mixing) == len(sublayers):
        return mixing
    if doubt is None and counted != len(sublayers):
        return mixing
    if doubt is not None and counted == len(sublayers):
        return Grouping(tuple(range(len(sublayers))))
    if sublayers[0].mixes and counted == len(mixing):
        return mixing
    raise LocateRefusedError(
        f"the ends of the layers are in doubt: {doubt or 'each block could be a separate layer'}, no names number the "
        f"layers and config.json {'does not say how many there are' if counted is None else f'says {counted}'}"
        f" ({len(mixing)} by token mixing, {len(sublayers)} residual sums); export the model with its module names"
    )
