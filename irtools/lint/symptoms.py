"""Symptoms of a faulty export: messages of the runtime and checks of a proof, with the rules that explain them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from irtools.lint.finding import Finding
from irtools.registry import collect

__all__ = ["Symptom", "cited", "explained_by", "explanation", "of_check"]


@dataclass(frozen=True, slots=True)
class Symptom:
    """One symptom; the rule packs contain the symptoms, the most specific first.

    Attributes
    ----------
    message : str
        Regular expression for a message of the runtime, searched without regard to case.
    rules : tuple of str
        Codes or groups of the rules that may find the cause.
    explanation : str
        Fixed text in place of rules. For a message, it is a limit of the runtime, not a fault of the export.
    check : str
        In place of a message: step and check of a proof, such as ``head/rotary``, or a decoding strategy and a fact
        that the engine itself checks, such as ``eagle3/guess``.
    """

    message: str = ""
    rules: tuple[str, ...] = ()
    explanation: str = ""
    check: str = ""

    def named(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings of its rules."""
        return [finding for finding in findings if finding.code in self.rules or finding.group in self.rules]


def _of_message(message: str) -> list[Symptom]:
    return [one for one in collect(Symptom) if one.message and re.search(one.message, message, re.IGNORECASE)]


def explanation(message: str) -> str:
    """Fixed explanation of a runtime message; ``""`` if there is none."""
    return next((symptom.explanation for symptom in _of_message(message) if symptom.explanation), "")


def explained_by(message: str, findings: Iterable[Finding]) -> list[Finding]:
    """Findings that a runtime message suggests, by symptom and then in their order."""
    findings = tuple(findings)
    return [finding for symptom in _of_message(message) for finding in symptom.named(findings)]


def of_check(check: str, findings: Iterable[Finding]) -> list[Finding]:
    """Findings of the rules that may explain a check, in their order."""
    symptoms = [symptom for symptom in collect(Symptom) if symptom.check == check]
    return [finding for finding in findings if any(symptom.named([finding]) for symptom in symptoms)]


def cited(check: str) -> str:
    """Rules that may explain a check, as text in brackets to append; ``""`` if there are none."""
    texts = [symptom.explanation or ", ".join(symptom.rules) for symptom in collect(Symptom) if symptom.check == check]
    return f" ({'; '.join(texts)})" if texts else ""
