"""Rules of an installed package are collected like the built-in ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RULE = '''
from irtools.authoring import Finding, Severity, rule

@rule("ACME001", "acme-rule", Severity.NOTE, "From a package")
def check(context):
    """From a package."""
    yield Finding("hello")
'''


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with a package ``acme_rules`` that has an entry point."""
    metadata = tmp_path / "acme_rules-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[irtools.rules]\nacme = acme_rules\n")
    (tmp_path / "acme_rules").mkdir()
    (tmp_path / "acme_rules" / "__init__.py").write_text("")
    (tmp_path / "acme_rules" / "first.py").write_text(RULE)
    return tmp_path


def irtools(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "irtools", *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_rule_of_a_package_runs(site: Path, fixtures: Path) -> None:
    assert "ACME001  note" in irtools(site, "rules", "list").stdout
    assert "ACME001  hello" in irtools(site, "verify", fixtures / "qwen3", "--select", "ACME").stdout


def test_broken_package_is_named(site: Path) -> None:
    (site / "acme_rules" / "second.py").write_text("import nothing_of_that_name")

    done = irtools(site, "rules", "list")

    assert done.returncode == 2
    assert done.stderr.startswith("irtools: error: the rule pack 'acme' (acme_rules) cannot be loaded: ModuleNotFound")


def test_package_may_not_take_a_built_in_code(site: Path) -> None:
    (site / "acme_rules" / "first.py").write_text(RULE.replace("ACME001", "IR001"))

    done = irtools(site, "rules", "list")

    assert (done.returncode, "two rules have the code IR001" in done.stderr) == (2, True)
