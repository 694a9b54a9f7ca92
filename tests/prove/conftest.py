"""Proofs through the command line; each runs once for all tests and test processes."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from irtools.cli import main
from irtools.export import open_export
from irtools.prove.prompts import DEFAULT_PROMPTS
from irtools.runtime import genai
from tests.in_process import collected_later

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@dataclass(frozen=True)
class Proved:
    """Output of ``irtools prove --format json``."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        envelope: dict[str, Any] = json.loads(self.out)
        return envelope

    @property
    def proof(self) -> dict[str, Any]:
        proof: dict[str, Any] = self.envelope["models"][0]["proof"]
        return proof

    def step(self, name: str) -> dict[str, Any]:
        (step,) = (s for s in self.proof["steps"] if s["name"] == name)
        return dict(step)

    def check(self, step: str, name: str) -> dict[str, Any]:
        (check,) = (c for c in self.step(step)["checks"] if c["name"] == name)
        return dict(check)


def _irtools(*arguments: object) -> tuple[int | str | None, str, str]:
    """Run the command line in this process; it starts further processes."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), collected_later(), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    return ended.value.code, stdout, stderr


@pytest.fixture(scope="session")
def trained(proved: Callable[..., Proved], tmp_path_factory: pytest.TempPathFactory) -> Proved:
    """All steps for the trained export, with the prompt ``zqab`` before the default prompts."""
    prompts = tmp_path_factory.mktemp("prompts") / "prompts.json"
    prompts.write_text(json.dumps(["zqab", *DEFAULT_PROMPTS]))
    options = ("--assistant-tokens", "1,3", "--min-acceptance", "0.9")
    return proved("trained", "qwen3_5_vl_trained", "--prompts", prompts, *options)


@pytest.fixture(scope="session")
def dflash(proved: Callable[..., Proved]) -> Proved:
    """The runtime step for a pair with a random draft and the prompt ``zqab``."""

    def annotate(directory: Path) -> None:
        export = open_export(directory)
        export.annotate()
        export.save(check=False)

    options = ("--steps", "runtime", "--prompt", "zqab", "--assistant-tokens", "2", "--max-new-tokens", "10")
    return proved("dflash", "falcon", "--draft", FIXTURES / "qwen3_dflash", *options, edit=annotate)


@pytest.fixture(scope="session")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Proved]:
    """Prove a copy of a fixture.

    ``proved(key, fixture, *arguments, edit=None)``: ``edit`` changes the copy first. Calls with one key share one
    run, also in other processes of pytest-xdist.
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
            part = root / key / "part.json"
            part.write_text(json.dumps(_irtools("prove", copy, "--format", "json", *arguments)))
            part.rename(done)
        while not done.exists():
            time.sleep(0.05)
        return Proved(*json.loads(done.read_text()))

    return run
