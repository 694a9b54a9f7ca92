"""The outcome of one unit of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from irtools.errors import IrtoolsError, os_reason

__all__ = ["Outcome", "failure_text"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome for one of many exports.

    Attributes
    ----------
    number : int
        Position of the path in the input, counted from 0.
    path : str
        The path, as it was given to the unit.
    row : Any or None
        What the unit returned: small and picklable, no documents and no graphs. None if there is no result.
    failure : str or None
        One sentence about why there is no row, without full stop; None if there is one.
    seconds : float
        Wall-clock time of the unit.
    known : bool
        True if the row comes from an earlier run.
    """

    number: int
    path: str
    row: Any | None
    failure: str | None
    seconds: float
    known: bool = False


def failure_text(error: BaseException) -> str:
    """One sentence about an exception that a unit raised, without full stop."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; free some, or run fewer jobs"
    if isinstance(error, IrtoolsError):
        return str(error).rstrip(".")
    if isinstance(error, OSError):
        return os_reason(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
