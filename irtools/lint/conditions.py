"""Conditions of the decoding strategies: what must be set in OpenVINO GenAI, apart from what the files must contain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from irtools.lint.context import Context
from irtools.lint.finding import Condition
from irtools.registry import collect

__all__ = ["Requirement", "conditions", "violated_by"]


def _always(context: Context) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition of one decoding strategy; the rule packs contain them, in the order of every report.

    Attributes
    ----------
    applies : callable
        False for an export that does not need the condition.
    refuses : callable
        True for a value of generation_config.json that violates the condition. None if GenAI does not read the setting
        from this file.
    rules : tuple of str
        Codes of rules that report the need for the condition.
    """

    strategy: str
    condition: Condition
    applies: Callable[[Context], bool] = _always
    refuses: Callable[[object], bool] | None = None
    rules: tuple[str, ...] = ()

    def resolve(self, context: Context) -> Condition:
        """The condition with the default that the export's generation_config.json gives."""
        if self.refuses is None:
            return self.condition
        value = context.export.generation_config.get(self.condition.setting.rpartition(".")[2])
        if value is None:
            return self.condition
        return replace(self.condition, default=f"{value} (generation_config.json)", met=not self.refuses(value))


def conditions(context: Context, strategy: str) -> tuple[Condition, ...]:
    """Conditions under which an export can be decoded with a strategy."""
    needed = (one for one in collect(Requirement) if one.strategy == strategy and one.applies(context))
    return tuple(one.resolve(context) for one in needed)


def violated_by(message: str) -> tuple[Requirement, ...]:
    """Requirements whose violation the runtime reports with a message."""
    return tuple(one for one in collect(Requirement) if one.condition.stage and _pattern(one.condition).search(message))


def _pattern(condition: Condition) -> re.Pattern[str]:
    words = condition.otherwise.rstrip(".")  # a message is often quoted without its full stop
    return re.compile(".{1,99}?".join(map(re.escape, words.split("..."))))
