"""Which residual sums make a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irtools.decoder.names import Scopes
from irtools.decoder.stretch import Stretch
from irtools.errors import LocateRefusedError
from irtools.model.config import TextConfig

__all__ = ["Grouping", "by_mixing", "by_names", "by_sum", "choose"]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Layers as runs of stretches.

    Attributes
    ----------
    rule : str
        How they were made.
    last : tuple of int
        Index of the last stretch of each layer.
    """

    rule: str
    last: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.last)

    def layers(self) -> list[range]:
        """Stretch indices of each layer."""
        firsts = [0, *(index + 1 for index in self.last[:-1])]
        return [range(first, last + 1) for first, last in zip(firsts, self.last, strict=True)]


def by_mixing(pieces: Sequence[Stretch]) -> Grouping | None:
    """A layer begins where the next stretch mixes tokens; the rest belongs to the layer before."""
    starts = [piece.index for piece in pieces if piece.mixes]
    if not starts:
        return None
    return Grouping("token mixing", (*(start - 1 for start in starts[1:]), len(pieces) - 1))


def by_sum(pieces: Sequence[Stretch]) -> Grouping:
    """Every sum ends a layer."""
    return Grouping("one sum a layer", tuple(range(len(pieces))))


def by_names(pieces: Sequence[Stretch], scopes: Scopes | None) -> Grouping | None:
    """A layer ends where the number in the names changes; None unless they count without gaps."""
    if scopes is None:
        return None
    numbers: list[int] = []
    for number in scopes.layers:
        previous = numbers[-1] if numbers else None
        numbers.append(previous if number is None and previous is not None else number if number is not None else 0)
    ends = [index for index in range(len(numbers) - 1) if numbers[index] != numbers[index + 1]]
    counted = [numbers[index] for index in (*ends, len(numbers) - 1)]
    if counted != list(range(counted[0], counted[0] + len(counted))):
        return None
    return Grouping("names", (*ends, len(pieces) - 1))


def _irregular(pieces: Sequence[Stretch], grouping: Grouping) -> str | None:
    """What makes the mixing rule doubtful: blocks that may be layers of their own."""
    if not pieces[0].mixes:
        return "the first residual sum belongs to a block that mixes no tokens"
    whole = [any(pieces[index].feed_forward != "none" for index in layer) for layer in grouping.layers()]
    if any(whole) and not all(whole):
        return "some layers would have a feed-forward block and some none"
    return None


def choose(pieces: Sequence[Stretch], scopes: Scopes | None, config: TextConfig) -> Grouping:
    """Take the grouping that the witnesses agree on.

    Raises
    ------
    LocateRefusedError
        They contradict each other, or the only one left is in doubt.
    """
    mixing, named = by_mixing(pieces), by_names(pieces, scopes)
    if mixing is None:
        nearest = next((f" ({miss.pattern}: {miss.reason})" for piece in pieces for miss in piece.misses), "")
        raise LocateRefusedError(
            f"none of the {len(pieces)} blocks on the residual stream mixes tokens{nearest}: no attention, recurrence, "
            "convolution or cached state; this is no language model, or one of a kind that no pattern knows"
        )
    doubt = _irregular(pieces, mixing)
    if named is not None:
        return _by_names_or_mixing(named, mixing, doubt, config.num_layers, scopes.scope if scopes else "")
    return _without_names(pieces, mixing, doubt, config.num_layers)


def _by_names_or_mixing(
    named: Grouping, mixing: Grouping, doubt: str | None, counted: int | None, scope: str
) -> Grouping:
    """Of two groupings that differ, the one that config.json counts; without it, names against a doubtful mixing."""
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
        f"{len(named)}, config.json {'says nothing' if counted is None else f'says {counted}'}; "
        "correct config.json if it is wrong, or export the model with the names of its modules"
    )


def _without_names(pieces: Sequence[Stretch], mixing: Grouping, doubt: str | None, counted: int | None) -> Grouping:
    """The mixing rule unless it is in doubt, or config.json counts every sum as a layer."""
    if len(mixing) == len(pieces):
        return mixing
    if doubt is None and counted != len(pieces):
        return mixing
    if doubt is not None and counted == len(pieces):
        return by_sum(pieces)
    if pieces[0].mixes and counted == len(mixing):
        return mixing
    raise LocateRefusedError(
        f"where layers end is in doubt: {doubt or 'each block could be a layer of its own'}, no names number them and "
        f"config.json {'does not say how many there are' if counted is None else f'says {counted}'}"
        f" ({len(mixing)} by token mixing, {len(pieces)} residual sums); export the model with its module names"
    )
