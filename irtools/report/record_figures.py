"""Figures of a record as text: a median with its interval, in the unit that reads best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irtools.text import value_text

__all__ = ["figure_text"]

_WIDE = 10
"""Upper end divided by the median from which an interval says nothing: there were too few repetitions."""


def figure_text(figure: Mapping[str, Any] | None) -> str:
    """Median with its interval; ``-`` without a figure.

    Examples
    --------
    >>> figure_text({"median": 1.31, "low": 1.25, "high": 1.38, "unit": "times"})
    '1.31 (1.25 to 1.38)'
    """
    if figure is None:
        return "-"
    unit = figure.get("unit", "")
    low, median = (value_text(figure[key], unit) for key in ("low", "median"))
    high = figure["high"]
    if high is None or (unit != "share" and high > _WIDE * figure["median"]):
        return f"{median} (interval unknown)"
    high = value_text(high, unit)
    return median if low == median == high else f"{median} ({low} to {high})"
