"""Collect the rules of the installed packs and of a user's folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from irtools.errors import OptionError
from irtools.lint.model import Rule, RuleGroup
from irtools.registry import collect

__all__ = ["find_rule", "load_rules", "source_of"]

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
    for rule in rules:
        if wanted.upper() == rule.code or wanted == rule.name:
            return rule
    raise OptionError(f"there is no rule {wanted!r}", hint="`irtools rules list` shows all rules.")
