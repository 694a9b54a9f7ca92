"""Build what is released, so that anybody can build the same and see what is in it.

    python release/build.py wheel   the wheel, built twice: its hash must not depend on when and where
    python release/build.py sbom    a CycloneDX list of what installing the wheel brings, and of what it contains

Both write into ``dist/``. The tools come with ``pip install -e '.[release]'``; ``make`` does that.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VENDORED = ROOT / "release" / "vendored.json"
"""Files of other projects in the wheel. A test compares the hashes."""
SBOM = DIST / "sbom.cdx.json"


def _run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        umask=0o022,  # a wheel keeps the modes of its files
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def source_date() -> str:
    """Time of the last commit, which the files in the wheel get."""
    return os.environ.get("SOURCE_DATE_EPOCH") or _run("git", "log", "-1", "--format=%ct").strip()


def checked_in() -> list[str]:
    """Files that git knows."""
    return _run("git", "ls-files", "-z").rstrip("\0").split("\0")


def build_wheel(out: Path, date: str) -> Path:
    """Build the wheel from a new copy of the files that git knows, whose times are those of now."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in checked_in():
            if not name.startswith(("fixtures/", "tests/")) and (ROOT / name).is_file():
                (Path(scratch) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, Path(scratch) / name)
                (Path(scratch) / name).chmod(0o644)
        _run(sys.executable, "-m", "build", "--wheel", "--outdir", out, scratch, SOURCE_DATE_EPOCH=date)
    (wheel,) = out.glob("*.whl")
    return wheel


def sha256(path: Path) -> str:
    """Hash of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wheel() -> Path:
    """Build the wheel twice; exit with 1 if the two differ."""
    date = source_date()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        built = build_wheel(Path(one), date), build_wheel(Path(other), date)
        hashes = [sha256(path) for path in built]
        if hashes[0] != hashes[1]:
            sys.exit(f"the wheel was built twice with different content: {hashes[0]} and {hashes[1]}")
        DIST.mkdir(exist_ok=True)
        path = DIST / built[0].name
        shutil.copyfile(built[0], path)
    print(f"{hashes[0]}  {path.relative_to(ROOT)} (SOURCE_DATE_EPOCH={date}, built twice)")
    return path


def vendored(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """CycloneDX components of the files of other projects in the wheel."""
    return [
        {
            "type": "library",
            "bom-ref": entry["purl"],
            "name": entry["name"],
            "version": entry["version"],
            "description": entry["use"],
            "licenses": [{"license": {"id": entry["licence"]}}],
            "purl": entry["purl"],
            "components": [
                {
                    "type": "file",
                    "bom-ref": name,
                    "name": name,
                    "hashes": [{"alg": "SHA-256", "content": file["sha256"]}],
                }
                for name, file in entry["files"].items()
            ],
        }
        for entry in entries
    ]


def sbom() -> Path:
    """List what an environment with nothing but the wheel contains."""
    built = next(iter(sorted(DIST.glob("*.whl"))), None) or wheel()
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        python = Path(scratch) / "bin" / "python"
        _run(python, "-m", "pip", "install", "-q", built)
        _run(python, "-m", "pip", "uninstall", "-q", "-y", "pip", "setuptools")
        tool = (sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", "pyproject.toml")
        options = ("--mc-type", "application", "--output-reproducible", "--of", "JSON", "-o", SBOM)
        _run(*tool, *options, python, SOURCE_DATE_EPOCH=source_date())
    content = json.loads(SBOM.read_text())
    content["components"] += vendored(json.loads(VENDORED.read_text()))
    SBOM.write_text(json.dumps(content, indent=2) + "\n")
    names = [f"{part['name']} {part['version']}" for part in content["components"]]
    print(f"{SBOM.relative_to(ROOT)}: {len(names)} components: {', '.join(names)}")
    return SBOM


if __name__ == "__main__":
    parts = {"wheel": wheel, "sbom": sbom}
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(f"usage: python release/build.py {'|'.join(parts)}")
    parts[sys.argv[1]]()
