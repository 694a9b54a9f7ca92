"""Standard output: diffs that patch accepts, and no control characters."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, command
from tests.marks import mostly_slow

NAMES = ["sp ace", "tab\tx", "new\nline", 'quo"te', "back\\slash", "esc\x1b[31m", "ünï", "bad\udcff", "\u202e"]


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch here")
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_patch_applies_the_diff_whatever_the_directory_is_called(
    name: str, export_copy: Callable[..., Path], cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = export_copy("falcon", to=name)
    monkeypatch.chdir(directory.parent)
    diff = cli("annotate", "--diff", name).out
    assert diff.count("\n--- ") + diff.startswith("--- ") == 1
    subprocess.run(["patch", "-p1", "-s"], input=diff.encode(), check=True)
    assert cli("annotate", "--dry-run", name).code == 0


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch here")
@pytest.mark.parametrize(
    ("here", "path", "apply"),
    [
        ("there", "../m", "."),
        ("there/deep", "../../m", "."),
        ("m", "../m", "m"),
        (".", "there/../m", "."),
        ("m", ".", "m"),
    ],
)
def test_patch_refuses_no_name_of_the_diff(
    here: str,
    path: str,
    apply: str,
    export_copy: Callable[..., Path],
    cli: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    above = export_copy("falcon", to="m").parent
    (above / "there" / "deep").mkdir(parents=True)
    monkeypatch.chdir(above / here)
    diff = cli("annotate", "--diff", path).out
    subprocess.run(["patch", "-p1", "-s"], input=diff.encode(), cwd=above / apply, check=True)
    assert cli("annotate", "--dry-run", above / "m").code == 0


@pytest.mark.parametrize("encoding", mostly_slow(["ascii", "latin-1"], fast=1))
@pytest.mark.parametrize("name", [["annotate"], ["verify", "--select", "HID", "--exit-zero"]], ids=lambda name: name[0])
def test_the_diff_is_utf8_in_every_locale(
    name: list[str], encoding: str, export_copy: Callable[..., Path], cli: Callable[..., Done]
) -> None:
    path = export_copy("falcon") / "openvino_model.xml"
    path.write_bytes(path.read_bytes().replace(b'"2.3.0"', '"\u202e…é"'.encode()))
    plain = cli(*name, "--diff", path)
    assert r'value="\u202e…é"' in plain.out  # what turns the text around is escaped, the rest stays
    done = subprocess.run(
        command(*name, "--diff", path),
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.stdout.decode() == plain.out


@pytest.mark.parametrize(
    "name",
    mostly_slow(["locate", "verify", "diff", "annotate", "attach", "strip", "inspect", "render", "report", "extract"]),
)
def test_what_a_path_holds_steers_no_terminal(
    name: str, export_copy: Callable[..., Path], cli: Callable[..., Done], fixtures: Path
) -> None:
    directory = export_copy("falcon", to="e\x1b[31mx\ny\x9bz\u202e")
    options: dict[str, list[list[object]]] = {
        "annotate": [["--dry-run"], [], [], ["--output-dir", directory.parent / "out\x1b\n"], ["--part", "no\x1b\n"]],
        "attach": [["--remove"], ["--mtp-from", fixtures / "qwen3_5_vl"], ["--mtp-from", "no\x1b\n"]],
        "strip": [["--dry-run"], [], []],
        "locate": [[], ["--explain"]],
        "verify": [[], ["-v"]],
        "diff": [[fixtures / "falcon"], [fixtures / "llama"]],
        "render": [["-o", directory.parent / "o\x1b\n.dot"], ["-o", directory / "gone\x1b\n" / "x.dot"]],
        "report": [["-o", directory.parent / "o\x1b\n.html"]],
        "extract": [["--layers", "1", "-o", directory.parent / "p\x1b\n"]],
    }
    for more in options.get(name, [[]]):
        done = cli(name, directory, *more)
        for line in [*done.out.split("\n"), *done.err.split("\n")]:
            assert line.isprintable(), (more, line)
            assert not line.startswith("y\\x9b"), (more, line)
