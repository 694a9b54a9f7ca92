"""Findings for people: grouped by file, one line each, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from irtools.lint.engine import Verification
from irtools.lint.model import Finding, Severity
from irtools.report.terminal import Style
from irtools.text import plural, visible

__all__ = ["counts_text", "findings_text", "listing", "shown_path"]

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def shown_path(path: Path, directory: Path) -> str:
    """A file as its model directory's reader would call it."""
    return path.relative_to(directory).as_posix() if path.is_relative_to(directory) else str(path)


def findings_text(verification: Verification, style: Style, *, hints: bool = True) -> str:
    """The findings of one export, how many there are, and the ways of decoding.

    Parameters
    ----------
    verification : Verification
    style : Style
    hints : bool
        Whether to say what to do about each.

    Returns
    -------
    str
        Without a final newline.
    """
    lines = [listing(verification, style, hints=hints), "  " + counts_text([verification])]
    for strategy in verification.strategies:
        what = "available" if strategy.available else "not available"
        because = f" ({', '.join(strategy.findings)})" if strategy.findings else ""
        reason = f": {strategy.reason}" if strategy.reason else ""
        lines.append(f"  {strategy.name}: {what}{reason}{because}")
    return "\n".join(lines)


def listing(verification: Verification, style: Style, *, hints: bool = True) -> str:
    """The export's name and its findings by file, without what comes below; parameters as of :func:`findings_text`."""
    directory = verification.export.directory
    lines = [style.paint(visible(str(verification.export.path)), "bold")]
    for file, findings in groupby(verification.findings, key=lambda finding: finding.file):
        if file is not None and file != directory:
            lines.append("  " + visible(shown_path(file, directory)))
        lines += _lines(findings, style, hints)
    return "\n".join(lines)


def _lines(findings: Iterable[Finding], style: Style, hints: bool) -> list[str]:
    lines = []
    for finding in findings:
        severity = finding.severity or Severity.ERROR
        place = f"line {finding.line}: " if finding.line is not None else ""
        label = style.paint(f"{severity!s:<7}", _COLOURS[severity])
        message = finding.text if hints else finding.message
        lines.append(f"    {label}  {finding.code}  {place}{visible(message)}")
    return lines


def counts_text(verifications: Iterable[Verification]) -> str:
    """How many findings of each severity there are, and how many a baseline silenced.

    Parameters
    ----------
    verifications : iterable of Verification
    """
    verifications = tuple(verifications)
    parts = [
        plural(total, str(severity))
        for severity in sorted(Severity, reverse=True)
        if (total := sum(verification.counts[severity] for verification in verifications))
    ]
    known = sum(verification.known for verification in verifications)
    return (", ".join(parts) or "no findings") + (f" ({known} known from the baseline)" if known else "")
