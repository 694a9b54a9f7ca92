"""The rules as text, as markdown for the documentation, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from irtools.lint.rule import Rule, RuleGroup
from irtools.registry import collect
from irtools.report.terminal import Column, Style, table

__all__ = [
    "explanation_markdown",
    "headed_lines",
    "rule_details",
    "rule_text",
    "rules_markdown",
    "rules_text",
    "untitled",
]


def explanation_markdown(rule: Rule, *, level: int = 3) -> str:
    """Explanation of a rule with its underlined headings as markdown headings of a level."""
    lines = headed_lines(rule.explanation.replace("``", "`"))
    return "\n".join(f"{'#' * level} {line}\n" if heading else line for line, heading in lines)


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


def untitled(rule: Rule) -> str:
    """Explanation of a rule without its title, for a text that begins with the title."""
    return rule.explanation.removeprefix(f"{rule.title}.").strip()


def rules_text(rules: Iterable[Rule], style: Style) -> str:
    """Table of the rules, one line each."""
    columns = [Column("code"), Column("severity"), Column("name"), Column("title", fold="words")]
    return table(columns, [(rule.code, rule.severity, rule.name, rule.title) for rule in rules], style)


def rules_markdown(rules: Iterable[Rule]) -> str:
    """Rule reference as a markdown page with a final newline; the rules must be sorted by code."""
    titles = {group.letters: group.title for group in collect(RuleGroup)}
    by_group = {group: list(members) for group, members in groupby(rules, key=lambda rule: rule.group)}
    ordered = [*(group for group in titles if group in by_group), *sorted(by_group.keys() - titles.keys())]
    lines = [
        "# Rules of `irtools verify`",
        "",
        "Generated from the rules by `python -m irtools.report.rules_page`. Codes are never reused. The severity is",
        "the default of its findings; a rule may raise or lower it, depending on the options of the command.",
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
            lines += ["", explanation_markdown(rule, level=4).rstrip()]
    return "\n".join(lines) + "\n"
