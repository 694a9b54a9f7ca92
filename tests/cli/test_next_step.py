"""The line about the next command: it fits the export, the command in it works, and programs do not get it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from irtools.cli import cli as group
from irtools.cli.next_step import STEPS
from tests.cli.conftest import Done

Cli = Callable[..., Done]
TEXT, WITH_HEAD, DRAFT = "falcon", "qwen3_5_vl_trained", "qwen3_dflash"


def offered(done: Done) -> list[list[str]]:
    """Arguments of the commands in the line about the next one, which is the last line of stderr."""
    *_, last = done.err.splitlines() or [""]
    commands = re.findall("`([^`]+)`", last) if last.startswith("irtools: next: ") else []
    return [shlex.split(one)[1:] for one in commands]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("line", [line for lines in STEPS.values() for _, line in lines])
def test_the_commands_have_these_options(line: str) -> None:
    for one in re.findall("`irtools ([^`]+)`", line):
        name, *arguments = shlex.split(one)
        command = group.get_command(click.Context(group), name)
        assert command is not None
        given = {option for parameter in command.params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= given


def test_annotate_without_a_head(export_copy: Callable[..., Path], cli: Cli) -> None:
    export_copy(TEXT, to="my model")
    prove, verify = offered(cli("annotate", "my model", "--no-check"))
    assert prove == ["prove", "my model", "--steps", "taps"]
    assert verify == ["verify", "my model", "--draft", "DIR"]


def test_annotate_with_a_head(export_copy: Callable[..., Path], cli: Cli) -> None:
    xml = export_copy(WITH_HEAD, to="old") / "openvino_language_model.xml"
    cli("strip", "old")
    unchanged = xml.read_bytes()
    export_copy(TEXT, to="copy")
    assert offered(cli("annotate", "old", "-o", "new", "--no-check")) == [["prove", "new"]]
    assert offered(cli("annotate", "old/openvino_language_model.xml", "-o", "one", "--no-check")) == [
        ["prove", "one/openvino_language_model.xml"]
    ]
    for silent in (("--dry-run",), ("--diff",), ("-q", "-o", "a"), ("--format", "json", "-o", "b"), ("copy",)):
        xml.write_bytes(unchanged)
        done = cli("annotate", "old", *silent, "--no-check")
        assert (offered(done), done.code) == ([], int(silent[0] in ("--dry-run", "--diff"))), silent
    assert offered(cli("annotate", "old", "--no-check")) == []  # nothing to write


def test_graft(fixtures: Path, export_copy: Callable[..., Path], cli: Cli) -> None:
    export_copy(WITH_HEAD, to="old")
    separate = cli("graft", "old", "--own-head", "--vocabulary", 128, "-o", "new", "--no-check")
    assert offered(separate) == [["bench", "new", "--against", "old"]]
    assert offered(cli("graft", "old", "--vocabulary", 128, "--no-check")) == [["bench", "old"]]
    assert offered(cli("graft", "old", "--remove", "--no-check")) == []
    target, draft = fixtures / "qwen3", fixtures / DRAFT
    done = cli("graft", target, "--draft", draft, "-o", "faster", "--no-check")
    assert offered(done) == [["bench", str(target), "--draft", "faster"]]
