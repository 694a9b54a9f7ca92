"""Every seeded defect is reported with its own code at its line, and causes no unexpected error."""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from defects import Defect
from says import SAYS

from irtools.authoring import Severity
from irtools.export import open_export
from irtools.lint.engine import VerifyOptions, verify
from irtools.lint.rule import load_rules
from tests.marks import mostly_slow

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("defects_*.py"))
DEFECTS: list[Defect] = [d for module in MODULES for d in importlib.import_module(module).DEFECTS]


@cache
def errors_before(export: Path, draft: Path | None, options: tuple[tuple[str, Any], ...]) -> Counter[str]:
    """Codes of the errors of an unchanged fixture."""
    findings = verify(open_export(export), VerifyOptions(draft=draft, **dict(options))).findings
    return Counter(finding.code for finding in findings if finding.severity == Severity.ERROR)


@pytest.mark.parametrize(
    "defect", mostly_slow(DEFECTS, fast=1, each=lambda defect: defect.code), ids=lambda defect: defect.name
)
def test_is_reported_under_its_own_code(defect: Defect, export_copy: Callable[..., Path], fixtures: Path) -> None:
    directory = export_copy(defect.base)
    options = dict(defect.options)
    draft = options.pop("draft", None)
    known = errors_before(fixtures / defect.base, fixtures / draft if draft else None, tuple(options.items()))
    options["draft"] = export_copy(draft, to="draft") if draft else None
    defect.edit(directory)

    findings = verify(open_export(directory), VerifyOptions(**options)).findings

    mine = [finding for finding in findings if finding.code == defect.code]
    shown = "\n".join(f"{f.severity} {f.code} {f.file and f.file.name}:{f.line} {f.message}" for f in findings)
    file = Path(os.path.normpath(directory / defect.file)) if defect.file is not None else None  # or ../draft/...
    places = [(f.file, f.line, str(f.severity)) for f in mine]
    expected = (file if file is not None else directory, defect.line(directory), defect.severity)
    assert expected in places or (file is None and (None, None, defect.severity) in places), shown
    assert all(finding.message != finding.hint for finding in mine)
    assert any(re.search(SAYS.get(defect.name, ""), finding.message) for finding in mine), shown
    assert not [finding.message for finding in findings if re.search(r",;|[,;:]$|\bNone\b", finding.message)]
    assert len({(f.file, f.line, f.op, f.message) for f in mine}) == len(mine), shown
    new = Counter(finding.code for finding in findings if finding.severity == Severity.ERROR) - known
    assert set(new) <= {defect.code, *defect.causes}, shown


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(defect.name for defect in DEFECTS).items() if count > 1] == []
    assert SAYS.keys() <= {defect.name for defect in DEFECTS}


def test_every_rule_is_hit_at_least_twice() -> None:
    hits = Counter(defect.code for defect in DEFECTS)
    assert [rule.code for rule in load_rules() if hits[rule.code] < 2] == []


def test_there_are_at_least_a_hundred() -> None:
    assert len(DEFECTS) >= 100
