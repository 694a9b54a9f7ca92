"""Rules: how one is made of a function, and how all are collected from the installed packs and folders."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from irtools.errors import OptionError
from irtools.lint.context import Context
from irtools.lint.finding import Finding, Severity
from irtools.registry import collect
from irtools.text import did_you_mean
from irtools.timing import step

__all__ = ["Rule", "RuleGroup", "find_rule", "load_rules", "rule", "source_of"]

RuleFunction = Callable[[Context], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """A group of rules; the rule packs contain the groups.

    Attributes
    ----------
    letters : str
        Letters of the codes, such as ``MTP``.
    rules_out : tuple of str
        Decoding strategies that an error of a rule of this group rules out, unless the rule names others.
    """

    letters: str
    title: str
    rules_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with a stable code.

    Attributes
    ----------
    code : str
        Letter group and three digits, such as ``MTP012``; never reused.
    name : str
        Kebab-case name that reads well after "allow", such as ``unnamed-port``.
    severity : Severity
        Default severity of its findings.
    explanation : str
        Text with the check, its reason, the fix and the source of the requirement.
    runtimes : str
        Version specifier of the GenAI versions to which it applies (``>=2026.3``); empty for all.
    rules_out : tuple of str or None
        Decoding strategies that its errors rule out. If None, `load_rules` fills in those of the group; a group without
        `RuleGroup` rules out none.
    unreadable : bool
        True for the rule that reports unreadable files. Faults of a file that stop another rule get its code.
    """

    code: str
    name: str
    severity: Severity
    title: str
    explanation: str = field(repr=False)
    runtimes: str
    check: RuleFunction = field(repr=False)
    rules_out: tuple[str, ...] | None = None
    unreadable: bool = False

    @property
    def group(self) -> str:
        """The letters of the code."""
        return self.code.rstrip("0123456789")


def rule(
    code: str,
    name: str,
    severity: Severity,
    title: str,
    *,
    runtimes: str = "",
    rules_out: tuple[str, ...] | None = None,
    unreadable: bool = False,
) -> Callable[[RuleFunction], Rule]:
    """Decorator that makes a rule of a function; the docstring becomes the explanation.

    The docstring has the headings *What it checks*, *Why it matters*, *How to fix it* and
    *Source*, in this order, each on its own line and underlined as in numpydoc.

    Parameters
    ----------
    code : str
        Two to eight capital letters and three digits.
    name : str
        Kebab-case name that reads well after "allow".
    severity : Severity
        Severity of a finding that has none.
    title : str
        Sentence without full stop.
    runtimes : str
        Specifier of the GenAI versions to which the rule applies; empty for all.
    rules_out : tuple of str, optional
        Decoding strategies that an error of the rule rules out. By default those of its group.
    unreadable : bool
        True for the one rule that reports unreadable files.
    """

    def decorate(check: RuleFunction) -> Rule:
        explanation = inspect.cleandoc(check.__doc__ or "")
        return Rule(code, name, severity, title, explanation, runtimes, check, rules_out, unreadable)

    return decorate


_CODE = re.compile(r"[A-Z]{2,8}[0-9]{3}")


def source_of(rule: Rule) -> str:
    """File that defines a rule, for error messages."""
    code = getattr(rule.check, "__code__", None)  # a callable object has none
    return code.co_filename if code is not None else type(rule.check).__module__


def load_rules(folders: Iterable[Path] = ()) -> tuple[Rule, ...]:
    """Collect the rules, sorted by code, with every field filled in.

    Parameters
    ----------
    folders : iterable of Path
        Folders of rules in addition to the installed packs.

    Raises
    ------
    OptionError
        A pack cannot be loaded, a code is malformed, or two rules have the same code or name.
    """
    folders = tuple(folders)
    with step("Loading the rules"):
        rules = collect(Rule, folders)
    strategies = {group.letters: group.rules_out for group in collect(RuleGroup, folders)}
    taken: dict[str, Rule] = {}
    for rule in rules:
        if not _CODE.fullmatch(rule.code):
            raise OptionError(
                f"{source_of(rule)}: the rule code {rule.code!r} is malformed",
                hint="Use two to eight capital letters and three digits, such as ACME001.",
            )
        for identity in (f"code {rule.code}", f"name {rule.name!r}"):
            earlier = taken.setdefault(identity, rule)
            if earlier is not rule:
                raise OptionError(
                    f"two rules have the {identity}: one in {source_of(earlier)}, one in {source_of(rule)}",
                    hint="Rename one of them.",
                )
    filled = (r if r.rules_out is not None else replace(r, rules_out=strategies.get(r.group, ())) for r in rules)
    return tuple(sorted(filled, key=lambda rule: rule.code))


def find_rule(rules: Iterable[Rule], wanted: str) -> Rule:
    """The rule with a code (upper or lower case) or a name; raises ``OptionError`` if there is none."""
    rules = tuple(rules)
    for rule in rules:
        if wanted.upper() == rule.code or wanted == rule.name:
            return rule
    known = [word for rule in rules for word in (rule.name, rule.code)]
    close = did_you_mean(wanted.lower(), known) or did_you_mean(wanted.upper(), known)
    raise OptionError(f"there is no rule {wanted!r}", hint=f"{close} `irtools rules list` shows all rules.".strip())
