"""Outcome of ``irtools verify`` as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from irtools.lint.baseline import fingerprints
from irtools.lint.engine import ModelVerification, RuleFailedError, Verification
from irtools.lint.finding import Severity
from irtools.report.findings import counts_text, findings_text, listing
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.terminal import Style
from irtools.text import plural

__all__ = ["verification_json", "verification_text"]


def verification_text(
    models: Sequence[ModelVerification], *, style: Style, brief: bool = False, verbose: bool = False, **_: object
) -> str:
    """Render the findings, the decoding strategies and the totals as text.

    Parameters
    ----------
    brief : bool
        Only the findings that determine the exit code.
    verbose : bool
        Also the conditions of each available strategy.
    """
    return _brief_text(models, style) if brief else _text(models, style, verbose)


def _brief_text(models: Sequence[ModelVerification], style: Style) -> str:
    """Findings at or above the threshold, under the paths of their exports."""
    blocks = []
    for model in models:
        if model.verification is not None and model.failed:
            counting = [f for f in model.verification.findings if f.severity is None or f.severity >= model.threshold]
            blocks.append(listing(replace(model.verification, findings=tuple(counting)), style))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def _text(models: Sequence[ModelVerification], style: Style, verbose: bool) -> str:
    blocks = []
    for model in models:
        if model.verification is not None:
            diffs = [patch.diff().rstrip("\n") for patch in model.patches if not model.written]
            blocks.append("\n".join([*diffs, findings_text(model.verification, style, conditions=verbose)]))
    done = [model.verification for model in models if model.verification is not None]
    if len(models) > 1:
        blocks.append(f"{plural(len(done), 'export')} verified: {counts_text(done)}")
    return "\n\n".join(blocks) + "\n" if blocks else ""


def verification_json(models: Sequence[ModelVerification], *, exit_code: int, **_: object) -> str:
    """Render the outcome as JSON with the exit code of the process."""
    entries = [_entry(model) for model in models]
    totals = {
        f"{severity}s": sum(m.verification.counts[severity] for m in models if m.verification is not None)
        for severity in sorted(Severity, reverse=True)
    }
    return to_json(envelope("verify", entries, {**totals, "exit_code": exit_code}))


def _entry(model: ModelVerification) -> ModelResult:
    if model.verification is None:
        return ModelResult(str(model.path), "failed", 2, model.error)
    status = "findings" if model.failed else "ok"
    code = 2 if model.failures else int(model.failed)
    return ModelResult(str(model.path), status, code, details=_details(model, model.verification))


def _details(model: ModelVerification, verification: Verification) -> dict[str, object]:
    details: dict[str, object] = {
        "findings": [
            {
                "code": finding.code,
                "severity": str(finding.severity or Severity.ERROR),
                "message": finding.message,
                "hint": finding.hint,
                "file": str(finding.file) if finding.file is not None else None,
                "line": finding.line,
                "op": finding.op,
                "part": finding.part,
                "fixable": finding.fix is not None,
                "fingerprint": fingerprint,
            }
            for finding, fingerprint in zip(verification.findings, fingerprints(verification), strict=True)
        ],
        "known": verification.in_baseline,
        "rules": [rule.code for rule in verification.rules],
        "strategies": [asdict(strategy) for strategy in verification.strategies],
        "pipelines": [asdict(pipeline) for pipeline in verification.pipelines],
        "written": [str(file.path) for file in model.written],
        "configuration": str(model.config) if model.config is not None else None,
        "failed_rules": [failure.rule.code for failure in model.failures if isinstance(failure, RuleFailedError)],
    }
    if model.patches and not model.written:
        details["diff"] = "".join(patch.diff() for patch in model.patches)
    return details
