"""Findings as text: one line each, grouped by file, and their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from irtools.lint.engine import Verification
from irtools.lint.finding import Condition, Finding, Severity
from irtools.report.terminal import Column, Style, table
from irtools.text import cut, plural, visible

__all__ = ["counts_text", "findings_text", "listing", "shown_path", "worst_first"]

_CONDITIONS = (Column(""), Column(""), Column("", fold="words", effects=("dim",)))
_SHOWN = 10
"""Findings of one rule in one file that the text shows."""
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def shown_path(path: Path, directory: Path) -> str:
    """Path of a file relative to a directory, or in full if it lies outside."""
    return path.relative_to(directory).as_posix() if path.is_relative_to(directory) else str(path)


def findings_text(verification: Verification, style: Style, *, conditions: bool = False) -> str:
    """Findings of one export, their counts, and the decoding strategies, without a final newline.

    Parameters
    ----------
    conditions : bool
        Also the conditions of each available strategy.
    """
    lines = [listing(verification, style), "  " + counts_text([verification])]
    for strategy in verification.strategies:
        status = "available" if strategy.available else "not available"
        why = f"{':' if strategy.reason else ''} {strategy.text}".rstrip()
        lines.append(f"  {strategy.name}: {status}{why}")
        if conditions and strategy.conditions:
            lines.append(table(_CONDITIONS, map(_condition, strategy.conditions), style, indent=4))
    return "\n".join(lines)


def _condition(condition: Condition) -> tuple[str, str, str]:
    refused = {"load": "else refused at load: ", "generate": "else refused at generate: "}
    mark = "default" if condition.met else "set"
    return mark, condition.text, f"{refused.get(condition.stage, 'else ')}{condition.otherwise}"


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by severity; those of one severity stay in their order."""
    return sorted(findings, key=lambda finding: -(finding.severity or Severity.ERROR))


def listing(verification: Verification, style: Style) -> str:
    """Path of an export and its findings, the worst first, under their files."""
    directory = verification.export.directory
    lines = [style.paint(visible(str(verification.export.path)), "bold")]
    for file, findings in groupby(worst_first(verification.findings), key=lambda finding: finding.file):
        if file is not None and file != directory:
            lines.append("  " + visible(shown_path(file, directory)))
        lines += _capped(findings, style)
    return "\n".join(lines)


def _capped(findings: Iterable[Finding], style: Style) -> Iterator[str]:
    """Lines of the findings of one file, of each rule the first ones; a damaged file can have thousands."""
    shown: Counter[str] = Counter()
    found = list(findings)
    counts = Counter(finding.code for finding in found)
    for finding in found:
        shown[finding.code] += 1
        if shown[finding.code] <= _SHOWN:
            yield _line(finding, style)
        elif shown[finding.code] == counts[finding.code]:
            left = counts[finding.code] - _SHOWN
            yield f"    {'':<7}  {finding.code}  and {left:,} more; --format json lists all"


def _line(finding: Finding, style: Style) -> str:
    severity = finding.severity or Severity.ERROR
    places = [f"line {finding.line}"] if finding.line is not None else []
    if finding.op and finding.op not in finding.text:
        places.append(f"op {cut(finding.op, 80)}")
    place = f"{', '.join(places)}: " if places else ""
    label = style.paint(f"{severity!s:<7}", _COLOURS[severity])
    return f"    {label}  {finding.code}  {visible(place + finding.text)}"


def counts_text(verifications: Iterable[Verification]) -> str:
    """Count findings by severity, and those that a baseline silenced."""
    verifications = tuple(verifications)
    parts = [
        plural(total, str(severity))
        for severity in sorted(Severity, reverse=True)
        if (total := sum(verification.counts[severity] for verification in verifications))
    ]
    known = sum(verification.in_baseline for verification in verifications)
    return (", ".join(parts) or "no findings") + (f" ({known} known from the baseline)" if known else "")
