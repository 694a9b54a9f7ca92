"""What drafting gained: totals over prompts, the acceptance at which it breaks even, a recommendation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irtools.runtime.genai import Outcome

__all__ = ["WORTH_IT", "Advice", "Totals", "advise", "break_even", "share", "speed_up"]

WORTH_IT = 1.03
"""How much faster than plain decoding drafting must be to be recommended: less is what two runs differ by."""
_SHORT = 1.0
"""Seconds of plain decoding below which speeds are mostly noise."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over prompts that were decoded in one way.

    Attributes
    ----------
    prompts, tokens : int
        How many; tokens are those generated.
    passes : int
        Runs of the target, those of the prompts included.
    accepted, drafted : int
        Candidates.
    first_token, decode, draft, verify : float
        Seconds, see :class:`~irtools.runtime.genai.Timing`.
    """

    prompts: int = 0
    tokens: int = 0
    passes: int = 0
    accepted: int = 0
    drafted: int = 0
    first_token: float = 0.0
    decode: float = 0.0
    draft: float = 0.0
    verify: float = 0.0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Totals:
        """Add up outcomes that ran."""
        ran = list(outcomes)
        return cls(
            len(ran),
            sum(len(one.tokens) for one in ran),
            sum(one.steps for one in ran),
            sum(one.accepted for one in ran),
            sum(one.drafted for one in ran),
            sum(one.timing.first_token for one in ran),
            sum(one.timing.decode for one in ran),
            sum(one.timing.draft for one in ran),
            sum(one.timing.verify for one in ran),
        )

    @property
    def acceptance(self) -> float | None:
        """Accepted share of what was drafted; None when nothing was."""
        return share(self.accepted, self.drafted)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens after the first of each prompt, by the seconds that they took."""
        return share(self.tokens - self.prompts, self.decode)


def share(part: float, whole: float) -> float | None:
    """A quotient; None where there is nothing to divide by."""
    return part / whole if whole else None


def speed_up(plain: Totals, drafted: Totals) -> float | None:
    """How many times as fast as plain decoding, by tokens per second."""
    before, after = plain.tokens_per_second, drafted.tokens_per_second
    return after / before if before and after else None


def break_even(plain: Totals, drafted: Totals) -> float | None:
    """The acceptance at which drafting would be as fast as plain decoding.

    With ``t`` seconds of plain decoding per token, ``c`` seconds per cycle (drafting, one run of the
    target, all between) and ``d`` drafted tokens per cycle, a cycle yields ``1 + d * a`` tokens at
    acceptance ``a``. Plain decoding takes ``t * (1 + d * a)`` for as many, and that equals ``c`` at
    ``a = (c / t - 1) / d``. A cycle takes as long whatever is accepted, so this holds for other prompts.

    Returns
    -------
    float or None
        Above 1: no acceptance would do. Below 0: a cycle is faster than a plain token. None: nothing was drafted.
    """
    per_token = share(plain.decode, plain.tokens - plain.prompts)
    per_cycle = share(drafted.decode, drafted.passes - drafted.prompts)
    per_draft = share(drafted.drafted, drafted.passes - drafted.prompts)
    if not per_token or not per_cycle or not per_draft:
        return None
    return (per_cycle / per_token - 1) / per_draft


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do.

    Attributes
    ----------
    assistant_tokens : int
        Tokens to draft per pass; 0: leave drafting off.
    text : str
        One sentence with the figures that it follows from, without full stop.
    warning : str
        What to keep in mind, without full stop.
    """

    assistant_tokens: int
    text: str
    warning: str


def advise(plain: Totals, drafted: Mapping[int, Totals]) -> Advice | None:
    """Choose the number of assistant tokens with the highest tokens per second.

    Parameters
    ----------
    plain : Totals
    drafted : mapping of int to Totals
        By number of assistant tokens.

    Returns
    -------
    Advice or None
        None when nothing was drafted.
    """
    gains = {number: gain for number, totals in drafted.items() if (gain := speed_up(plain, totals)) is not None}
    if not gains or not any(totals.drafted for totals in drafted.values()):
        return None
    warning = "this depends on device and prompts: measure with yours"
    if plain.decode < _SHORT:
        warning += f"; {plain.decode:.2g} s of plain decoding is too short to rely on the speeds"
    if not any(totals.accepted for totals in drafted.values()):
        return Advice(0, "leave it off: nothing of what was drafted was accepted", warning)
    best = max(gains, key=lambda number: (gains[number], -number))
    totals, needed = drafted[best], break_even(plain, drafted[best])
    figures = f"{gains[best]:.2f} times the speed of plain decoding"
    if totals.acceptance is not None and needed is not None:
        figures += f" with {totals.acceptance:.0%} accepted; {_bounded(needed)}"
    if gains[best] >= WORTH_IT and totals.accepted:
        return Advice(best, f"draft {best} at a time: {figures}", warning)
    return Advice(0, f"leave it off: the best, {best} at a time, has {figures}", warning)


def _bounded(acceptance: float) -> str:
    if acceptance > 1:
        return "it never breaks even: with all accepted, plain decoding would still be faster"
    if acceptance <= 0:
        return "it breaks even whatever is accepted"
    return f"it breaks even at {acceptance:.0%} accepted"
