"""Confidence intervals from few repetitions on a machine with other work.

Repetitions are the unit, because the runs of one process are not independent. A row and plain decoding are compared
within each repetition, so that what slows both cancels out. The logarithms of the ratios get Student's t interval. Its
variance, from few repetitions, is combined with that of the other rows of the table, as in the moderated t statistic
(Smyth 2004, "Linear models and empirical Bayes methods", section 3, with a fixed weight).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median, variance

__all__ = ["CONFIDENCE", "Figure", "Ratio", "figure", "quantile", "ratios"]

CONFIDENCE = 0.95
_FLOOR = 0.005
"""Smallest standard error of a logarithm: repetitions of one session do not see what differs between sessions."""
_WEIGHT = 4
"""Most degrees of freedom that the other rows add."""


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
class Ratio:
    """Logarithms of a ratio: mean over repetitions, standard error and its degrees of freedom."""

    values: tuple[float, ...]
    error: float
    freedom: int

    @property
    def center(self) -> float:
        """The mean of the logarithms."""
        return mean(self.values)

    def bound(self, probability: float) -> float:
        """The ratio that the true one exceeds with probability ``1 - probability``; infinite from one repetition."""
        if not self.freedom:
            return math.inf if probability > 0.5 else 0.0
        return math.exp(self.center + quantile(probability, self.freedom) * self.error)

    def figure(self) -> Figure:
        """The ratio with its interval."""
        tail = (1 - CONFIDENCE) / 2
        center = math.exp(median(self.values))
        return Figure(center, min(self.bound(tail), center), max(self.bound(1 - tail), center), "times")


def ratios(logarithms: Mapping[str, Sequence[float]]) -> dict[str, Ratio]:
    """Ratios of several rows to plain decoding.

    Parameters
    ----------
    logarithms : mapping of str to sequence of float
        By row: the logarithm of the ratio in each repetition.
    """
    known = {name: tuple(values) for name, values in logarithms.items() if values}
    own = {name: variance(values) for name, values in known.items() if len(values) > 1}
    results = {}
    for name, values in known.items():
        if name not in own:
            results[name] = Ratio(values, math.inf, 0)
            continue
        others = [spread for other, spread in own.items() if other != name]
        weight, freedom = min(len(others), _WEIGHT), len(values) - 1
        pooled = (weight * mean(others) if others else 0.0) + freedom * own[name]
        error = math.sqrt(pooled / (weight + freedom) / len(values))
        results[name] = Ratio(values, max(error, _FLOOR), weight + freedom)
    return results


def figure(values: Sequence[float], unit: str) -> Figure | None:
    """Median of a positive quantity over the repetitions with Student's t interval; None without values."""
    if not values:
        return None
    center = median(values)
    if len(values) < 2 or min(values) <= 0:
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
