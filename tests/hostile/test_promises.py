"""The promises of SECURITY.md that concern a whole process: files, network, code and memory."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.large import write_large
from tests.marks import mostly_slow

ROOT = Path(__file__).resolve().parents[2]
WATCH = """
import json, os, sys
seen = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        writes = isinstance(arguments[1], str) and set(arguments[1]) & set("wax+") or arguments[2] & 3
        seen.append(("write" if writes else "read", os.path.abspath(os.fsdecode(arguments[0]))))
    elif event.startswith("socket.") and event != "socket.gethostname":
        seen.append(("network", event))
    elif event == "subprocess.Popen":
        seen.append(("process", arguments[1][0] if arguments[1] else arguments[0]))
    elif event == "os.remove" and arguments[1] not in (-1, None):
        pass  # relative to a directory that is being removed
    elif event in ("os.rename", "os.remove", "os.mkdir", "os.link", "os.symlink"):
        changed = arguments[event in ("os.rename", "os.link", "os.symlink")]
        seen.append(("write", os.path.abspath(os.fsdecode(changed))))
sys.addaudithook(hook)
log = sys.argv.pop(1)
from irtools.cli import main
try:
    main(sys.argv[1:])
finally:
    with open(log, "w") as file:
        json.dump(seen, file)
"""
_LIMIT = 8, 150
"""Memory of irtools' own process: times the XML, plus MiB."""


def watched(log: Path, cwd: Path, *arguments: object) -> list[tuple[str, str]]:
    """Files, sockets and processes that a run opens."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", WATCH, log, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "TMPDIR": str(cwd / "scratch"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    return [(kind, value) for kind, value in json.loads(log.read_text()) if value != str(log)]


@pytest.mark.parametrize(
    "arguments",
    mostly_slow(
        [
            ("verify", "ov", "--output", "out/x.sarif"),
            ("report", "ov", "-o", "out/x.html"),
            ("annotate", "ov", "-o", "out/annotated"),
            ("verify", "ov"),
            ("inspect", "ov"),
            ("render", "ov", "-o", "out/x.svg"),
            ("diff", "ov", "ov"),
        ]
    ),
    ids=lambda arguments: f"{arguments[0]}{len(arguments)}",
)
def test_files_network_and_processes(fixtures: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Files of the export, of the output, of Python and of the system; no socket; no process but Python and dot."""
    shutil.copytree(fixtures / "falcon", tmp_path / "ov")
    (tmp_path / "ov" / "lxml.py").write_text("raise SystemExit('this ran')")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "out").mkdir()
    (tmp_path / "scratch").mkdir()
    seen = watched(tmp_path / "log.json", tmp_path, *arguments)

    python = {
        sys.prefix,
        sys.base_prefix,
        *sysconfig.get_paths().values(),
        str(ROOT),
        "/usr",
        "/proc",
        "/dev",
        "/etc",
        "/sys",
    }
    scratch = str(tmp_path / "scratch")
    ours = [str(tmp_path / name) for name in ("ov", "out")]
    for kind, value in seen:
        assert kind != "network", value
        if kind == "process":
            assert value in (sys.executable, shutil.which("dot")), value
        elif kind == "write":
            assert value.startswith((ours[1], scratch, "/dev/null")), value
        else:
            # A directory that is being removed is opened by its name alone.
            searched = value in (str(tmp_path / name) for name in ("irtools.toml", "pyproject.toml", "fonts"))
            assert value.startswith((*python, *ours, scratch)) or searched, value
    assert [value for kind, value in seen if kind == "read" and value.startswith(ours[0])]


def test_python_files_in_the_working_directory_do_not_run(export_copy: Callable[..., Path]) -> None:
    export = export_copy("falcon")
    for name in ("lxml", "networkx", "jinja2", "openvino", "click", "graphviz", "packaging", "_overlapped"):
        (export / f"{name}.py").write_text("raise SystemExit('this ran')")
    (export / "evil-1.dist-info").mkdir()
    (export / "evil-1.dist-info" / "entry_points.txt").write_text("[irtools.rules]\nevil = click\n")
    (export / "evil-1.dist-info" / "METADATA").write_text("Name: evil\nVersion: 1\n")
    script = Path(sys.executable).with_name("irtools")
    for command in ([sys.executable, "-m", "irtools"], *([[str(script)]] if script.exists() else [])):
        done = subprocess.run([*command, "verify", "."], cwd=export, capture_output=True, text=True, check=False)
        assert "this ran" not in done.stdout + done.stderr
        assert "evil" not in done.stderr
        assert done.returncode in (0, 1), done.stderr


# -- memory ------------------------------------------------------------------------------


PEAK = """
import re, sys
from irtools.cli import main
try:
    main(sys.argv[2:])
finally:
    with open("/proc/self/status") as status, open(sys.argv[1], "w") as log:
        log.write(re.search(r"VmHWM:\\s*(\\d+)", status.read())[1])
"""


def peak(log: Path, *arguments: object) -> float:
    """Peak memory of ``irtools`` itself in MiB, which unlike that of ``getrusage`` leaves out the parent's."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PEAK, log, *map(str, arguments)], check=False, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), (arguments, done.stderr)
    return int(log.read_text()) / 1024


def require_bounded(export: Path, *commands: tuple[object, ...], files: int = 1) -> None:
    """The limit holds for commands that read as many files of the size of the export's."""
    factor, base = _LIMIT
    xml = files * (export / "openvino_model.xml").stat().st_size / 2**20
    for name, *options in commands:
        used = peak(export.with_name("peak"), name, export, *options)
        assert used <= factor * xml + base, f"{name}: {used:.0f} MiB for {xml:.1f} MiB of XML"


def test_memory_at_ten_thousand_ops(tmp_path: Path) -> None:
    export = write_large(tmp_path / "ov", layers=8, experts=72)
    assert 9_000 < len(re.findall("<layer ", (export / "openvino_model.xml").read_text())) < 14_000
    require_bounded(export, ("verify",), ("report", "-o", tmp_path / "page.html"))


@pytest.mark.slow
def test_memory_of_every_command_at_thirty_thousand_ops(tmp_path: Path, fixtures: Path) -> None:
    export, other = tmp_path / "ov", tmp_path / "other"
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.large", export, "--layers", "64", "--experts", "28"],
        cwd=ROOT,
        check=True,
    )
    assert 28_000 < len(re.findall(b"<layer ", (export / "openvino_model.xml").read_bytes())) < 34_000
    shutil.copytree(export, other)
    xml = other / "openvino_model.xml"
    xml.write_bytes(xml.read_bytes().replace(b"layers.3.self_attn.q_proj", b"layers.3.self_attn.renamed", 1))
    unchecked = ("--no-check", "--dry-run")
    require_bounded(
        export,
        *(("locate",), ("inspect",), ("verify",), ("strip", "--dry-run"), ("annotate", *unchecked)),
        ("report", "-o", tmp_path / "page.html"),
        ("render", "-o", tmp_path / "picture.svg"),
        ("expose", "--layers", "all", *unchecked),
        ("extract", "--layers", "3-5", "--no-check", "-o", tmp_path / "piece"),
    )
    require_bounded(export, ("diff", other), files=2)
    for suffix in ("xml", "bin"):  # of a draft that would use the head
        shutil.copy(fixtures / "qwen3_5_vl" / f"openvino_mtp_model.{suffix}", export)
    require_bounded(export, ("graft", "--vocabulary", "16", *unchecked))


@pytest.mark.slow
def test_memory_at_265_000_ops(tmp_path: Path) -> None:
    export = tmp_path / "ov"
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "tests.benchmarks.large", export], cwd=ROOT, check=True)
    shutil.copytree(export, other)
    xml = other / "openvino_model.xml"
    xml.write_bytes(xml.read_bytes().replace(b"layers.3.self_attn.q_proj", b"layers.3.self_attn.renamed", 1))
    require_bounded(
        export,
        ("locate",),
        ("inspect",),
        ("report", "-o", tmp_path / "page.html"),
        ("verify",),
        ("annotate", "--no-check", "--dry-run"),
        ("render", "-o", tmp_path / "picture.svg"),
    )
    require_bounded(export, ("diff", other), files=2)
