"""Findings of rules, and the decoding strategies that they rule out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from irtools.model.decoding import DRAFTING
from irtools.text import short_repr

if TYPE_CHECKING:
    from irtools.model.document import Document
    from irtools.surgery.patch import Patch

__all__ = ["STATEFUL_ONLY", "Condition", "Finding", "Fix", "Severity", "Strategy"]

STATEFUL_ONLY = "only on the stateful path, without continuous batching"
"""Need of a target that cannot be converted to paged attention."""


class Severity(IntEnum):
    """Severity of a finding; comparable."""

    NOTE = 1
    WARNING = 2
    ERROR = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Fix:
    """A change to one file that removes a finding.

    Attributes
    ----------
    title : str
        Imperative phrase such as ``Write the annotation``.
    patch : callable
        Computes the new file from the current one; raises ``IrtoolsError`` on failure.
    safe : bool
        True if ``--fix`` applies the fix; otherwise only ``--unsafe-fixes`` does.
    """

    title: str
    patch: Callable[[Document], Patch]
    safe: bool = True

    @property
    def remedy(self) -> str:
        """The fix as a clause, such as ```irtools verify --fix` writes the annotation``."""
        verb, _, rest = self.title.partition(" ")
        return f"`irtools verify {'--fix' if self.safe else '--unsafe-fixes'}` {verb.lower()}s {rest}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A setting or argument of GenAI that a decoding strategy needs.

    Attributes
    ----------
    id : str
        Stable name, unique within a strategy, such as ``assistant-tokens``.
    setting : str
        Name in GenAI's Python API, such as ``GenerationConfig.num_assistant_tokens``.
    value : str
        Required value: a value, a comparison (``> 0``) or a phrase.
    otherwise : str
        Message of the runtime if the condition is violated, in which ``...`` stands for values; without a message,
        the effect.
    stage : str
        Stage at which the runtime refuses: ``load`` or ``generate``; ``""`` if it says nothing.
    source : str
        Origin of the condition.
    default : str
        Value that applies if nothing is set, in this export.
    met : bool
        True if this default satisfies the condition.
    """

    id: str
    setting: str
    value: str
    otherwise: str
    stage: str
    source: str
    default: str = ""
    met: bool = True

    @property
    def text(self) -> str:
        """The required setting without its class, such as ``num_assistant_tokens > 0``."""
        name = self.setting.rpartition(".")[2]
        return f"{name} {self.value}" if self.value.startswith((">", "<", "=")) else f"{name} = {self.value}"


@dataclass(frozen=True, slots=True)
class Strategy:
    """Availability of one decoding strategy for an export.

    Attributes
    ----------
    name : str
        A name of :data:`irtools.model.decoding.STRATEGIES`.
    reason : str
        Reason for a refusal, or a requirement, as a sentence without full stop.
    findings : tuple of str
        Codes of the findings that refuse or restrict the strategy.
    remedy : str
        Command that removes the first finding that refuses the strategy, as a clause; ``""`` if irtools cannot.
    conditions : tuple of Condition
        What must be set in GenAI; empty if the strategy is not available.
    """

    name: str
    available: bool
    reason: str = ""
    findings: tuple[str, ...] = ()
    remedy: str = ""
    conditions: tuple[Condition, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        return short_repr(self, self.name, "available" if self.available else "not available", self.text)

    @property
    def text(self) -> str:
        """Reason, codes of the findings and remedy."""
        codes = f"({', '.join(self.findings)})" if self.findings else ""
        return "; ".join(filter(None, (" ".join(filter(None, (self.reason, codes))), self.remedy)))

    @property
    def to_set(self) -> str:
        """Conditions that GenAI's defaults do not meet, without those that ``reason`` has already."""
        texts = [one.text for one in self.conditions if not one.met]
        return ", ".join(text for text in texts if text.replace(" ", "") not in self.reason)


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place, reported by a rule.

    Attributes
    ----------
    code : str
        If empty, the engine fills it in.
    message : str
        Description of the fault with the offending value, without full stop.
    line : int or None
        Counted from 1.
    op : str or None
        Friendly name of the op with the fault.
    severity : Severity or None
        None for the severity of the rule.
    part : str or None
        Name of the part; the engine fills it in if ``file`` is a part.
    fix : Fix or None
        Change that removes the finding, if irtools can make it.
    also : tuple of Path
        Further files with the same fault; the message names them.
    rules_out : tuple of str or None
        Decoding strategies that the finding rules out, whatever its severity. If None, the engine fills in those of the
        rule for an error, and none for other severities.
    needs : mapping of str to str
        Conditions, by decoding strategy, under which it works in spite of the finding. A condition on the draft is a
        clause with ``that``; any other condition is a complete phrase (``with enable_prefix_caching=False``).
    """

    message: str
    hint: str = ""
    file: Path | None = None
    line: int | None = None
    op: str | None = None
    severity: Severity | None = None
    code: str = ""
    part: str | None = None
    fix: Fix | None = field(default=None, compare=False)
    also: tuple[Path, ...] = field(default=(), compare=False)
    rules_out: tuple[str, ...] | None = field(default=None, compare=False)
    needs: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        place = self.file.name if self.file is not None else ""
        if self.line is not None:
            place = f"{place} line {self.line}"
        return short_repr(self, self.code, str(self.severity or ""), place, self.message)

    @property
    def group(self) -> str:
        """The letters of the code."""
        return self.code.rstrip("0123456789")

    def stateful_only(self) -> Finding:
        """The same finding for a target that cannot be converted to paged attention, which every draft needs."""
        return replace(self, rules_out=DRAFTING, needs={"plain": STATEFUL_ONLY})

    @property
    def text(self) -> str:
        """Message and hint as sentences."""
        hint = self.hint.strip()
        end = "" if hint.endswith((".", "?", "!")) else "."
        return f"{self.message}. {hint[:1].upper()}{hint[1:]}{end}" if hint else self.message
