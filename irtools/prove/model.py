"""What proving an export by running it yields. Frozen: reports only read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FAILED", "NOT_APPLICABLE", "PASSED", "WARNING", "Check", "Step"]

PASSED = "passed"
FAILED = "failed"
WARNING = "warning"
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a step looked at.

    Attributes
    ----------
    name : str
        Stable, unique in its step, such as ``cut``.
    status : str
        ``passed``, ``failed``, ``warning`` (worth a look, no failure) or ``not applicable``.
    did : str
        What was done, as a clause without full stop.
    saw : str
        What came of it, with figures; ``""`` when it does not apply.
    why : str
        Why it failed, what it means and what to do; or why it does not apply.
    figures : mapping of str to object
        The numbers behind ``saw``: JSON values with stable keys, times in seconds, memory in bytes.
    """

    name: str
    status: str
    did: str
    saw: str = ""
    why: str = ""
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a proof: ``taps``, ``state``, ``head`` or ``runtime``.

    Attributes
    ----------
    name : str
    checks : tuple of Check
        In the order they were made; empty when the step does not apply at all.
    why : str
        Why it does not apply at all, or why it could not be finished.
    seconds : float
    peak_memory : int
        Largest resident set of the process that ran it, in bytes; 0 when no process was needed.
    broken : bool
        It could not be finished: the runtime refused the model, or its process ended.
    """

    name: str
    checks: tuple[Check, ...] = ()
    why: str = ""
    seconds: float = 0.0
    peak_memory: int = 0
    broken: bool = False

    @property
    def status(self) -> str:
        """The worst of its checks; a broken step failed; what could not be made does not apply."""
        found = {check.status for check in self.checks}
        if self.broken or FAILED in found:
            return FAILED
        if self.why:
            return NOT_APPLICABLE
        return next((status for status in (WARNING, PASSED) if status in found), NOT_APPLICABLE)
