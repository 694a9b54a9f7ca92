"""The rules as text, as markdown for the documentation, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby

from irtools.lint.rule import Rule, RuleGroup
from irtools.lint.symptoms import Explanation
from irtools.registry import collect
from irtools.report.terminal import Column, Style, paragraph, table

__all__ = [
    "explanation_markdown",
    "headed_lines",
    "message_details",
    "message_text",
    "rule_details",
    "rule_text",
    "rules_markdown",
    "rules_text",
    "untitled",
]


_RULES = (Column("code"), Column("severity"), Column("name"), Column("title", fold="words"))


def explanation_markdown(rule: Rule, *, level: int | None = 3) -> str:
    """Explanation of a rule with its underlined headings as markdown headings of a level, or as bold lines."""
    lines = headed_lines(rule.explanation.replace("``", "`"))
    before, after = ("**", "**") if level is None else (f"{'#' * level} ", "")
    return "\n".join(f"{before}{line}{after}\n" if heading else line for line, heading in lines)


def headed_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Lines of a docstring without the underlines of its headings; True for each heading."""
    lines = ["", *text.splitlines(), ""]
    for above, line, below in zip(lines, lines[1:], lines[2:], strict=False):
        if set(line) != {"-"} or not above.strip():
            yield line, set(below) == {"-"} and bool(line.strip())


def rule_details(rule: Rule) -> dict[str, object]:
    """JSON form of a rule."""
    return {
        "code": rule.code,
        "name": rule.name,
        "group": rule.group,
        "severity": str(rule.severity),
        "title": rule.title,
        "runtimes": rule.runtimes,
        "explanation": rule.explanation,
    }


def rule_text(rule: Rule, style: Style) -> str:
    """Full text of a rule for the terminal."""
    runtimes = f", runtime {rule.runtimes}" if rule.runtimes else ""
    heading = style.paint(f"{rule.code} {rule.name}", "bold")
    return f"{heading} ({rule.severity}{runtimes})\n{rule.title}\n\n{untitled(rule)}"


def message_text(explanation: Explanation, style: Style) -> str:
    """Explanation of a message of the runtime, for the terminal."""
    blocks = []
    if explanation.limits:
        blocks.append(_block("A limit of the runtime, not a fault of the export:", explanation.limits, style))
    if explanation.requirements:
        needs = dict.fromkeys(f"{one.strategy} needs {one.condition.text}" for one in explanation.requirements)
        title = "A condition of the decoding strategy is violated; it is a matter of settings, not of the files:"
        blocks.append(_block(title, needs, style))
    if explanation.rules or explanation.groups:
        titles = {group.letters: group.title for group in collect(RuleGroup)}
        rows = [(rule.code, str(rule.severity), rule.name, rule.title) for rule in explanation.rules]
        rows += [(letters, "", "all rules", titles.get(letters, "")) for letters in explanation.groups]
        blocks.append(f"{style.paint('Rules that find the cause in the files:', 'bold')}\n{table(_RULES, rows, style)}")
        blocks.append(
            "`irtools verify MODEL_DIR` says which of them apply, `irtools rules explain CODE` what each means."
        )
    return "\n\n".join(blocks)


def _block(title: str, lines: Iterable[str], style: Style) -> str:
    return "\n".join([style.paint(title, "bold"), *(paragraph(line, style, indent=2) for line in lines)])


def message_details(explanation: Explanation, rules: Iterable[Rule]) -> dict[str, object]:
    """JSON form of what is known about a message of the runtime; groups of rules are spelt out."""
    grouped = [rule for letters in explanation.groups for rule in rules if rule.group == letters]
    return {
        "rules": [rule_details(rule) for rule in dict.fromkeys([*explanation.rules, *grouped])],
        "conditions": [{"strategy": one.strategy, **asdict(one.condition)} for one in explanation.requirements],
        "limits": list(explanation.limits),
    }


def untitled(rule: Rule) -> str:
    """Explanation of a rule without its title, for a text that begins with the title."""
    return rule.explanation.removeprefix(f"{rule.title}.").strip()


def rules_text(rules: Iterable[Rule], style: Style) -> str:
    """Table of the rules, one line each."""
    return table(_RULES, [(rule.code, rule.severity, rule.name, rule.title) for rule in rules], style)


def rules_markdown(rules: Iterable[Rule]) -> str:
    """Rule reference as a markdown page with a final newline; the rules must be sorted by code."""
    titles = {group.letters: group.title for group in collect(RuleGroup)}
    by_group = {group: list(members) for group, members in groupby(rules, key=lambda rule: rule.group)}
    ordered = [*(group for group in titles if group in by_group), *sorted(by_group.keys() - titles.keys())]
    lines = [
        "# Rules of `irtools verify`",
        "",
        "What each rule checks, why it matters, how to fix a finding, and where the requirement comes from.",
        "`irtools rules explain CODE` prints the same. Codes are never reused.",
        "",
        "The severity is the default of its findings; a rule may raise or lower it, depending on the options of the",
        "command. `select`, `ignore` and `severity` of the [configuration](configuration.md) change it too.",
        "",
        "<!-- Generated from the rules by `python -m irtools.report.rules_page`. -->",
        "",
        "| code | name | severity | title |",
        "| --- | --- | --- | --- |",
    ]
    for group in ordered:
        lines += [
            f"| [{rule.code}](#{rule.code.lower()}-{rule.name}) | {rule.name} | {rule.severity} | {rule.title} |"
            for rule in by_group[group]
        ]
    for group in ordered:
        lines += ["", f"## {group}: {titles.get(group, 'other rules')}"]
        for rule in by_group[group]:
            runtimes = f" Runtime versions: {rule.runtimes}." if rule.runtimes else ""
            lines += ["", f"### {rule.code} {rule.name}", "", f"Severity: {rule.severity}.{runtimes}"]
            lines += ["", explanation_markdown(rule, level=None).rstrip()]
    return "\n".join(lines) + "\n"
