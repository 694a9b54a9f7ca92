"""An exception that nobody expected: one sentence, exit code 2, and where to report it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.errors import UsageError
from tests.cli.conftest import Done

Cli = Callable[..., Done]
ERRORS = (
    KeyError("x\x1b[31m\n::error::y"),
    RecursionError("deep"),
    MemoryError(),
    AssertionError(),
    IndexError("z" * 5000),
)
RULE = '''
from irtools.authoring import Finding, Severity, rule
@rule("ACME00{n}", "acme-rule-{n}", Severity.WARNING, "A title")
def check(context):
    """A title."""
    yield Finding("number {n}")
    {body}
'''


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("command", ["inspect", "locate", "verify", "diff"])
def test_a_defect_is_one_sentence(
    cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, command: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("irtools.model.directory.ModelDirectory.open", fail)
    models = [fixtures / "falcon"] * (2 if command == "diff" else 1)
    done = cli(command, *models)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    if isinstance(error, MemoryError):
        assert "not enough memory" in done.err
    else:
        assert f"this is a defect of irtools {irtools.__version__} ({type(error).__name__}" in done.err
        assert "issue tracker" in done.err
    assert "\x1b" not in done.err
    assert len(done.err) < 1000
    verbose = cli(command, "-v", *models) if command != "diff" else cli("diff", *models, "-v")
    assert "Traceback" in verbose.err
    assert "\x1b" not in verbose.err
    with pytest.raises(type(error)):  # the Python API does not hide it
        irtools.open_export(fixtures / "falcon")


def test_other_models_are_still_worked_on(cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = irtools.Export.inspect

    def sometimes(self: irtools.Export, *arguments: object, **options: object) -> object:
        if self.directory.name == "falcon":
            raise KeyError("x")
        return real(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(irtools.Export, "inspect", sometimes)
    done = cli("inspect", fixtures / "falcon", fixtures / "llama")
    assert done.code == 2
    assert "llama" in done.out
    assert done.err.count("irtools: error:") == 1
    assert "1 of 2 exports failed" in done.err


def test_a_rule_that_fails_leaves_the_others(cli: Cli, export_copy: Callable[..., Path], tmp_path: Path) -> None:
    export, rules = export_copy("falcon"), tmp_path / "rules"
    (export / "openvino_tokenizer.xml").unlink()
    rules.mkdir()
    for n, body in ((1, "raise KeyError('gone')"), (2, "raise RecursionError"), (3, "pass")):
        (rules / f"r{n}.py").write_text(RULE.format(n=n, body=body))
    options = ("verify", export, "--rules", rules, "--select", "ACME,EXP003")

    done = cli(*options)
    assert done.code == 2
    for text in ("number 1", "number 2", "number 3", "EXP003", "the rule ACME001 (acme-rule-1)", "KeyError: 'gone'"):
        assert text in done.out
    assert done.err.count("failed:") == 2
    assert "Traceback" in cli(*options, "-v").err
    for form in ("json", "sarif", "junit", "github"):
        assert "ACME002 (acme-rule-2)" in cli(*options, "--format", form, "--exit-zero").out
    assert "ACME002" in cli(*options, "--format", "html").out
    with pytest.raises(UsageError, match="ACME001"):
        irtools.open_export(export).verify(rules=[rules])


def test_strategies_that_cannot_be_determined_leave_the_findings(
    cli: Cli, export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("gone")

    export = export_copy("falcon")
    (export / "openvino_tokenizer.xml").unlink()
    monkeypatch.setattr("irtools.lint.strategies.strategies", fail)
    done = cli("verify", export, "--format", "json")
    assert done.code == 2
    assert "could not be determined: KeyError: 'gone'; this is a defect of irtools" in done.err
    entry = json.loads(done.out)["models"][0]
    assert "EXP003" in [finding["code"] for finding in entry["findings"]]
    assert (entry["strategies"], entry["failed_rules"]) == ([], [])
    with pytest.raises(UsageError, match="could not be determined"):
        irtools.open_export(export).verify()


def test_an_interrupt_is_not_a_defect(cli: Cli, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("irtools.model.directory.ModelDirectory.open", stop)
    done = cli("inspect", fixtures / "falcon")
    assert (done.code, done.err) == (130, "irtools: error: interrupted\n")
