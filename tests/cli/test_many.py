"""Many exports: the same output for any number of jobs, failures, interrupts, results that are kept."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import openvino
import pytest

from irtools.fleet.state import _line as state_line
from irtools.report.json import schema
from tests.cli.conftest import Done, command

Cli = Callable[..., Done]
VALIDATOR = jsonschema.Draft202012Validator(schema())
KEY = b"hidden_states_decoder_layers"


@pytest.fixture
def folder(fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the folder ``all`` of two sound exports, a broken one and one that is refused."""
    monkeypatch.chdir(tmp_path)
    for name, to in (("llama", "a"), ("llama", "b/broken"), ("bert", "c"), ("qwen3_5_vl_trained", "d")):
        shutil.copytree(fixtures / name, tmp_path / "all" / to)
    xml = tmp_path / "all/b/broken/openvino_model.xml"
    xml.write_bytes(xml.read_bytes()[:5000])
    return tmp_path


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def annotated(xml: Path) -> bool:
    """True if OpenVINO reads an annotation."""
    model = openvino.Core().read_model(xml)
    return bool(model.has_rt_info([KEY.decode()]))


def test_one_broken_export_does_not_stop_the_others(cli: Cli, folder: Path) -> None:
    done = cli("annotate", "--recursive", "all", "--no-check")

    assert done.code == 2
    assert annotated(folder / "all/a/openvino_model.xml")
    assert annotated(folder / "all/d/openvino_language_model.xml")
    assert re.findall(r"^wrote (.*)$", done.out, re.M) == ["all/a/openvino_model.xml"]
    assert done.out.endswith("\nall/d/openvino_language_model.xml already has this annotation; nothing written\n")
    assert [line.split(": ")[2] for line in done.err.splitlines() if line.startswith("irtools: error")] == [
        "all/b/broken/openvino_model.xml",
        "all/c/openvino_model.xml",
    ]
    title, *rows = done.err.splitlines()[-3:]
    assert title == "2 of 4 exports failed:"
    assert [row.split()[0] for row in rows] == ["all/b/broken", "all/c"]
    assert all(row.split()[1] == "openvino_model.xml:" for row in rows), "each with its reason, the path only once"


def test_verify_names_each_export_that_fails_and_why(cli: Cli, folder: Path) -> None:
    done = cli("verify", "all/*", "all/b/*", "all/e")

    assert done.code == 2
    blocks = [line for line in done.out.splitlines() if line and not line.startswith(" ")]
    assert blocks == ["all/a", "all/c", "all/d", "all/b/broken", blocks[-1]]
    assert blocks[-1].startswith("4 exports verified: ")
    rows = dict(line.split(maxsplit=1) for line in done.err.splitlines() if line.startswith("  "))
    assert rows["all/e"] == "no such file or directory"
    assert re.fullmatch(r"\d errors?: IR.*", rows["all/b/broken"])
    assert "all/d" not in rows


@pytest.mark.slow
def test_a_progress_line_is_only_for_a_terminal(terminal: Cli, process: Cli, folder: Path) -> None:
    paths = ["all/a"] * 1 + ["all/d"]
    shown = terminal("verify", *paths, "--jobs", "2", width=60, progress=True)
    lines = re.findall(r"\x1b\[2K([^\x1b\n\r]*done[^\x1b\n\r]*)", shown.out)
    assert lines
    assert all(re.match(r"\d of 2 done(, [\d.]+(/s| s each), about \d+ s left)?$", line) for line in lines)
    assert "done" not in process("verify", *paths, "--jobs", "2").err


def test_the_options_for_many_are_checked(cli: Cli, folder: Path) -> None:
    refusals = {
        ("--jobs", "0"): "'0' is not a number of processes from 1 to 512, nor auto",
        ("--timeout", "0"): "--timeout",
        ("--jobs", "2", "--scheduler", "tcp://x:1"): "the cluster of --scheduler has its own",
        ("--recursive", "nowhere"): "nowhere: no such directory",
        ("--recursive", ""): "the path is empty",
        ("all/x*",): "no export matches 'all/x*'",
    }
    for arguments, message in refusals.items():
        done = cli("verify", *arguments)
        assert (done.code, done.out) == (2, "")
        assert message in done.err


def test_a_wrong_option_is_told_once(cli: Cli, folder: Path) -> None:
    done = cli("verify", "all/a", "all/d", "--select", "NOPE999")
    assert done.code == 2
    assert done.err.count("there is no rule or group 'NOPE999'") == 1


def test_the_output_directory_repeats_what_is_below_the_root(cli: Cli, folder: Path) -> None:
    (folder / "all/x").mkdir()
    shutil.copytree(folder / "all/a", folder / "all/x/a")

    done = cli("annotate", "--recursive", "all", "-o", "out", "--no-check")

    assert done.code == 2
    assert annotated(folder / "out/a/openvino_model.xml")
    assert annotated(folder / "out/x/a/openvino_model.xml")
    assert not (folder / "out/c").exists()
    assert not annotated(folder / "all/a/openvino_model.xml")


def test_two_exports_never_share_a_destination(cli: Cli, folder: Path) -> None:
    shutil.copytree(folder / "all/a", folder / "all/x/a")
    done = cli("strip", "all/a", "all/x/a", "-o", "out")
    assert (done.code, done.out) == (2, "")
    assert "would both be written to" in done.err


def test_an_export_inside_another_is_not_written_into_its_copy(cli: Cli, folder: Path) -> None:
    shutil.copytree(folder / "all/a", folder / "all/a/inner")
    done = cli("strip", "--recursive", "all", "-o", "out")
    assert done.code == 2
    assert "all/a/inner and all/a" in done.err or "all/a and all/a/inner" in done.err
    assert not (folder / "out").exists()


def test_verifying_for_json_keeps_what_a_row_cannot_hold(cli: Cli, folder: Path) -> None:
    """Alone, an export is verified without a row; the details must be the same."""
    alone = [json.loads(cli("verify", f"all/{name}", "--format", "json").out)["models"][0] for name in ("a", "d")]
    together = json.loads(cli("verify", "all/a", "all/d", "--format", "json").out)
    assert together["models"] == alone


def test_the_diffs_of_fixes_are_kept_in_rows(cli: Cli, folder: Path) -> None:
    alone = cli("verify", "all/a", "--expect-mtp", "--select", "HID", "--diff").out
    before = content(folder / "all")
    together = cli("verify", "all/a", "all/d", "--expect-mtp", "--select", "HID", "--diff")
    assert alone.startswith("--- ")
    assert alone.rstrip("\n") in together.out
    assert content(folder / "all") == before


# -- the same for any number of jobs ---------------------------------------------------

READERS = (
    ("verify", "--recursive", "all"),
    ("verify", "--recursive", "all", "--format", "json"),
    ("verify", "--recursive", "all", "--expect-mtp", "--unsafe-fixes", "--diff"),
    ("inspect", "--recursive", "all"),
    ("annotate", "--recursive", "all", "--diff"),
)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
def test_what_is_printed_is_the_same_for_any_number_of_jobs(
    process: Cli, folder: Path, arguments: tuple[str, ...]
) -> None:
    one, two = process(*arguments), process(*arguments, "--jobs", "2")
    assert one == two
    assert one.out


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("expose", "--layers", "0,last"), ("verify", "--fix")],
    ids=" ".join,
)
def test_what_is_written_is_the_same_for_any_number_of_jobs(
    process: Cli, folder: Path, arguments: tuple[str, ...]
) -> None:
    shutil.copytree("all", "again")
    one = process(*arguments, "--recursive", "all")
    two = process(*arguments, "--recursive", "again", "--jobs", "2")

    assert (one.code, one.out, one.err) == (
        two.code,
        two.out.replace("again/", "all/"),
        two.err.replace("again/", "all/"),
    )
    assert content(folder / "all") == content(folder / "again")
    assert "wrote" in one.out + one.err


def in_group(number: int) -> list[str]:
    """Processes of a group that have not ended."""
    shown = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = (line.split(maxsplit=2) for line in shown.splitlines())
    return [row[-1] for row in rows if row[0] == str(number) and not row[1].startswith("Z")]


@pytest.mark.slow
def test_an_interrupt_reports_what_is_finished(fixtures: Path, tmp_path: Path) -> None:
    for number in range(40):
        shutil.copytree(fixtures / "llama", tmp_path / f"all/{number:02}")
    original = (tmp_path / "all/00/openvino_model.xml").read_bytes()
    child = subprocess.Popen(
        command("annotate", "--recursive", "all", "--jobs", "2", "--format", "json"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    ending = time.monotonic() + 60
    while KEY not in (tmp_path / "all/03/openvino_model.xml").read_bytes():
        assert time.monotonic() < ending
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)

    envelope = json.loads(out)
    VALIDATOR.validate(envelope)
    assert child.returncode == envelope["summary"]["exit_code"] == 130
    assert envelope["summary"]["interrupted"] is True
    changed = [path for path in (tmp_path / "all").glob("*/*.xml") if KEY in path.read_bytes()]
    assert {str(path.relative_to(tmp_path)) for path in changed} == {
        file for model in envelope["models"] for file in model["written"]
    }
    assert 4 <= len(changed) < 40
    assert len({path.read_bytes() for path in (tmp_path / "all").glob("*/openvino_model.xml")}) == 2
    assert all(annotated(path) for path in changed)
    assert original in {path.read_bytes() for path in (tmp_path / "all").glob("*/openvino_model.xml")}
    assert not list((tmp_path / "all").rglob(".*")), "no temporary file"
    lines = err.decode().splitlines()
    assert lines[-2:] == [
        f"irtools: note: {len(changed)} of 40 exports done before the interrupt",
        "irtools: error: interrupted",
    ]
    ending = time.monotonic() + 10
    while running := in_group(child.pid):
        assert time.monotonic() < ending, running
        time.sleep(0.1)


def test_kept_results_are_those_that_would_be_computed(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cli("verify", "all/a", "all/c", "--resume", "state", "--ignore", "VER")
    again = cli("verify", "all/a", "all/c", "--resume", "state", "--ignore", "VER")
    assert (first, first.code) == (again, 1)

    def fail(*_: object) -> None:
        raise AssertionError("it was verified again")

    monkeypatch.setattr("irtools.lint.session.verify_model", fail)
    assert cli("verify", "all/a", "all/c", "--resume", "state", "--ignore", "VER") == first, "nothing is verified"
    assert cli("verify", "all/a", "--resume", "state").code == 2, "other options"
    (folder / "all/a/config.json").write_text("{}")
    assert cli("verify", "all/a", "--resume", "state", "--ignore", "VER").code == 2, "another file"


def test_a_result_counts_only_while_the_files_that_it_wrote_are_there(cli: Cli, folder: Path) -> None:
    call = ("annotate", "all/a", "-o", "out", "--resume", "state", "--no-check")
    assert "wrote out" in cli(*call).out
    shutil.rmtree("out")
    assert "wrote out" in cli(*call).out
    assert (folder / "out/openvino_model.xml").exists()


def test_a_baseline_that_a_configuration_file_names_counts(cli: Cli, folder: Path) -> None:
    """An empty baseline, and then one with all findings; the configuration file stays as it was."""
    (folder / "irtools.toml").write_text('baseline = "known.json"\n')
    call = ("verify", "all/a", "--expect-mtp", "--resume", "state")
    assert cli("verify", "all/d", "--write-baseline", "known.json").code == 0
    assert cli(*call).code == 1
    (folder / "known.json").unlink()
    assert cli("verify", "all/a", "--expect-mtp", "--write-baseline", "known.json").code == 0
    assert cli(*call).code == 0, "the findings are known now"


def test_a_kept_row_need_not_have_what_only_a_new_one_tells(cli: Cli, folder: Path) -> None:
    """A row of an earlier build has no traffic of the process that did the work and counts; one without a value not."""
    call = ("verify", "all/a", "--resume", "state")
    first = cli(*call)
    head, line = (folder / "state").read_bytes().splitlines(keepends=True)
    for key, code in (("elsewhere", first.code), ("value", 2)):
        content = json.loads(line)
        del content["check"], content["row"][key]
        (folder / "state").write_bytes(head + state_line(content))
        done = cli(*call)
        assert done.code == code
        assert done == first if key == "elsewhere" else "the state is damaged" in done.err
