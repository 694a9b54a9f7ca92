"""No file outside of an export and the output is written or copied, and nothing is left for good by a kill."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import irtools
from irtools.errors import SaveError
from irtools.ir import files
from irtools.ir.files import abandoned, beside, scratch
from tests.cli.conftest import Done

Run = Callable[..., Done]
WRITERS = (
    ("verify", "--select", "EXP", "--output"),
    ("verify", "--select", "EXP", "--write-baseline"),
    ("report", "-o"),
    ("render", "-o"),
)


def tree(directory: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(directory)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in directory.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("name", ["config.json", "openvino_model.xml", "openvino_model.bin", "tokenizer.json"])
def test_no_output_replaces_a_file_of_an_export(run: Run, export_copy: Callable[..., Path], name: str) -> None:
    export = export_copy("falcon")
    (export / "tokenizer.json").write_text('{"model": {}}')
    before = tree(export)
    for command, *options in (*WRITERS, ("diff", export, "-o")):
        assert run(command, export, *options, export / name, codes=(2,)).err
        assert tree(export) == before


def test_an_output_in_the_export_is_replaced_by_the_next(run: Run, export_copy: Callable[..., Path]) -> None:
    export = export_copy("falcon")
    for name in ("report.html", "findings.json", "findings.sarif", "findings.xml", "known.json"):
        option = "--write-baseline" if name == "known.json" else "--output"
        for _ in range(2):
            run("verify", export, "--select", "EXP", option, export / name, codes=(0,))


@pytest.mark.parametrize("place", ["export", "folder above", "folder in the export"])
def test_no_output_goes_through_a_link_of_the_export(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    export = export_copy("falcon", "repository/ov")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim.html").write_text("mine")
    at = {"export": export, "folder above": export.parent, "folder in the export": export / "sub"}[place]
    at.mkdir(exist_ok=True)
    (at / "report.html").symlink_to(outside / "victim.html")
    (at / "folder").symlink_to(outside)
    monkeypatch.chdir(at)
    outputs = ("report.html", "folder/new.html", at / "folder" / "new.html", "folder/../report.html")
    for (command, *options), output in zip(WRITERS, outputs, strict=True):
        assert "could have come with the export" in run(command, export, *options, output, codes=(2,)).err
    for command, *options in (("annotate", "--no-check"), ("extract", "--layers", "0", "--no-check")):
        assert "could have come with the export" in run(command, export, *options, "-o", "folder", codes=(2,)).err
    assert tree(outside) == {"victim.html": b"mine"}


def test_a_link_of_the_user_is_followed(run: Run, export_copy: Callable[..., Path], tmp_path: Path) -> None:
    export, desk = export_copy("falcon", "models/a/b/falcon"), tmp_path / "desk"
    desk.mkdir()
    (desk / "page.html").symlink_to(tmp_path / "real.html")
    run("report", export, "-o", desk / "page.html", codes=(0,))
    assert (desk / "page.html").is_symlink()
    assert (tmp_path / "real.html").stat().st_size > 1000


@pytest.mark.parametrize("link", ["notes.txt", "config.json", "sub/notes.txt", "folder"])
def test_what_a_link_points_at_outside_is_not_copied(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, link: str
) -> None:
    export = export_copy("falcon")
    secret = tmp_path / "secret"
    secret.mkdir()
    shutil.copy(export / "config.json", secret / "key")
    (export / link).parent.mkdir(exist_ok=True)
    (export / link).unlink(missing_ok=True)
    (export / link).symlink_to(secret if link == "folder" else secret / "key")
    done = run("annotate", export, "--no-check", "-o", tmp_path / "out", codes=(2,))
    assert "outside of the export, and is not copied" in done.err
    assert not (tmp_path / "out").exists()
    with pytest.raises(SaveError, match="outside of the export"):
        irtools.open_export(export).save(tmp_path / "out")


def test_links_within_an_export_and_its_cache_are_copied(run: Run, fixtures: Path, tmp_path: Path) -> None:
    """The layout of a Hugging Face cache, with an export in a folder of the repository."""
    repository = tmp_path / "models--a--b"
    snapshot = repository / "snapshots" / "0123abcd" / "openvino"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for number, path in enumerate(sorted((fixtures / "falcon").iterdir())):
        shutil.copy(path, repository / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../../blobs/{number}")
    (snapshot / "again.json").symlink_to("config.json")
    run("annotate", snapshot, "--no-check", "-o", tmp_path / "out", codes=(0,))
    copied = {path.name for path in (tmp_path / "out").iterdir()}
    assert copied == {path.name for path in snapshot.iterdir()}
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())
    # A link to the blobs of another repository leaves the export.
    other = tmp_path / "models--a--c" / "blobs"
    other.mkdir(parents=True)
    (other / "0").write_text("other")
    (snapshot / "again.json").unlink()
    (snapshot / "again.json").symlink_to(other / "0")
    assert "not copied" in run("annotate", snapshot, "--no-check", "-o", tmp_path / "out2", codes=(2,)).err


# -- kills -------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from irtools.ir import files
real = os.write
def write(handle, data):
    count[0] += 1
    if count[0] == int(sys.argv[1]):
        real(handle, bytes(data)[:10])
        os.kill(os.getpid(), signal.SIGKILL)
    return real(handle, data)
count = [0]
os.write = write
from irtools.cli import main
main(sys.argv[2:])
"""


def killed(at: int, *arguments: object) -> bool:
    """Run ``irtools`` and kill it at a call of ``os.write``; False if it made fewer."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(at), *map(str, arguments)], capture_output=True, check=False, timeout=120
    )
    return done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("command", ["extract", "annotate", "report"])
def test_the_next_run_completes_what_a_killed_one_began(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, command: str
) -> None:
    export, output = export_copy("falcon"), tmp_path / "work" / "out"
    output.parent.mkdir()
    page = output.parent / "page.html"
    arguments = {
        "extract": ("extract", export, "--layers", "0", "--no-check", "-o", output),
        "annotate": ("annotate", export, "--no-check", "-o", output),
        "report": ("report", export, "-o", page),
    }[command]
    assert killed(1 if command == "report" else 2, *arguments)
    left = tree(output.parent)
    assert any(name.endswith(".irtools-tmp") for name in left), left
    run(*arguments, codes=(0,))
    assert not [name for name in tree(output.parent) if name.endswith(".irtools-tmp")]


def test_files_of_somebody_else_are_not_removed_with_a_leftover(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path
) -> None:
    export, output = export_copy("falcon"), tmp_path / "out"
    arguments = ("extract", export, "--layers", "0", "--no-check", "-o", output)
    assert killed(2, *arguments)
    (output / "mine.txt").write_text("mine")
    before = tree(output)
    assert "mine.txt" in run(*arguments, codes=(2,)).err
    assert tree(output) == before


def test_temporary_files_of_running_processes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = beside(tmp_path / "page.html")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    theirs = Path(str(mine).replace(f"-{os.getpid():x}-", f"-{child.pid:x}-"))
    assert not abandoned(mine.name)
    assert not abandoned(theirs.name)
    child.kill()
    time.sleep(0.2)
    assert abandoned(theirs.name)  # also before its parent has asked for its exit code
    child.communicate()
    assert abandoned(theirs.name)
    monkeypatch.setattr(files, "_host", lambda: "another")
    assert not abandoned(theirs.name)
    assert not abandoned(".page.html.0123abcd.irtools-tmp")


def test_scratch_directories_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with scratch("test") as made:
        (tmp_path / made.name.replace(f"-{os.getpid():x}-", f"-{child.pid:x}-")).mkdir()
        (tmp_path / "irtools-of-somebody").mkdir()
        assert len(list(tmp_path.iterdir())) == 3
    with scratch("test") as made:
        assert {path.name for path in tmp_path.iterdir()} == {made.name, "irtools-of-somebody"}
    assert [path.name for path in tmp_path.iterdir()] == ["irtools-of-somebody"]


# -- pieces ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r'<edge from-layer="(\d+)" from-port="(\d+)" to-layer="(\d+)" to-port="1" />', ""),
        (r'(<edge from-layer="\d+" from-port="\d+" to-layer="\d+" to-port="1" />)', r"\1\1"),
        (r'(<edge from-layer="\d+" from-port="\d+" to-layer="\d+") to-port="1" />', r'\1 to-port="7" />'),
        (r'(<data element_type="\w+" shape=)"[\d, ]+"( offset)', r'\1"32000, 32000"\2'),
    ],
)
def test_a_faulty_piece_is_not_written_without_a_check(
    run: Run, export_copy: Callable[..., Path], tmp_path: Path, old: str, new: str
) -> None:
    export = export_copy("falcon")
    path = export / "openvino_model.xml"
    content, count = re.subn(old, new, path.read_text())
    assert count
    path.write_text(content)
    done = run("extract", export, "--layers", "0", "--no-check", "-o", tmp_path / "out", codes=(2,))
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
