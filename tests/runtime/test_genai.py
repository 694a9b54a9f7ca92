"""Running GenAI in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from irtools.errors import UsageError
from irtools.runtime import genai
from irtools.runtime.jobs import GenerationJob

needs_genai = pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")

PROMPT = "zqab"
LETTERS = [ord(letter) - ord("a") + 64 for letter in "gijekh"]
"""The answer of the trained export to the prompt, which repeats; the tokenizer has ``a`` at 64."""


@pytest.mark.slow
@needs_genai
def test_outcomes_come_in_the_order_of_the_jobs(fixtures: Path, tmp_path: Path) -> None:
    trained = fixtures / "qwen3_5_vl_trained"
    jobs = [
        GenerationJob(str(trained), PROMPT, max_new_tokens=12),
        GenerationJob(str(tmp_path), PROMPT),
        GenerationJob(str(trained), PROMPT, draft=str(trained), max_new_tokens=12),
        GenerationJob(str(trained), PROMPT, draft=str(trained), max_new_tokens=12, prefix_caching=True),
    ]

    plain, missing, mtp, cached = list(genai.iterate(jobs))

    assert list(plain.tokens) == LETTERS * 2
    assert (plain.stage, plain.drafted, plain.steps) == ("ran", 0, 12)
    assert (missing.stage, missing.tokens) == ("load", ())
    assert mtp.tokens == plain.tokens
    assert 0 < mtp.accepted == mtp.drafted
    assert mtp.steps < plain.steps
    assert cached.stage == "generate"
    assert "enable_prefix_caching" in cached.message


@pytest.mark.slow
@needs_genai
def test_a_job_that_takes_too_long_does_not_stop_the_others(fixtures: Path) -> None:
    job = GenerationJob(str(fixtures / "falcon"), PROMPT, max_new_tokens=2)

    late = next(genai.iterate([job], timeout=0.0))
    in_time = next(genai.iterate([job]))

    assert late.stage == "crash"
    assert late.message == "the process did not respond for 0 s and was stopped"
    assert in_time.stage == "ran"


def test_without_genai_there_is_one_sentence(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genai, "available", lambda: False)

    with pytest.raises(UsageError, match="openvino-genai is not installed"):
        next(genai.iterate([GenerationJob(str(fixtures / "falcon"), PROMPT)]))


@needs_genai
def test_a_dead_worker_is_a_crash_and_not_an_exception(
    fixtures: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The interpreter is replaced by a program that reads one line and ends."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nread line\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    jobs: list[GenerationJob] = [GenerationJob(str(fixtures / "falcon"), PROMPT)] * 2

    outcomes = list(genai.iterate(jobs))

    assert [(outcome.stage, outcome.message) for outcome in outcomes] == [
        ("crash", "the process ended with code 7")
    ] * 2


SCRIPT = """
import os, sys
sys.path.insert(0, os.getcwd())  # as `python -m irtools` does
from irtools.runtime import genai
from irtools.runtime.jobs import GenerationJob
genai.available = lambda: True
print(next(genai.iterate([GenerationJob(sys.argv[1], "a")])).stage)
"""


@needs_genai
def test_a_module_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    """The working directory is the default model directory, which may come from anybody."""
    ran = tmp_path / "ran"
    for module in ("openvino_genai", "openvino", "irtools"):
        (tmp_path / f"{module}.py").write_text(f"open({str(ran)!r}, 'w')\nraise SystemExit(3)\n")
    code = SCRIPT.replace("sys.path.insert", "import irtools\nsys.path.insert")
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "load\n"  # the environment's openvino_genai finds no model here
    assert not ran.exists()
