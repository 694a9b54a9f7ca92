"""Findings as workflow commands: GitHub shows them as annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from irtools.lint.engine import Judged
from irtools.lint.model import Severity

__all__ = ["github"]

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github(judged: Sequence[Judged]) -> str:
    """One workflow command per finding.

    Parameters
    ----------
    judged : sequence of Judged

    Returns
    -------
    str
        Lines with a final newline; ``""`` without findings.
    """
    return "".join(f"{command}\n" for model in judged for command in _commands(model))


def _commands(model: Judged) -> Iterator[str]:
    if model.verification is None:
        yield f"::error title=irtools::{_data(f'{model.path}: {model.error}')}"
        return
    names = {rule.code: rule.name for rule in model.verification.rules}
    for finding in model.verification.findings:
        properties = {"file": _relative(finding.file or model.verification.export.directory)}
        if finding.line is not None:
            properties["line"] = str(finding.line)
        properties["title"] = " ".join(filter(None, (finding.code, names.get(finding.code))))
        shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        yield f"::{_COMMANDS[finding.severity or Severity.ERROR]} {shown}::{_data(finding.text)}"


def _relative(path: Path) -> str:
    whole, here = path.absolute(), Path.cwd()
    return whole.relative_to(here).as_posix() if whole.is_relative_to(here) else str(path)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
