"""Findings as GitHub workflow commands, which GitHub shows as annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from irtools.lint.engine import ModelVerification
from irtools.lint.finding import Severity
from irtools.report.findings import shown_path
from irtools.text import printable, shortened

__all__ = ["github"]

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github(models: Sequence[ModelVerification], **_: object) -> str:
    """Write one workflow command per finding, each with a final newline."""
    return "".join(f"{command}\n" for model in models for command in _commands(model))


def _commands(model: ModelVerification) -> Iterator[str]:
    if model.verification is None:
        yield f"::error title=irtools::{_data(f'{model.path}: {model.error}')}"
        return
    names = {rule.code: rule.name for rule in model.verification.rules}
    for finding in model.verification.findings:
        path = finding.file or model.verification.export.directory
        properties = {"file": shown_path(path.absolute(), Path.cwd())}
        if finding.line is not None:
            properties["line"] = str(finding.line)
        properties["title"] = " ".join(filter(None, (finding.code, names.get(finding.code))))
        shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        yield f"::{_COMMANDS[finding.severity or Severity.ERROR]} {shown}::{_data(shortened(finding.text))}"


def _data(text: str) -> str:
    """Escape a message as the runner's ``toolkit`` library does."""
    return printable(text, "github").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
