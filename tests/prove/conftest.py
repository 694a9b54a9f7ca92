"""Proofs through the command line, each run once however many tests and test processes look at it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from irtools.runtime import genai

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@dataclass(frozen=True)
class Proved:
    """What ``irtools prove --format json`` printed."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def proof(self) -> dict[str, Any]:
        found: dict[str, Any] = self.envelope["models"][0]["proof"]
        return found

    def check(self, step: str, name: str) -> dict[str, Any]:
        (found,) = (s for s in self.proof["steps"] if s["name"] == step)
        (check,) = (c for c in found["checks"] if c["name"] == name)
        return dict(check)


@pytest.fixture(scope="session")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Proved]:
    """Prove a copy of a fixture.

    ``proved(key, fixture, *arguments, edit=None)``: ``edit`` changes the copy before. The same key is
    the same run, also in another process of pytest-xdist.
    """
    if not genai.available():
        pytest.skip("openvino-genai is not installed")
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "proved"
    root.mkdir(exist_ok=True)

    def run(key: str, fixture: str, *arguments: object, edit: Callable[[Path], object] | None = None) -> Proved:
        done = root / f"{key}.json"
        with suppress(FileExistsError):
            (root / key).mkdir()
            copy = shutil.copytree(FIXTURES / fixture, root / key / fixture)
            if edit is not None:
                edit(copy)
            command = [sys.executable, "-m", "irtools", "prove", copy, "--format", "json", *map(str, arguments)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FIXTURES.parent)
            part = root / key / "part.json"
            part.write_text(json.dumps([ran.returncode, ran.stdout, ran.stderr]))
            part.rename(done)
        while not done.exists():
            time.sleep(0.05)
        return Proved(*json.loads(done.read_text()))

    return run
