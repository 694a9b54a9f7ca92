"""Findings as SARIF 2.1.0, which code hosts show at the lines of the files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from irtools._version import __version__
from irtools.lint.baseline import fingerprints
from irtools.lint.engine import ModelVerification, Verification
from irtools.lint.finding import Finding, Severity
from irtools.lint.rule import Rule
from irtools.report.rules import explanation_markdown

__all__ = ["sarif"]

_INTERRUPTED = 128
"""First exit code of a command that a signal ended."""
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(models: Sequence[ModelVerification], *, exit_code: int = 0, **_: object) -> str:
    """Write a SARIF log with one run, as JSON with a final newline; an interrupted run was not successful."""
    done = [model.verification for model in models if model.verification is not None]
    rules = {rule.code: rule for verification in done for rule in verification.rules}
    order = {code: number for number, code in enumerate(sorted(rules))}
    failed = [model for model in models if model.error is not None]
    invocation: dict[str, object] = {"executionSuccessful": not failed and exit_code < _INTERRUPTED}
    if failed:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": f"{model.path}: {model.error}"}} for model in failed
        ]
    driver = {
        "name": "irtools",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rules[code]) for code in order],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [result for verification in done for result in _results(verification, order)],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": " ".join(rule.explanation.strip().split("\n\n", 1)[0].split()) or rule.title},
        "help": {"text": rule.explanation, "markdown": explanation_markdown(rule)},
        "defaultConfiguration": {"level": str(rule.severity)},
        "properties": {"tags": [rule.group, "openvino"]},
    }


def _results(verification: Verification, order: dict[str, int]) -> Iterator[dict[str, object]]:
    for finding, fingerprint in zip(verification.findings, fingerprints(verification), strict=True):
        result: dict[str, object] = {
            "ruleId": finding.code,
            "level": str(finding.severity or Severity.ERROR),
            "message": {"text": finding.text},
            "locations": [_location(finding, verification)],
            "partialFingerprints": {"irtools/v1": fingerprint},
        }
        if finding.code in order:
            result["ruleIndex"] = order[finding.code]
        yield result


def _location(finding: Finding, verification: Verification) -> dict[str, object]:
    physical: dict[str, object] = {
        "artifactLocation": {"uri": _uri(finding.file or verification.export.directory)},
        "region": {"startLine": max(finding.line or 1, 1)},
    }
    location: dict[str, object] = {"physicalLocation": physical}
    if finding.op:
        location["logicalLocations"] = [{"name": finding.op, "kind": "element"}]
    return location


def _uri(path: Path) -> str:
    """Path relative to the working directory if it lies below it, else a ``file:`` URI."""
    whole = path.absolute()
    here = Path.cwd()
    if whole.is_relative_to(here):
        return quote(os.fsencode(whole.relative_to(here).as_posix()))
    return whole.as_uri()
