"""Confidence intervals from few repetitions on a machine with other work.

Repetitions are the unit: the passes of one process are not independent. Other work on the machine can only make a pass
longer, so the steady time of a prompt is estimated from its fastest passes in all repetitions. Its error is that of the
jackknife over repetitions (Efron 1982, "The Jackknife, the Bootstrap and Other Resampling Plans", chapter 3). The rows
take turns on one machine, so the error of a repetition is taken to be the same for all of them, as in the analysis of
variance: from five repetitions of one row alone it would be known only within a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median, variance
from typing import TypeVar

__all__ = [
    "BEYOND",
    "CONFIDENCE",
    "Estimate",
    "Figure",
    "Ratio",
    "estimate",
    "figure",
    "quantile",
    "ratios",
    "undisturbed",
]

T = TypeVar("T")

CONFIDENCE = 0.95
BEYOND = 1.25
"""A ratio above this multiple of its limit is an error of measurement."""
_FLOOR = 0.005
"""Smallest standard error of a logarithm: repetitions of one session do not see what differs between sessions."""
_FASTEST = 0.04
"""Share of the passes that come without interruptions even on a busy machine."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Median over the repetitions, with an interval in which the true value lies in 95 of 100 cases."""

    median: float
    low: float
    high: float
    unit: str = ""

    def to_json(self) -> dict[str, float | str | None]:
        """The figure as in a record; ``high`` is None if there is no upper limit."""
        high = self.high if math.isfinite(self.high) else None
        return {"median": self.median, "low": self.low, "high": high, "unit": self.unit}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Logarithm of a quantity: value, variance and its degrees of freedom; 0 for one repetition."""

    value: float
    variance: float
    freedom: int

    def bound(self, probability: float) -> float:
        """The quantity that the true one is below with this probability; infinite or 0 from one repetition."""
        if self.freedom < 1:
            return math.inf if probability > 0.5 else 0.0
        error = max(math.sqrt(self.variance), _FLOOR)
        return math.exp(self.value + quantile(probability, self.freedom) * error)

    def figure(self, unit: str) -> Figure:
        """The quantity with its interval."""
        tail = (1 - CONFIDENCE) / 2
        return Figure(math.exp(self.value), self.bound(tail), self.bound(1 - tail), unit)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of the speed of a row to that of another one.

    Attributes
    ----------
    estimate : Estimate
        Logarithm of the ratio.
    own : float
        Variance of the time of the row, without that of the other one.
    repetitions : int
        Of the row with fewer.
    limit : float
        Largest ratio that is possible; infinite if nothing is known about it.
    """

    estimate: Estimate
    own: float
    repetitions: int
    limit: float = math.inf

    @property
    def possible(self) -> bool:
        """False if the ratio is above its limit, so that other work on the machine explains it."""
        return math.exp(self.estimate.value) <= BEYOND * self.limit

    def bound(self, probability: float) -> float:
        """As :meth:`Estimate.bound`."""
        return self.estimate.bound(probability)

    def figure(self) -> Figure:
        """The ratio with its interval."""
        return self.estimate.figure("times")


def ratios(before: Estimate, after: Mapping[str, Estimate]) -> dict[str, Ratio]:
    """Ratios of speeds from the times of one row and of others, with the error of a repetition common to all."""
    measured = [one for one in (before, *after.values()) if one.freedom]
    freedom = sum(one.freedom for one in measured)
    # The variance of a jackknife is that of the mean of `freedom + 1` repetitions.
    of_one = sum(one.freedom * (one.freedom + 1) * one.variance for one in measured) / max(freedom, 1)
    results = {}
    for name, one in after.items():
        known = freedom if before.freedom and one.freedom else 0
        own, other = (of_one / (each.freedom + 1) for each in (one, before))
        fewer = min(before.freedom, one.freedom) + 1
        results[name] = Ratio(Estimate(before.value - one.value, own + other, known), own, fewer)
    return results


def estimate(repetitions: Mapping[int, T], value: Callable[[Mapping[int, T]], float]) -> Estimate | None:
    """Estimate a positive quantity from repetitions, with the error of the jackknife; None if it is 0.

    Parameters
    ----------
    value : callable
        Computes the quantity from some of the repetitions.
    """
    number, whole = len(repetitions), value(repetitions)
    if whole <= 0:
        return None
    if number < 2:
        return Estimate(math.log(whole), 0.0, 0)
    without = [value({key: one for key, one in repetitions.items() if key != left}) for left in repetitions]
    if min(without) <= 0:
        return Estimate(math.log(whole), 0.0, 0)
    logarithms = list(map(math.log, without))
    center = mean(logarithms)
    spread = (number - 1) / number * sum((one - center) ** 2 for one in logarithms)
    return Estimate(math.log(whole), spread, number - 1)


def undisturbed(times: Sequence[float]) -> float:
    """Time of a pass without interruptions: the mean of the fastest, of the repetitions with the least other work.

    The median, or means of repetitions, are several times less precise beside other work, and a single low quantile
    moves more from draw to draw.
    """
    fastest = sorted(times)[: max(round(_FASTEST * len(times)), 1)]
    return mean(fastest)


def figure(values: Sequence[float], unit: str) -> Figure | None:
    """Median of a positive quantity over the repetitions with Student's t interval; None without values.

    One repetition gives no interval.
    """
    if not values:
        return None
    center = median(values)
    if len(values) < 2:
        return Figure(center, 0.0, math.inf, unit)
    if min(values) <= 0:
        return Figure(center, min(values), max(values), unit)
    logarithms = [math.log(value) for value in values]
    half = quantile(1 - (1 - CONFIDENCE) / 2, len(values) - 1) * math.sqrt(variance(logarithms) / len(values))
    low, high = math.exp(mean(logarithms) - half), math.exp(mean(logarithms) + half)
    return Figure(center, min(low, center), max(high, center), unit)


def quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t distribution.

    Examples
    --------
    >>> round(quantile(0.975, 4), 3), round(quantile(0.025, 9), 3)
    (2.776, -2.262)
    """
    if probability < 0.5:
        return -quantile(1 - probability, freedom)
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        if _below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def _below(value: float, freedom: int) -> float:
    """Probability that Student's t is below a positive value (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(value / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term = total = cosine if freedom % 2 else 1.0
    for number in range(3 if freedom % 2 else 2, freedom, 2):
        term *= cosine**2 * (number - 1) / number
        total += term
    odd = 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))
    return (1 + (odd if freedom % 2 else sine * total)) / 2
