"""Results of the steps of a proof. They are frozen: reports only read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from irtools.text import short_repr

__all__ = ["FAILED", "NOT_APPLICABLE", "PASSED", "WARNING", "Check", "Step"]

PASSED = "passed"
FAILED = "failed"
WARNING = "warning"
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check of a step.

    Attributes
    ----------
    name : str
        Stable, unique in its step, such as ``cut``.
    status : str
        ``passed``, ``failed``, ``warning`` (worth a look, no failure) or ``not applicable``.
    did : str
        Description of the check, as a clause without full stop.
    saw : str
        Result with figures; ``""`` if the check does not apply.
    why : str
        Cause of a failure, its meaning and the remedy; or the reason why the check does not apply.
    figures : mapping of str to object
        Numbers behind ``saw``: JSON values with stable keys.
    """

    name: str
    status: str
    did: str
    saw: str = ""
    why: str = ""
    figures: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return short_repr(self, self.name, self.status)


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one step of a proof: ``taps``, ``state``, ``head`` or ``runtime``.

    Attributes
    ----------
    checks : tuple of Check
        In the order of execution; empty if the step does not apply.
    why : str
        Reason why the step does not apply or was not completed.
    broken : bool
        True if the step was not completed: the runtime refused the model, or its process ended.
    """

    name: str
    checks: tuple[Check, ...] = ()
    why: str = ""
    seconds: float = 0.0
    broken: bool = False

    def __repr__(self) -> str:
        return short_repr(self, self.name, self.status)

    @property
    def status(self) -> str:
        """The worst status of its checks; ``failed`` if broken; ``not applicable`` if ``why`` gives another reason."""
        statuses = {check.status for check in self.checks}
        if self.broken or FAILED in statuses:
            return FAILED
        if self.why:
            return NOT_APPLICABLE
        return next((status for status in (WARNING, PASSED) if status in statuses), NOT_APPLICABLE)
