"""Explain messages of a runtime that refuses an export by findings of irtools rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from irtools.errors import IrtoolsError
from irtools.lint.engine import Verification, VerifyOptions, verify
from irtools.lint.finding import Finding, Severity
from irtools.lint.symptoms import explained_by, of_check
from irtools.model.directory import ModelDirectory

__all__ = ["RefusalEvidence", "cite", "suspects"]

_MOST = 2


class RefusalEvidence:
    """Findings of ``irtools verify`` for an export and a decoding strategy; computed on first use.

    Parameters
    ----------
    strategy : str
        A name of :data:`irtools.model.decoding.STRATEGIES`.
    """

    def __init__(self, export: ModelDirectory, strategy: str, draft: Path | None) -> None:
        self._export = export
        self._strategy = strategy
        self._draft = draft

    @cached_property
    def verification(self) -> Verification | None:
        """Verification of the whole export; None if it failed."""
        options = VerifyOptions(expect_mtp=True if self._strategy == "mtp" else None, draft=self._draft)
        try:
            return verify(self._export, options)
        except IrtoolsError:
            return None

    def findings(self) -> list[Finding]:
        """Possible causes: first findings that rule out this decoding strategy, then other errors."""
        if self.verification is None:
            return []
        strategies = {one.name: one.findings for one in self.verification.strategies if not one.available}
        barred = strategies.get(self._strategy, ())
        findings = self.verification.findings
        errors = [f for f in findings if f.severity == Severity.ERROR and f.code not in barred]
        return [f for f in findings if f.code in barred] + errors

    def of(self, check: str) -> list[Finding]:
        """Findings of any severity that may explain a check of a proof (``runtime/conversion``)."""
        return of_check(check, self.verification.findings) if self.verification else []

    def explain(self, message: str) -> str:
        """Explanation of a runtime message and the remedy, in one or more sentences."""
        if named := self.named(message):
            return named
        advice = "look for the message in the issues of OpenVINO GenAI"
        if self.verification is None:
            return f"no rule can explain this, because `irtools verify` failed; {advice}"
        findings = self.findings()
        if findings:
            return f"no known rule of irtools explains this; {advice}. `irtools verify` reports: {cite(findings)}"
        return f"no rule of irtools explains this: `irtools verify` reports no error in the files; {advice}"

    def named(self, message: str) -> str:
        """Findings that a runtime message suggests, as text; ``""`` if there are none."""
        findings = self.findings()
        likely = suspects(message, findings) if explained_by(message, findings) else []
        return cite(likely) if likely else ""


def cite(findings: Sequence[Finding]) -> str:
    """Text of the first findings with their codes, and the number of the others; at least one finding is needed."""
    shown = [f"{finding.code}: {finding.text.rstrip('.')}" for finding in findings[:_MOST]]
    more = len(findings) - len(shown)
    return ". ".join(shown) + (f". Run `irtools verify` to see {more} more" if more else "")


def suspects(message: str, findings: Sequence[Finding]) -> list[Finding]:
    """One finding for each rule that a message suggests, or for each rule if it suggests none.

    Findings about a file that the message names come first.
    """
    by_code: dict[str, Finding] = {}
    likely = explained_by(message, findings) or findings
    for finding in sorted(likely, key=lambda finding: not _is_about(message, finding)):
        by_code.setdefault(finding.code, finding)
    return list(by_code.values())


def _is_about(message: str, finding: Finding) -> bool:
    """True if a message names the file or part of a finding as a whole word (detokenizer is not tokenizer)."""
    if finding.file is None:
        return False
    part = finding.file.stem.removeprefix("openvino_").removesuffix("_model")
    return bool(re.search(rf"\b{re.escape(part)}\b|openvino_{re.escape(part)}", message, re.IGNORECASE))
