"""Text for the measurements of the numeric steps, and for the result of all steps."""

from __future__ import annotations

from collections.abc import Mapping

from irtools.prove.steps import FAILED, PASSED, WARNING
from irtools.text import joined, plural

__all__ = ["apart", "moved", "verdict"]

_SMALL, _LARGE = 1e-3, 0.1
"""Below the first, a percentage shows too few digits; from the second on, it needs no decimal place."""


def moved(subject: str, difference: float | None) -> str:
    """Clause for a change relative to the largest magnitude.

    Examples
    --------
    >>> moved("it", 0.0), moved("it", 0.25), moved("it", None)
    ('it did not change', 'it changed by 25% of the largest value', 'it became non-finite or changed shape')
    """
    if difference is None:
        return f"{subject} became non-finite or changed shape"
    return f"{subject} changed by {_share(difference)}" if difference else f"{subject} did not change"


def apart(difference: float | None) -> str:
    """Clause for the difference of two values relative to the largest magnitude.

    Examples
    --------
    >>> apart(0.0), apart(3e-7)
    ('they are the same', 'they differ by 3.0e-07 of the largest value')
    """
    if difference is None:
        return "they cannot be compared: one is not finite, or their shapes differ"
    return f"they differ by {_share(difference)}" if difference else "they are the same"


def _share(difference: float) -> str:
    if difference >= 1:
        return f"{difference:.1f} times the largest value"
    if difference < _SMALL:
        return f"{difference:.1e} of the largest value"
    return f"{difference:.{0 if difference >= _LARGE else 1}%} of the largest value"


def verdict(statuses: Mapping[str, str]) -> str:
    """Result of the steps, by name, as a clause without full stop.

    Examples
    --------
    >>> verdict({"taps": "passed", "state": "failed"}), verdict({"taps": "not applicable"})
    ('not proved: state failed', 'nothing proved: no step applies')
    >>> verdict({"state": "passed", "head": "warning", "runtime": "not applicable"})
    'proved: state and head passed (warnings in head); 1 step does not apply'
    """
    failed = [name for name, status in statuses.items() if status == FAILED]
    if failed:
        return f"not proved: {joined(failed)} failed"
    passed = [name for name, status in statuses.items() if status in (PASSED, WARNING)]
    if not passed:
        return "nothing proved: no step applies"
    warned = [name for name in passed if statuses[name] == WARNING]
    rest = len(statuses) - len(passed)
    text = f"proved: {joined(passed)} passed" + (f" (warnings in {joined(warned)})" if warned else "")
    return text + (f"; {plural(rest, 'step')} {'do' if rest > 1 else 'does'} not apply" if rest else "")
