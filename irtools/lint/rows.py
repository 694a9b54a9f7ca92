"""Outcomes of ``irtools verify`` as plain values, which other processes and files can hold.

A row has no graph and no function. It is what JSON can express, so that it can be kept in a file that is not trusted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtools.errors import UsageError
from irtools.ir.save import Saved
from irtools.lint.engine import Failure, ModelVerification, Verification
from irtools.lint.finding import Condition, Finding, Fix, Severity, Strategy
from irtools.lint.pipelines import Pipeline
from irtools.lint.rule import Rule, load_rules
from irtools.model.directory import ModelDirectory
from irtools.remote import as_path

if TYPE_CHECKING:
    from irtools.model.document import Document
    from irtools.surgery.patch import Patch

__all__ = ["from_row", "to_row"]


def to_row(model: ModelVerification) -> dict[str, Any]:
    """Describe the outcome for one model in plain values."""
    row: dict[str, Any] = {"path": str(model.path), "error": model.error}
    if model.verification is None:
        return row
    verification = model.verification
    return {
        **row,
        "findings": list(map(_finding_row, verification.findings)),
        "rules": " ".join(rule.code for rule in verification.rules),
        "strategies": list(map(asdict, verification.strategies)),
        "pipelines": list(map(asdict, verification.pipelines)),
        "in_baseline": verification.in_baseline,
        "threshold": int(model.threshold),
        "diffs": list(model.diffs),
        "written": [[str(one.path), _text(one.replaced_link), list(one.notes)] for one in model.written],
        "notes": list(model.notes),
        "config": _text(model.config),
        "config_notes": list(model.config_notes),
        "failures": list(map(asdict, model.failures)),
    }


def from_row(row: Mapping[str, Any], folders: Sequence[Path] = ()) -> ModelVerification:
    """Restore the outcome for one model.

    Its export is not open: it reads its files when it is asked for. The fixes of the findings have their titles but
    cannot be applied.

    Parameters
    ----------
    folders : sequence of Path
        Folders of additional rules that took part.
    """
    path = as_path(row["path"])
    if row["error"] is not None:
        return ModelVerification(path, error=row["error"])
    verification = Verification(
        ModelDirectory(path),
        tuple(map(_finding, row["findings"])),
        _rules(row["rules"], tuple(folders)),
        tuple(_strategy(json.dumps(strategy)) for strategy in row["strategies"]),
        tuple(Pipeline(**pipeline) for pipeline in row["pipelines"]),
        row["in_baseline"],
    )
    return ModelVerification(
        path,
        verification,
        threshold=Severity(row["threshold"]),
        diffs=tuple(row["diffs"]),
        written=tuple(Saved(Path(file), _path(link), tuple(notes)) for file, link, notes in row["written"]),
        notes=tuple(row["notes"]),
        config=_path(row["config"]),
        config_notes=tuple(row["config_notes"]),
        failures=tuple(Failure(**failure) for failure in row["failures"]),
    )


@lru_cache(maxsize=8)
def _rules(codes: str, folders: tuple[Path, ...]) -> tuple[Rule, ...]:
    """Rules by their codes; one value for all exports, which mostly have the same."""
    wanted = set(codes.split())
    return tuple(rule for rule in load_rules(folders) if rule.code in wanted)


def _finding_row(finding: Finding) -> dict[str, Any]:
    row = {
        "message": finding.message,
        "hint": finding.hint,
        "file": _text(finding.file),
        "line": finding.line,
        "op": finding.op,
        "severity": int(finding.severity) if finding.severity is not None else None,
        "code": finding.code,
        "part": finding.part,
        "fix": [finding.fix.title, finding.fix.safe] if finding.fix is not None else None,
        "also": list(map(str, finding.also)),
        "rules_out": list(finding.rules_out) if finding.rules_out is not None else None,
        "needs": dict(finding.needs),
    }
    return {key: value for key, value in row.items() if value is not None}


def _finding(row: Mapping[str, Any]) -> Finding:
    severity, rules_out = row.get("severity"), row.get("rules_out")
    changed = {
        "file": _path(row.get("file")),
        "severity": Severity(severity) if severity is not None else None,
        "fix": Fix(row["fix"][0], _not_here, row["fix"][1]) if "fix" in row else None,
        "also": tuple(map(Path, row.get("also", ()))),
        "rules_out": tuple(rules_out) if rules_out is not None else None,
    }
    return Finding(**{**row, **changed})


def _not_here(document: Document) -> Patch:
    raise UsageError(
        "this finding comes from another process", hint="Verify the export here to get its fix.", path=document.path
    )


@lru_cache(maxsize=256)
def _strategy(text: str) -> Strategy:
    """A strategy with its conditions; one value for exports that have the same."""
    row = json.loads(text)
    conditions = tuple(Condition(**condition) for condition in row["conditions"])
    return Strategy(**{**row, "findings": tuple(row["findings"]), "conditions": conditions})


def _text(path: Path | None) -> str | None:
    return str(path) if path is not None else None


def _path(text: str | None) -> Path | None:
    return Path(text) if text is not None else None
