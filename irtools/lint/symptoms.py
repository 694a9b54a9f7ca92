"""Symptoms of a faulty export: messages of the runtime and checks of a proof, with the rules that explain them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from irtools.lint.conditions import Requirement, violated_by
from irtools.lint.finding import Finding
from irtools.lint.rule import Rule
from irtools.registry import collect

__all__ = ["Explanation", "Symptom", "cited", "explain_message", "explained_by", "explanation", "of_check"]

_QUOTED = re.compile(r'"([^"]+)"')
_SHORT = 24
"""Length up to which a quoted phrase is too common to identify a message."""
_CODE = re.compile(r"\b[A-Z]{2,8}[0-9]{3}\b")


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


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a message of the runtime by the rule packs.

    Attributes
    ----------
    limits : tuple of str
        Limits of the runtime that the message reports, which are no fault of the export.
    requirements : tuple of Requirement
        Conditions of decoding strategies whose violation the message reports.
    rules : tuple of Rule
        Rules that find the cause in the files, the most likely first.
    groups : tuple of str
        Letters of groups of which any rule may find it.
    """

    limits: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    rules: tuple[Rule, ...]
    groups: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.limits or self.requirements or self.rules or self.groups)


def explain_message(message: str, rules: Iterable[Rule]) -> Explanation:
    """Explain a message of the runtime; the result is false if no rule pack knows it.

    Rules whose pages quote the message come first. A message about a violated condition says that exactly, so that no
    rule has to be guessed from its words.
    """
    requirements = violated_by(message)
    symptoms = [] if requirements else _of_message(message)
    limits = tuple(symptom.explanation for symptom in symptoms if symptom.explanation)
    names = [name for one in requirements for name in one.rules]
    names += [code for limit in limits for code in _CODE.findall(limit)]
    names += [] if limits else [name for symptom in symptoms for name in symptom.rules]
    by_code = {rule.code: rule for rule in rules}
    quoting = [] if requirements else [rule for rule in by_code.values() if _quotes(rule, message)]
    named = [by_code[name] for name in names if name in by_code]
    letters = {rule.group for rule in by_code.values()}
    groups = tuple(dict.fromkeys(name for name in names if name in letters))
    return Explanation(limits, requirements, tuple(dict.fromkeys([*quoting, *named])), groups)


def _quotes(rule: Rule, message: str) -> bool:
    """True if the page of a rule has a part of a message in quotation marks."""
    quoted = _QUOTED.findall(" ".join(rule.explanation.split()))
    phrases = (phrase.strip(" .") for quote in quoted for phrase in quote.split("..."))
    return any(len(phrase) > _SHORT and phrase in message for phrase in phrases)


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
