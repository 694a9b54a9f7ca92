"""Benefit of drafting: totals over prompts, break-even acceptance rate, recommendation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irtools.runtime.jobs import Outcome

__all__ = ["WORTH_IT", "Advice", "Totals", "advise", "break_even", "share", "speed_up"]

WORTH_IT = 1.03
"""Minimum speed-up for which drafting is recommended. Two runs of the same settings may differ by less."""
_SHORT = 1.0
"""Seconds of plain decoding below which measured speeds are mostly noise."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the prompts of one decoding strategy.

    Attributes
    ----------
    tokens : int
        Generated tokens.
    passes : int
        Passes of the target, prefill included.
    accepted, drafted : int
        Drafted tokens.
    first_token, decode, draft, verify : float
        Seconds, see :class:`~irtools.runtime.jobs.Timing`.
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
        counts = (sum(getattr(one, name) for one in ran) for name in ("steps", "accepted", "drafted"))
        times = (sum(getattr(one.timing, name) for one in ran) for name in ("first_token", "decode", "draft", "verify"))
        return cls(len(ran), sum(len(one.tokens) for one in ran), *counts, *times)

    @property
    def acceptance(self) -> float | None:
        """Acceptance rate; None if nothing was drafted."""
        return share(self.accepted, self.drafted)

    @property
    def tokens_per_second(self) -> float | None:
        """Decoding speed without the first token of each prompt."""
        return share(self.tokens - self.prompts, self.decode)


def share(part: float, whole: float) -> float | None:
    """Quotient; None if ``whole`` is 0."""
    return part / whole if whole else None


def speed_up(plain: Totals, drafted: Totals) -> float | None:
    """Ratio of the tokens per second to those of plain decoding."""
    before, after = plain.tokens_per_second, drafted.tokens_per_second
    return after / before if before and after else None


def break_even(plain: Totals, drafted: Totals) -> float | None:
    """Acceptance rate at which drafting would be as fast as plain decoding.

    With ``t`` seconds of plain decoding per token, ``c`` seconds per cycle (drafting, one pass of the
    target, overhead) and ``d`` drafted tokens per cycle, a cycle yields ``1 + d * a`` tokens at
    acceptance rate ``a``. Plain decoding takes ``t * (1 + d * a)`` for the same tokens, which equals ``c`` at
    ``a = (c / t - 1) / d``. The acceptance does not affect ``c``, so the result holds for other prompts.

    Returns
    -------
    float or None
        Above 1: drafting is slower at any rate. Below 0: a cycle is faster than a plain token. None: nothing was
        drafted.
    """
    per_token = share(plain.decode, plain.tokens - plain.prompts)
    per_cycle = share(drafted.decode, drafted.passes - drafted.prompts)
    per_draft = share(drafted.drafted, drafted.passes - drafted.prompts)
    if not per_token or not per_cycle or not per_draft:
        return None
    return (per_cycle / per_token - 1) / per_draft


@dataclass(frozen=True, slots=True)
class Advice:
    """Recommendation about drafting.

    Attributes
    ----------
    assistant_tokens : int
        Tokens to draft per pass; 0: do not draft.
    text : str
        One sentence with the figures behind the recommendation, without full stop.
    warning : str
        Limits of the measurement, without full stop.
    """

    assistant_tokens: int
    text: str
    warning: str


def advise(plain: Totals, drafted: Mapping[int, Totals]) -> Advice | None:
    """Choose the number of assistant tokens with the highest tokens per second.

    Parameters
    ----------
    drafted : mapping of int to Totals
        By number of assistant tokens.

    Returns
    -------
    Advice or None
        None if nothing was drafted.
    """
    gains = {number: gain for number, totals in drafted.items() if (gain := speed_up(plain, totals)) is not None}
    if not gains or not any(totals.drafted for totals in drafted.values()):
        return None
    warning = "the result depends on device and prompts: measure with your own"
    if plain.decode < _SHORT:
        warning += f"; {plain.decode:.2g} s of plain decoding is too short for reliable speeds"
    if not any(totals.accepted for totals in drafted.values()):
        return Advice(0, "leave drafting off: no drafted token was accepted", warning)
    best = max(gains, key=lambda number: (gains[number], -number))
    totals, needed = drafted[best], break_even(plain, drafted[best])
    figures = f"{gains[best]:.2f} times the speed of plain decoding"
    if totals.acceptance is not None and needed is not None:
        figures += f" with {totals.acceptance:.0%} accepted; {_bounded(needed)}"
    if gains[best] >= WORTH_IT and totals.accepted:
        return Advice(best, f"draft {best} at a time: {figures}", warning)
    return Advice(0, f"leave drafting off: the best setting, {best} at a time, has {figures}", warning)


def _bounded(acceptance: float) -> str:
    if acceptance > 1:
        return "drafting never breaks even: plain decoding would be faster even if all drafted tokens were accepted"
    if acceptance <= 0:
        return "drafting breaks even at any acceptance rate"
    return f"drafting breaks even at {acceptance:.0%} accepted"
