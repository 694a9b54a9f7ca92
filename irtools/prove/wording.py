"""How the numeric steps say what they saw."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listed", "relative"]


def relative(difference: float | None) -> str:
    """A difference relative to the largest magnitude, in words.

    Examples
    --------
    >>> relative(0.0), relative(3e-7), relative(None)
    ('nothing', '3.0e-07 of the largest', 'no number')
    """
    if difference is None:
        return "no number"
    return "nothing" if difference == 0 else f"{difference:.1e} of the largest"


def listed(faults: Sequence[str], most: int = 3) -> str:
    """The first few of some clauses, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    'a; b; and 1 more'
    """
    more = f"; and {len(faults) - most} more" if len(faults) > most else ""
    return "; ".join(faults[:most]) + more
