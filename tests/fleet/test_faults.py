"""Faults in the midst of many exports: each ends in a row with its reason and in the right exit code.

A rule does the harm (``harm/harm.py``), in the process that verifies the export of that name.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleet.clusters import ROOT, Cluster

HARM = Path(__file__).parent / "harm"
SOUND = ("one", "three", "two")
JOBS = ("--jobs", "2")


@pytest.fixture
def exports(fixtures: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a folder with copies of a tiny export; returns it."""

    def make(*names: str, folder: str = "exports") -> Path:
        for name in names:
            shutil.copytree(fixtures / "gpt2", tmp_path / folder / name)
        return tmp_path / folder

    return make


def irtools(
    where: Path, *arguments: object, file_size: int = 0, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run irtools; with ``file_size``, the kernel refuses to write beyond it, as on a full disk."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    return subprocess.run(
        [sys.executable, "-m", "irtools", *map(str, arguments)],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=limit if file_size else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def verified(where: Path, *arguments: object) -> tuple[dict[str, str | None], subprocess.CompletedProcess[str]]:
    """Verify the exports below a directory with the harmful rule; errors by the names of the exports."""
    options = ("--select", "HARM", "--rules", HARM, "--format", "json")
    done = irtools(where, "verify", "--recursive", ".", *options, *arguments)
    models = json.loads(done.stdout)["models"]
    assert [model["path"] for model in models] == sorted(model["path"] for model in models)
    return {model["path"]: model["error"] for model in models}, done


def test_a_killed_process_costs_its_export_only(exports: Callable[..., Path]) -> None:
    errors, done = verified(exports(*SOUND, "killed"), *JOBS)
    assert errors.pop("killed") == (
        "killed: its process was killed (SIGKILL), perhaps for lack of memory, and again when it was tried alone"
    )
    assert errors == dict.fromkeys(SOUND)
    assert done.returncode == 2
    assert done.stderr.count("killed (SIGKILL)") == 2  # the error, and the table of failures


@pytest.mark.slow
def test_a_hung_export_ends(exports: Callable[..., Path]) -> None:
    errors, done = verified(exports("hung", *SOUND), *JOBS, "--timeout", "10")
    assert errors == {"hung": "hung: took longer than 10 s and was stopped", **dict.fromkeys(SOUND)}
    assert done.returncode == 2


def test_an_export_that_is_deleted_meanwhile_has_a_row(exports: Callable[..., Path]) -> None:
    root = exports("deleted", *SOUND)
    errors, done = verified(root, *JOBS)
    assert list(errors) == ["deleted", *SOUND]
    assert not (root / "deleted").exists()
    assert {errors[name] for name in SOUND} == {None}
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if errors["deleted"] else 0)


def test_a_defect_costs_its_export_only(exports: Callable[..., Path]) -> None:
    errors, done = verified(exports("broken", *SOUND), *JOBS)
    assert list(errors) == ["broken", *SOUND]
    assert "the rule HARM001 (harm)" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


def test_a_full_disk_while_exports_are_written(exports: Callable[..., Path], fixtures: Path) -> None:
    root = exports("small")
    shutil.copytree(fixtures / "llama", root / "large")
    small, large = (root / name / "openvino_model.xml" for name in ("small", "large"))
    before = {path: path.read_bytes() for path in (small, large)}
    assert len(before[small]) + 10_000 < len(before[large])
    arguments = ("annotate", "--recursive", ".", "--no-check", "--format", "json", *JOBS)
    done = irtools(root, *arguments, file_size=len(before[small]) + 10_000)
    statuses = {model["path"]: (model["status"], model["error"]) for model in json.loads(done.stdout)["models"]}
    assert statuses["small"] == ("written", None)
    assert statuses["large"][0] == "failed"
    assert "cannot be written: file too large" in str(statuses["large"][1])
    assert done.returncode == 2
    assert small.read_bytes() != before[small]
    assert large.read_bytes() == before[large]
    assert sorted(path.name for path in large.parent.iterdir()) == sorted(
        path.name for path in (fixtures / "llama").iterdir()
    )


@pytest.mark.slow
def test_a_full_disk_for_the_state_costs_no_result(exports: Callable[..., Path]) -> None:
    root = exports(*SOUND)
    arguments = ("verify", "--recursive", ".", "--exit-zero", "--format", "json")
    whole = irtools(root, *arguments)
    done = irtools(root, *arguments, "--resume", "../state", file_size=8_000)
    assert json.loads(done.stdout)["models"] == json.loads(whole.stdout)["models"]
    assert (whole.returncode, done.returncode) == (0, 2)
    assert "irtools: error: ../state: the state cannot be written: file too large" in " ".join(done.stderr.split())
    again = irtools(root, *arguments, "--resume", "../state")
    assert (again.stdout, again.returncode) == (whole.stdout, 0)


def test_only_what_is_left_is_done_after_a_kill(exports: Callable[..., Path]) -> None:
    """The rule kills the process itself, because with one job there is no other."""
    root = exports("a", "b", "killed", "z")
    options = ("--recursive", ".", "--select", "HARM", "--rules", HARM, "--resume", "../state", "--format", "json")
    killed = irtools(root, "verify", *options)
    assert (killed.returncode, killed.stdout) == (-9, "")
    lines = (root.parent / "state").read_text().splitlines()
    assert [json.loads(line)["path"] for line in lines[1:]] == ["a", "b"]
    (root / "killed").rename(root / "kept")
    done = irtools(root, "verify", *options)
    assert [model["path"] for model in json.loads(done.stdout)["models"]] == ["a", "b", "kept", "z"]
    fresh = irtools(root, "verify", *(one for one in options if one not in ("--resume", "../state")))
    assert (done.stdout, done.returncode) == (fresh.stdout, fresh.returncode)


@pytest.mark.slow
def test_the_same_faults_on_a_cluster(exports: Callable[..., Path], dask_cluster: Cluster) -> None:
    names = ("broken", "deleted", "hoarder", "killed", *SOUND)
    root = exports(*names)
    errors, done = verified(root, "--scheduler", dask_cluster.address)
    assert list(errors) == sorted(names)
    assert errors["killed"] == "killed: 2 workers died while working on it, perhaps for lack of memory"
    assert "because it exceeded their limit of memory" in str(errors["hoarder"])
    assert {errors[name] for name in SOUND} == {None}
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "arguments"),
    [
        ("json", ("verify",)),
        ("text", ("inspect",)),
        ("text", ("annotate",)),
        ("json", ("graft", "--vocabulary", "64")),
    ],
)
def test_results_do_not_depend_on_where_the_work_is_done(
    fixtures: Path, tmp_path: Path, dask_cluster: Cluster, format_: str, arguments: tuple[str, ...]
) -> None:
    found, files = [], []
    for number, way in enumerate(((), JOBS, ("--scheduler", dask_cluster.address))):
        root = tmp_path / str(number)
        for name in ("gpt2", "llama", "qwen3_5_vl", "bert", "falcon"):
            shutil.copytree(fixtures / name, root / name)
        (root / "broken").mkdir()
        (root / "broken" / "openvino_model.xml").write_text("<net")
        done = irtools(root, *arguments, "--recursive", ".", "--format", format_, *way, timeout=600)
        found.append((done.returncode, done.stdout, done.stderr))
        files.append({path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()})
    assert found[0][1]
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert files[1] == files[0]
    assert files[2] == files[0]
