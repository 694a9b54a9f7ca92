"""Figures of a record as text: a median with its interval, in the unit that reads best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irtools.text import size_text

__all__ = ["break_even_text", "figure_text", "has_interval", "number_text", "seconds_text", "value_text"]

_WIDE = 10
"""Upper end divided by the median from which an interval says nothing: there were too few repetitions."""


def number_text(value: float) -> str:
    """A number with three digits or more.

    Examples
    --------
    >>> number_text(1.2345), number_text(12.345), number_text(1234.5)
    ('1.23', '12.3', '1234')
    """
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def value_text(value: float, unit: str) -> str:
    """A value with its unit.

    Examples
    --------
    >>> value_text(0.0123, "s"), value_text(1.5, "s"), value_text(0.876, "share"), value_text(1.31, "times")
    ('12.3 ms', '1.50 s', '87.6 %', '1.31')
    """
    if unit == "s":
        return seconds_text(value)
    if unit == "share":
        return f"{number_text(100 * value)} %"
    return size_text(value) if unit == "bytes" else number_text(value)


def seconds_text(value: float) -> str:
    """A time in seconds or milliseconds."""
    return f"{number_text(value)} s" if value >= 1 else f"{number_text(1000 * value)} ms"


def break_even_text(value: float | None, shown: Callable[[float], str]) -> str:
    """Acceptance rate at which drafting breaks even; ``""`` for None."""
    if value is None:
        return ""
    return "never" if value > 1 else "always" if value <= 0 else shown(value)


def has_interval(figure: Mapping[str, Any]) -> bool:
    """False if the interval of a figure is so wide that it says nothing."""
    high = figure["high"]
    return high is not None and bool(figure.get("unit") == "share" or high <= _WIDE * figure["median"])


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
    if not has_interval(figure):
        return f"{value_text(figure['median'], unit)} (interval unknown)"
    low, median, high = (value_text(figure[key], unit) for key in ("low", "median", "high"))
    return median if low == median == high else f"{median} ({low} to {high})"
