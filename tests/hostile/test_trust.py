"""No code from an export, or beside it, runs; the configuration that counts is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done
from tests.hostile.conftest import FILES

Run = Callable[..., Done]
CODE = "from pathlib import Path\nPath({mark!r}).touch()\n"
RULES = ('rules = ["r"]', '[tool.irtools]\nrules = ["r"]')


def plant(directory: Path, mark: Path, name: str = "irtools.toml") -> None:
    """A configuration that names a folder of code, which leaves a mark."""
    (directory / "r").mkdir(parents=True)
    (directory / "r" / "code.py").write_text(CODE.format(mark=str(mark)))
    (directory / name).write_text(RULES[name == "pyproject.toml"])


@pytest.mark.parametrize("name", ["irtools.toml", "pyproject.toml"])
@pytest.mark.parametrize(
    ("planted", "here", "export"),
    [("", "", "ov"), ("", "ov", "."), ("ov", "ov", "."), ("ov/sub", "ov/sub", ".."), ("other", "other", "../ov")],
)
def test_nothing_that_is_found_loads_code(
    run: Run,
    fixtures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    planted: str,
    here: str,
    export: str,
) -> None:
    root = tmp_path / "repository"
    shutil.copytree(fixtures / "falcon", root / "ov")
    if planted == "other":
        shutil.copytree(fixtures / "falcon", root / "other")
    plant(root / planted, tmp_path / "ran", name)
    monkeypatch.chdir(root / here)

    for arguments in (
        ("verify", export, "--select", "EXP"),
        ("verify", export, "--select", "EXP", "--trust-model-config"),
        ("verify", export, "--select", "EXP", "--draft", "."),
        ("rules", "list"),
    ):
        run(*arguments)
        assert not (tmp_path / "ran").exists(), arguments


def test_a_page_loads_no_code_either(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = export_copy("falcon")
    plant(tmp_path / "code", tmp_path / "ran")
    monkeypatch.chdir(tmp_path / "code")
    for command in ("report", "render"):
        done = run(command, export, "-o", tmp_path / "page.html", codes=(0,))
        assert f"using the configuration {tmp_path / 'code' / 'irtools.toml'}" in done.err
        assert "`rules` is ignored" in done.err
        assert "--rules" in done.err
    assert not (tmp_path / "ran").exists()


def test_named_rules_do_run(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = export_copy("falcon")
    monkeypatch.chdir(tmp_path)
    for number, (option, file) in enumerate((("--rules", "r"), ("--config", "irtools.toml"))):
        mark = tmp_path / f"ran{number}"
        plant(tmp_path / f"code{number}", mark)  # a folder is imported once in a process
        run("verify", export, "--select", "EXP", option, f"code{number}/{file}")
        assert mark.exists()
    assert run("rules", "list", "--config", "code1/irtools.toml").code == 0


def test_a_file_beside_an_ir_is_not_even_parsed(
    run: Run, export_copy: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    export = export_copy("falcon")
    monkeypatch.chdir(export)
    for content in ("x = " + "[" * 100_000, "not toml", "\x00"):
        (export / "irtools.toml").write_text(content)
        (export / "pyproject.toml").write_text(content)
        done = run("verify", ".", "--select", "EXP", codes=(0, 1))
        assert "irtools.toml lies beside an IR or inside an export and is ignored" in done.err


def test_what_silences_the_findings_is_named(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = export_copy("falcon")
    (export / "openvino_model.xml").write_text("broken")
    (tmp_path / "irtools.toml").write_text('ignore = ["ALL"]')
    monkeypatch.chdir(tmp_path)
    assert f"using the configuration {tmp_path / 'irtools.toml'}" in run("verify", "falcon").err


@pytest.mark.parametrize(
    ("content", "counts"), [("<testsuites/>", True), ("\ufeff<?xml?><!-- x -->\n<net>", False), ("", False)]
)
def test_an_xml_that_is_no_ir_does_not_bar_the_configuration(
    run: Run,
    export_copy: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    counts: bool,
) -> None:
    export_copy("falcon")
    (tmp_path / "irtools.toml").write_text('ignore = ["ALL"]')
    (tmp_path / "results.xml").write_text(content)
    monkeypatch.chdir(tmp_path)
    assert ("using the configuration" in run("verify", "falcon", "--select", "EXP").err) == counts


@pytest.mark.parametrize("kind", FILES)
def test_special_files_as_configuration_and_baseline(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    export = export_copy("falcon")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    FILES[kind](work / "special")
    (work / "irtools.toml").write_text('baseline = "special"\nselect = ["EXP"]')
    done = run("verify", export, codes=(2,))
    assert "special" in done.err
    assert run("verify", export, "--select", "EXP", "--baseline", "special", codes=(2,)).err.count("\n") <= 3
    assert "special" in run("verify", export, "--config", "special", "--select", "EXP").err or kind == "empty"
    (work / "irtools.toml").unlink()
    FILES[kind](work / "irtools.toml")
    run("verify", export, "--select", "EXP")
