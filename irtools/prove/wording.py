"""How the numeric steps say what they saw."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["apart", "listed", "moved"]

_SMALL, _LARGE = 1e-3, 0.1
"""Below and above which a percentage with one decimal place tells too little or too much."""


def moved(what: str, difference: float | None) -> str:
    """How far something moved, relative to its largest magnitude, as a clause.

    Examples
    --------
    >>> moved("it", 0.0), moved("it", 0.25), moved("it", None)
    ('it stayed the same', 'it moved by 25% of the largest value', 'it became no number, or of another shape')
    """
    if difference is None:
        return f"{what} became no number, or of another shape"
    return f"{what} moved by {_share(difference)}" if difference else f"{what} stayed the same"


def apart(difference: float | None) -> str:
    """How far two values lie apart, relative to the largest magnitude, as a clause.

    Examples
    --------
    >>> apart(0.0), apart(3e-7)
    ('they are the same', 'they differ by 3.0e-07 of the largest value')
    """
    if difference is None:
        return "they cannot be compared: one is no number, or of another shape"
    return f"they differ by {_share(difference)}" if difference else "they are the same"


def _share(difference: float) -> str:
    if difference >= 1:
        return f"{difference:.1f} times the largest value"
    if difference < _SMALL:
        return f"{difference:.1e} of the largest value"
    return f"{difference:.{0 if difference >= _LARGE else 1}%} of the largest value"


def listed(faults: Sequence[str], most: int = 3) -> str:
    """The first few of some clauses, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    'a; b; and 1 more'
    """
    more = f"; and {len(faults) - most} more" if len(faults) > most else ""
    return "; ".join(faults[:most]) + more
