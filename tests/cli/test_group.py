"""Behaviour of every command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

import irtools
import irtools.cli
from irtools.cli.help import EXAMPLES
from irtools.report.json import schema
from tests.cli.conftest import Done, command
from tests.marks import mostly_slow

COMMANDS = irtools.cli.cli.list_commands(click.Context(irtools.cli.cli))


def test_commands_are_found_by_their_files() -> None:
    files = Path(irtools.cli.__file__).parent.glob("*.py")
    defining = [
        file.stem.replace("_", "-") for file in files if re.search(r"^def command\(", file.read_text(), re.MULTILINE)
    ]
    assert {"annotate", "locate", "strip"} <= set(COMMANDS)
    assert set(defining) <= set(COMMANDS)


def test_a_new_file_is_a_new_command(tmp_path: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello.py").write_text(
        'import click\n@click.command("hello")\ndef command():\n    """Say it."""\n    click.echo("hello")\n'
    )
    monkeypatch.setattr(irtools.cli, "__path__", [*irtools.cli.__path__, str(tmp_path)])
    assert "hello" in cli("--help").out
    assert cli("hello") == Done(0, "hello\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(name: str, cli: Callable[..., Done]) -> None:
    done = cli(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: irtools {name} ")
    summary = irtools.cli.cli.get_command(click.Context(irtools.cli.cli), name)
    assert summary is not None
    assert "".join(summary.get_short_help_str(1000).split()) in "".join(cli("--help").out.split())


# Arguments that a command needs in addition to one model.
NEEDED: dict[str, tuple[str, ...]] = {
    "attach": ("--remove",),
    "bench": ("--repeat", "2", "--classes", "code", "--max-new-tokens", "8"),
    "diff": ("falcon",),
    "expose": ("--layers", "last"),
    "extract": ("--layers", "1", "-o", "piece"),
    "graft": ("--remove",),
    "prove": ("--steps", "state"),
    "render": ("-o", "picture.dot"),
    "report": ("-o", "page.html"),
    "serve-config": ("-o", "served"),
}


@pytest.mark.parametrize(
    "name",
    [name if name not in ("bench", "prove") else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS],
)
def test_json_of_each_command_is_the_one_envelope(
    name: str, export_copy: Callable[..., Path], cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = irtools.cli.cli.get_command(click.Context(irtools.cli.cli), name)
    assert group is not None
    if isinstance(group, click.Group) or name in ("cache", "completion"):
        pytest.skip("takes no model")
    directory = export_copy("falcon")
    monkeypatch.chdir(directory.parent)
    done = cli(name, "falcon", "--format", "json", *NEEDED.get(name, ()))
    answer = json.loads(done.out)
    jsonschema.validate(answer, schema(), jsonschema.Draft202012Validator)
    assert answer["command"] == name
    assert answer["summary"]["exit_code"] == done.code == 0
    assert [model["path"] for model in answer["models"]] == ["falcon"]


def test_version(cli: Callable[..., Done]) -> None:
    assert cli("--version") == Done(0, f"irtools {irtools.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("anotate",), "there is no command 'anotate'. Did you mean 'annotate'? (see 'irtools --help')"),
        (("compress",), "there is no command 'compress'. NNCF compresses weights: https://"),
        (("annotate", "--dryrun"), "no such option '--dryrun'"),
        (("locate", "--format", "yaml"), "'yaml' is not one of"),
        (("annotate", ""), "the path is empty"),
        (("locate", "-q", "-v"), "-q and -v cannot be used together (see 'irtools locate --help')"),
    ],
)
def test_usage_errors_take_one_line_and_exit_2(
    arguments: tuple[str, ...], message: str, cli: Callable[..., Done]
) -> None:
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("irtools: error: ")
    assert message in done.err
    assert done.err.count("\n") == 1


def paths_of(command: click.Command, *above: str) -> list[tuple[tuple[str, ...], click.Parameter]]:
    if isinstance(command, click.Group):
        inner = [(name, command.get_command(click.Context(command), name)) for name in command.list_commands(None)]
        return [path for name, sub in inner if sub for path in paths_of(sub, *above, name)]
    return [(above, parameter) for parameter in command.params if isinstance(parameter.type, click.Path)]


PATHS = [(*above, parameter) for above, parameter in paths_of(irtools.cli.cli)]


def test_every_command_but_rules_explain_takes_paths() -> None:
    assert {path[0] for path in PATHS} == set(COMMANDS) - {"cache", "completion"}
    assert {"--output-dir", "--output", "--draft", "--rules", "--baseline", "--write-baseline", "--config"} <= {
        option for *_, parameter in PATHS for option in parameter.opts
    }


@pytest.mark.parametrize("path", PATHS, ids=lambda path: " ".join((*path[:-1], path[-1].name)))
def test_an_unset_variable_is_no_path(
    path: tuple[Any, ...], cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    *above, parameter = path
    done = cli(*above, *([""] if isinstance(parameter, click.Argument) else [parameter.opts[-1], ""]))
    assert (done.code, done.out, list(tmp_path.iterdir())) == (2, "", [])
    assert "the path is empty" in done.err


def test_no_command_shows_the_help_and_exits_2(cli: Callable[..., Done]) -> None:
    done = cli()
    assert done.code == 2
    assert "Usage: irtools" in done.err


def test_help_imports_nothing_heavy() -> None:
    heavy = ("openvino", "networkx", "lxml", "numpy", "rich", "jinja2", "graphviz", "packaging", "irtools.ir")
    code = (
        "import sys\nfrom irtools.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n"
        f"    print(sorted(set(sys.modules) & set({heavy!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_is_silent(fixtures: Path) -> None:
    exports = sorted((fixtures / "zoo").iterdir())[:20]
    child = subprocess.Popen(command("inspect", *exports), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    assert child.wait() == 128 + signal.SIGPIPE


def test_a_full_disk_behind_stdout_is_said(fixtures: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command("locate", fixtures / "falcon"), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"irtools: error: standard output cannot be written: No space left on device\n"


ENDING = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)


@ENDING
def test_a_signal_that_ends_it_exits_with_its_number_and_one_line(number: signal.Signals, fixtures: Path) -> None:
    script = (
        "import os, irtools.lint.session as session\n"
        "from irtools.__main__ import main\n"
        f"session.verify_model = lambda *_, **__: os.kill(os.getpid(), {int(number)})\n"
        "main()"
    )
    child = subprocess.run(
        [sys.executable, "-c", script, "verify", fixtures / "falcon"], capture_output=True, check=False
    )
    assert (child.stdout, child.stderr) == (b"", b"irtools: error: interrupted\n")
    assert child.returncode == 128 + number


@pytest.mark.parametrize("number", mostly_slow([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], fast=1))
def test_a_signal_while_writing_leaves_nothing(number: signal.Signals, export_copy: Callable[..., Path]) -> None:
    """The signal arrives while the new file is checked under its temporary name."""
    directory = export_copy("falcon")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    script = (
        "import os, signal, irtools.runtime.check as check\n"
        "from irtools.__main__ import main\n"
        f"check.check_file = lambda *_, **__: os.kill(os.getpid(), {int(number)})\n"
        "main()"
    )
    child = subprocess.run(
        [sys.executable, "-c", script, "annotate", "--force", directory], capture_output=True, check=False
    )
    assert (child.returncode, child.stdout) == (128 + number, b"")
    assert child.stderr == b"irtools: error: interrupted\n"
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_an_interrupt_while_the_command_line_is_imported_is_one_line() -> None:
    script = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from irtools.__main__ import main\n"
        "main()"
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (child.returncode, child.stdout, child.stderr) == (130, b"", b"irtools: error: interrupted\n")


def test_nohup_keeps_a_hangup_away(fixtures: Path) -> None:
    script = "import os, signal\nfrom irtools.__main__ import main\nimport irtools.cli\n"
    script += "irtools.cli.main = lambda: os.kill(os.getpid(), signal.SIGHUP)\nmain()"
    child = subprocess.run(["nohup", sys.executable, "-c", script], capture_output=True, check=False)
    assert child.returncode == 0


def test_nothing_of_a_terminal_goes_into_a_pipe(fixtures: Path, process: Callable[..., Done]) -> None:
    wide = process("locate", fixtures / "falcon", "--explain")
    narrow = process("locate", fixtures / "falcon", "--explain", COLUMNS="40", TERM="xterm-256color")
    assert wide == narrow
    assert "\x1b" not in wide.out
    assert wide.err == ""


def test_colour_on_a_terminal_unless_no_color(fixtures: Path, terminal: Callable[..., Done]) -> None:
    assert "\x1b[1m" in terminal("locate", fixtures / "falcon", width=120).out
    assert "\x1b" not in terminal("locate", fixtures / "falcon", width=120, NO_COLOR="1").out
    assert "\x1b" not in terminal("locate", fixtures / "falcon", width=120, TERM="dumb").out


def test_a_narrow_terminal_folds_and_cuts_nothing(
    fixtures: Path,
    terminal: Callable[..., Done],
    process: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(fixtures)  # paths are never folded, and the path of the checkout may be long
    narrow = terminal("locate", "gemma4_vl", width=60, NO_COLOR="1").out
    assert max(map(len, narrow.splitlines())) <= 60
    piped = process("locate", "gemma4_vl").out
    assert "".join(narrow.split()) == "".join(piped.split())


@pytest.mark.slow
def test_progress_on_a_terminal_and_none_in_a_pipe(
    tmp_path: Path, terminal: Callable[..., Done], process: Callable[..., Done], fixtures: Path
) -> None:
    slow = tmp_path / "sitecustomize.py"
    slow.write_text(
        "import time\nimport irtools.model.document as d\nread = d.scan_ir\n"
        "d.scan_ir = lambda *data, **options: (time.sleep(1.5), read(*data, **options))[1]\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    shown = terminal("locate", fixtures / "falcon", width=200, progress=True, PYTHONPATH=path).out
    assert "Locating the decoder stack of" in shown
    assert "layer 3" in shown
    assert process("locate", fixtures / "falcon", PYTHONPATH=path).err == ""
    quick = terminal("locate", fixtures / "falcon", width=200, progress=True).out
    assert "Locating" not in quick


def test_every_help_page_has_an_example_that_is_a_command_line() -> None:
    context = click.Context(irtools.cli.cli)
    for name in irtools.cli.cli.list_commands(context):
        command = irtools.cli.cli.get_command(context, name)
        assert command is not None
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for one in (command, *inner):
            text = one.get_help(click.Context(one, info_name="irtools"))
            assert f"irtools {name}" in text.partition("\n  Example")[2], one.name


def test_the_options_of_the_examples_exist() -> None:
    context = click.Context(irtools.cli.cli)
    for name, lines in EXAMPLES.items():
        outer, _, inner = name.partition(" ")
        command = irtools.cli.cli.get_command(context, outer)
        assert command is not None
        if inner:
            assert isinstance(command, click.Group)
            command = command.commands[inner]
        known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        for line in lines:
            assert line.split("    #")[0].count(f"irtools {outer}") == 1
            assert {word for word in line.split() if word.startswith("--")} <= known, line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str, cli: Callable[..., Done]) -> None:
    done = cli("completion", shell)
    assert done.code == 0
    assert "_IRTOOLS_COMPLETE" in done.out
    assert cli("completion", "tcsh").code == 2


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    (tmp_path / "irtools").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m irtools "$@"\n')
    (tmp_path / "irtools").chmod(0o755)
    ask = (
        'eval "$(irtools completion bash)"; COMP_WORDS=({words}); COMP_CWORD={at}; '
        '_irtools_completion irtools; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    for words, at, expected in (("irtools ver", 1, {"verify"}), ("irtools inspect --bud", 2, {"--budget"})):
        script = ask.format(words=words, at=at)
        environment = {**os.environ, "PATH": path}
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) == expected
