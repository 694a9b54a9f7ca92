"""Decide from intervals whether to draft, and how many tokens; ``undecided`` where they leave both open."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean, variance

from irtools.bench.intervals import CONFIDENCE, Figure, Ratio

__all__ = ["FEWEST", "OFF", "ON", "UNDECIDED", "WORTH_IT", "Decision", "decide", "row_decision"]

ON, OFF, UNDECIDED = "on", "off", "undecided"
WORTH_IT = 1.03
"""Smallest speed-up for which drafting is switched on."""
FEWEST = 3
"""Repetitions of a row below which nothing is decided about it."""
_SURE = (1 + CONFIDENCE) / 2
"""Probability of a limit that decides, as of either end of an interval."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to draft.

    Attributes
    ----------
    decision : str
        ``on``, ``off`` or ``undecided``.
    row : str
        The row with the highest speed-up; ``""`` if nothing was drafted.
    speed_up : Figure or None
        Of this row, without the advantage of having been chosen. The lower limit holds for all rows at once.
    """

    decision: str
    row: str = ""
    speed_up: Figure | None = None


def row_decision(ratio: Ratio) -> str:
    """Decision about one row by itself."""
    if ratio.repetitions < FEWEST or not ratio.possible:
        return UNDECIDED
    return _decision(ratio.bound(1 - _SURE), ratio.bound(_SURE), math.exp(ratio.estimate.value))


def decide(ratios: Mapping[str, Ratio]) -> Decision:
    """Choose among rows.

    ``on`` if one row is faster than plain decoding at a level that allows for the number of rows (Sidak); ``off`` if
    each row is slower, where no allowance is needed, because all must be. In between, and if the gain is below
    :data:`WORTH_IT`, ``undecided``. Rows with fewer than :data:`FEWEST` repetitions do not count. So two benchmarks
    contradict each other only if one of them is wrong. A speed-up that is not possible decides nothing.
    """
    if not ratios:
        return Decision(UNDECIDED)
    ratios = {name: one for name, one in ratios.items() if one.repetitions >= FEWEST} or ratios
    best = max(ratios, key=lambda name: ratios[name].estimate.value)
    ratio = ratios[best]
    low = ratio.bound(1 - _SURE ** (1 / len(ratios)))
    high = max(one.bound(_SURE) for one in ratios.values())
    center = _unbiased(ratios, best)
    shown = Figure(center, min(low, center), max(high, center), "times")
    sure = ratio.repetitions >= FEWEST and ratio.possible
    return Decision(_decision(low, high, center) if sure else UNDECIDED, best, shown)


def _decision(low: float, high: float, center: float) -> str:
    if low > 1 and center >= WORTH_IT:
        return ON
    return OFF if high < 1 else UNDECIDED


def _unbiased(ratios: Mapping[str, Ratio], best: str) -> float:
    """Speed-up of the fastest row without the advantage of having been chosen.

    That advantage comes from the errors of the rows: their times spread by errors and by true differences. The
    logarithm moves towards the mean of all rows by the share of the errors (empirical Bayes, Efron and Morris 1975).
    """
    values = {name: one.estimate.value for name, one in ratios.items()}
    center = mean(values.values())
    if len(values) < 2:
        return math.exp(center)
    errors = mean(one.own for one in ratios.values())
    true = max(variance(values.values()) - errors, 0.0)
    kept = true / (true + errors) if errors else 1.0
    return math.exp(center + kept * (values[best] - center))
