"""The wheel, installed where there is nothing else, does what the checkout does."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path | None = None) -> str:
    """Standard output of a command that must succeed; the checkout is not on its path."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHONPATH", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist, and the wheel that was built from it."""
    # From a copy of what git has: building leaves files behind, and others must not slip in.
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in checked_in():
        if not name.startswith(("fixtures/", "tests/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    run(sys.executable, "-m", "build", "--outdir", out, source)
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of an environment with the wheel and what it needs, and nothing else."""
    directory = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(directory, with_pip=True)
    (wheel,) = built.glob("*.whl")
    run(directory / "bin" / "python", "-m", "pip", "install", "-q", wheel)
    return directory / "bin"


def checked_in() -> list[str]:
    """Every file of the checkout that git knows or would take."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT)
    return [name for name in listed.split("\0") if (ROOT / name).is_file()]


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: Path) -> None:
    (wheel,) = built.glob("ov_irtools-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    rules = {f"irtools/{name}" for name in checked_in() if name.startswith("rules/")}
    package = {name for name in checked_in() if name.startswith("irtools/")}
    assert {name for name in names if ".dist-info/" not in name} == package | rules
    assert "irtools/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_sdist_has_what_a_build_needs(built: Path) -> None:
    (sdist,) = built.glob("ov_irtools-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    rules = {name for name in checked_in() if name.startswith("rules/")}
    assert {"pyproject.toml", "README.md", "LICENSE", *rules} <= names


def test_it_runs_from_another_directory(
    installed: Path, tmp_path: Path, export_copy: Callable[..., Path], fixtures: Path
) -> None:
    from irtools.cli import main

    export_copy("falcon", "theirs")
    version = run(installed / "irtools", "--version", cwd=tmp_path)
    assert version == run(sys.executable, "-m", "irtools", "--version", cwd=ROOT)
    where = run(installed / "python", "-c", "import irtools; print(irtools.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert "layer" in run(installed / "irtools", "annotate", "theirs", cwd=tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main(["annotate", str(export_copy("falcon", "ours"))])
    theirs, ours = ((tmp_path / name / "openvino_model.xml").read_bytes() for name in ("theirs", "ours"))
    assert theirs == ours != (fixtures / "falcon" / "openvino_model.xml").read_bytes()
    assert run(installed / "irtools", "strip", "theirs", cwd=tmp_path)
    assert (tmp_path / "theirs" / "openvino_model.xml").read_bytes() == (
        fixtures / "falcon" / "openvino_model.xml"
    ).read_bytes()


def test_it_has_the_rules_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = (
        "from irtools.lint.rule import load_rules; from irtools.registry import collect; "
        "from irtools.graph.match import Pattern; "
        "print([rule.code for rule in load_rules()], len(collect(Pattern)))"
    )
    assert run(installed / "python", "-c", code, cwd=tmp_path) == run(sys.executable, "-c", code, cwd=ROOT)
    theirs = run(installed / "irtools", "rules", "list", cwd=tmp_path)
    assert theirs == run(sys.executable, "-m", "irtools", "rules", "list", cwd=ROOT)
    assert "MTP" in theirs


def test_it_ships_its_types_and_its_schemas(installed: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.resources import files; from irtools.prove.record import schema as proof; "
        "from irtools.report.json import schema; "
        "print(files('irtools').joinpath('py.typed').is_file(), schema()['title'], proof()['title'])"
    )
    said = run(installed / "python", "-c", code, cwd=tmp_path)
    assert said.startswith("True Output of every irtools command")
    assert "Record of a proof" in said


def test_it_has_the_same_bytes_whenever_and_wherever_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("irtools_release_build", ROOT / "release" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    wheels = []
    for number, (mask, zone) in enumerate([(0o022, "UTC"), (0o077, "Asia/Tokyo")]):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("PYTHONHASHSEED", str(number + 1))
        before = os.umask(mask)
        try:
            wheels.append(release.build_wheel(tmp_path / str(number), "1700000000"))
        finally:
            os.umask(before)

    assert release.sha256(wheels[0]) == release.sha256(wheels[1])
    dates = {entry.date_time[0] for entry in zipfile.ZipFile(wheels[0]).infolist()}
    assert dates == {2023}
