"""Outcome of ``irtools verify`` as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from irtools.lint.baseline import fingerprints
from irtools.lint.engine import ModelVerification, Verification
from irtools.lint.finding import Severity
from irtools.report.findings import counts_text, findings_text, listing, worst_first
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.terminal import Style
from irtools.text import plural

__all__ = ["failure_reason", "model_text", "totals_text", "verification_json", "verification_text"]


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
    blocks = [model_text(model, style=style, brief=brief, verbose=verbose) for model in models]
    if len(models) > 1 and not brief:
        blocks.append(totals_text(models))
    blocks = list(filter(None, blocks))
    return "\n\n".join(blocks) + "\n" if blocks else ""


def model_text(model: ModelVerification, *, style: Style, brief: bool = False, verbose: bool = False) -> str:
    """Text of one model as in :func:`verification_text`, without a final newline; ``""`` if it has none."""
    if model.verification is None:
        return ""
    if not brief:
        diffs = [diff.rstrip("\n") for diff in model.diffs]
        return "\n".join([*diffs, findings_text(model.verification, style, conditions=verbose)])
    return listing(_failing(model, model.verification), style) if model.failed else ""


def totals_text(models: Sequence[ModelVerification]) -> str:
    """Number of models that were verified, and of their findings."""
    done = [model.verification for model in models if model.verification is not None]
    return f"{plural(len(done), 'export')} verified: {counts_text(done)}"


def failure_reason(model: ModelVerification) -> str:
    """Reason why a model fails: why it could not be verified, or its findings; ``""`` if it does not fail."""
    if model.verification is None:
        return model.error or ""
    if model.failures:
        return model.failures[0].message
    if not model.failed:
        return ""
    failing = _failing(model, model.verification)
    codes = dict.fromkeys(finding.code for finding in worst_first(failing.findings))
    return f"{counts_text([failing])}: {', '.join(codes)}"


def _failing(model: ModelVerification, verification: Verification) -> Verification:
    """The verification with only the findings at or above the threshold."""
    counting = [f for f in verification.findings if f.severity is None or f.severity >= model.threshold]
    return replace(verification, findings=tuple(counting), in_baseline=0)


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
        "failed_rules": [failure.rule for failure in model.failures if failure.rule is not None],
    }
    if model.diffs:
        details["diff"] = "".join(model.diffs)
    return details
