"""Proofs through the command line, each run once however many tests and test processes look at it."""

from __future__ import annotations

import gc
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
from irtools.prove.prompts import default_prompts
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


def _irtools(*arguments: object) -> tuple[int | str | None, str, str]:
    """Run the command line in this process; what it runs are processes of their own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    gc.unfreeze()
    gc.enable()  # the command line leaves it off
    said, told = (stream.buffer.getvalue().decode() for stream in (out, err))
    return ended.value.code, said, told


@pytest.fixture(scope="session")
def trained(proved: Callable[..., Proved], tmp_path_factory: pytest.TempPathFactory) -> Proved:
    """The trained export through all steps, with the prompt ``zqab`` before the default ones."""
    prompts = tmp_path_factory.mktemp("prompts") / "prompts.json"
    prompts.write_text(json.dumps(["zqab", *default_prompts()]))
    options = ("--assistant-tokens", "1,3", "--min-acceptance", "0.9")
    return proved("trained", "qwen3_5_vl_trained", "--prompts", prompts, *options)


@pytest.fixture(scope="session")
def dflash(proved: Callable[..., Proved]) -> Proved:
    """A pair with a random draft, on the prompt ``zqab``."""

    def annotate(directory: Path) -> None:
        export = open_export(directory)
        export.annotate()
        export.save(check=False)

    options = ("--steps", "runtime", "--prompt", "zqab", "--assistant-tokens", "2", "--max-new-tokens", "10")
    return proved("dflash", "falcon", "--draft", FIXTURES / "qwen3_dflash", *options, edit=annotate)


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
            part = root / key / "part.json"
            part.write_text(json.dumps(_irtools("prove", copy, "--format", "json", *arguments)))
            part.rename(done)
        while not done.exists():
            time.sleep(0.05)
        return Proved(*json.loads(done.read_text()))

    return run
