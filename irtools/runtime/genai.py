"""Run OpenVINO GenAI on an export, in a process of its own.

The pipeline is native code: a faulty export can end the process, and GenAI's libraries can
not be unloaded. So a worker process takes jobs as lines of JSON and answers in the same
way; when it dies, the job it was at is reported as crashed and a new worker does the rest.
The main process needs neither OpenVINO nor GenAI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from irtools.errors import UsageError
from irtools.runtime.process import start

__all__ = ["Job", "Outcome", "available", "run", "run_all"]


@dataclass(frozen=True, slots=True)
class Job:
    """What to run.

    Attributes
    ----------
    model : str
        Model directory.
    prompt : str
        Given as it is, without a chat template.
    draft : str or None
        Directory of the draft; the same as ``model`` for MTP.
    max_new_tokens : int
    assistant_tokens : int
        Candidates per step, with a draft.
    prefix_caching : bool
        What the scheduler is told; GenAI's own default is on in some pipelines.
    device : str
    stateful : bool
        Use ``LLMPipeline`` with the SDPA backend, as it does for models that cannot be paged.
    """

    model: str
    prompt: str
    draft: str | None = None
    max_new_tokens: int = 20
    assistant_tokens: int = 1
    prefix_caching: bool = False
    device: str = "CPU"
    stateful: bool = False

    @classmethod
    def plain(cls, model: str | Path, prompt: str, **options: Any) -> Job:
        """Generation without a draft."""
        return cls(str(model), prompt, **options)

    @classmethod
    def mtp(cls, model: str | Path, prompt: str, **options: Any) -> Job:
        """Generation with the MTP head of the same directory."""
        return cls(str(model), prompt, draft=str(model), **options)

    @classmethod
    def dflash(cls, model: str | Path, draft: str | Path, prompt: str, **options: Any) -> Job:
        """Generation with a draft from another directory; what kind it is, its rt_info says."""
        return cls(str(model), prompt, draft=str(draft), **options)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What GenAI did.

    Attributes
    ----------
    stage : str
        ``ran``, ``generate`` (failed there), ``load`` (refused there) or ``crash``.
    message : str
        The runtime's own words when it did not run.
    tokens : tuple of int
        Generated token ids.
    accepted, drafted : int
        Candidates; 0 without a draft. GenAI 2026.4 counts none for DFlash: use ``steps``.
    steps : int
        Runs of the target, the prompt included.
    seconds : float
        Of generation, without load.
    """

    stage: str
    message: str = ""
    tokens: tuple[int, ...] = ()
    accepted: int = 0
    drafted: int = 0
    steps: int = 0
    seconds: float = 0.0


def available() -> bool:
    """Whether openvino-genai is installed."""
    from importlib.util import find_spec

    return find_spec("openvino_genai") is not None


def run(job: Job, *, timeout: float = 300.0) -> Outcome:
    """Run one job; see :func:`run_all`."""
    return run_all([job], timeout=timeout)[0]


def run_all(jobs: Iterable[Job], *, timeout: float = 300.0) -> list[Outcome]:
    """Run jobs one after the other.

    Parameters
    ----------
    jobs : iterable of Job
    timeout : float
        Seconds that one job may take before its process is ended.

    Returns
    -------
    list of Outcome
        In the order of the jobs.

    Raises
    ------
    UsageError
        openvino-genai is not installed.
    """
    if not available():
        raise UsageError("openvino-genai is not installed; pip install 'ov-irtools[runtime]'")
    pending = list(jobs)
    outcomes: list[Outcome] = []
    while pending:
        with _worker() as worker:
            while pending:
                outcome = _ask(worker, pending[0], timeout)
                outcomes.append(outcome)
                pending.pop(0)
                if outcome.stage == "crash":
                    break
    return outcomes


@contextmanager
def _worker() -> Iterator[subprocess.Popen[bytes]]:
    worker = start("irtools.runtime.genai", stderr=subprocess.DEVNULL)
    try:
        yield worker
    finally:
        worker.kill()
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                stream.close()
        worker.wait()


def _ask(worker: subprocess.Popen[bytes], job: Job, timeout: float) -> Outcome:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        worker.stdin.flush()
    except BrokenPipeError:
        return Outcome("crash", "the process ended before it took the job")
    line = _read_line(worker.stdout, timeout)
    if line is None:
        return Outcome("crash", f"no answer within {timeout:.0f} s")
    if not line:
        return Outcome("crash", f"the process ended with exit code {worker.wait()}")
    answer = json.loads(line)
    answer["tokens"] = tuple(answer["tokens"])
    return Outcome(**answer)


def _read_line(stream: IO[bytes], timeout: float) -> bytes | None:
    """One line; empty at the end of the stream, None when time is up."""
    lines: list[bytes] = []
    # Not `select`, which takes no pipes on Windows. When the worker is ended, the thread ends too.
    reader = threading.Thread(target=lambda: lines.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(timeout)
    if not lines:
        return None
    return lines[0] if lines[0].endswith(b"\n") else b""


# -- in the worker ---------------------------------------------------------------------


def _serve() -> None:
    """Answer jobs from stdin until it closes."""
    # GenAI's own messages must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        outcome = _execute(Job(**json.loads(line)))
        answers.write(json.dumps(asdict(outcome)) + "\n")
        answers.flush()


def _execute(job: Job) -> Outcome:
    import openvino_genai as genai

    try:
        pipeline = _load(genai, job)
    except (RuntimeError, ValueError, IndexError) as error:
        return Outcome("load", _first_words(error))
    config = genai.GenerationConfig()
    config.max_new_tokens, config.do_sample, config.ignore_eos = job.max_new_tokens, False, True
    if job.draft:
        config.num_assistant_tokens = job.assistant_tokens
    tokens: list[int] = []
    start = time.monotonic()
    streamer = _recorder(genai, tokens)
    try:
        if job.stateful:
            pipeline.generate(job.prompt, config, streamer)
            return Outcome("ran", tokens=tuple(tokens), steps=len(tokens), seconds=time.monotonic() - start)
        result = pipeline.generate([job.prompt], [config], streamer=streamer)[0]
    except (RuntimeError, ValueError, IndexError) as error:
        return Outcome("generate", _first_words(error))
    return _outcome(result, tokens, time.monotonic() - start)


def _load(genai: Any, job: Job) -> Any:
    if job.stateful:
        return genai.LLMPipeline(job.model, job.device, ATTENTION_BACKEND="SDPA")
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = job.prefix_caching
    scheduler.cache_size = 1
    properties = {"draft_model": genai.draft_model(job.draft, job.device)} if job.draft else {}
    return genai.ContinuousBatchingPipeline(job.model, scheduler, job.device, properties)


def _recorder(genai: Any, tokens: list[int]) -> Any:
    """A streamer that keeps the ids: text does not tell them when it is no valid UTF-8."""

    class Recorder(genai.StreamerBase):  # type: ignore[misc]
        def write(self, token: int | list[int]) -> Any:
            tokens.extend(token if isinstance(token, list) else [token])
            return genai.StreamingStatus.RUNNING

        def end(self) -> None:
            pass

    return Recorder()


def _outcome(result: Any, tokens: list[int], seconds: float) -> Outcome:
    metrics = result.extended_perf_metrics
    if metrics is None:
        return Outcome("ran", tokens=tuple(tokens), steps=len(tokens), seconds=seconds)
    return Outcome(
        "ran",
        tokens=tuple(tokens),
        accepted=metrics.get_num_accepted_tokens(),
        drafted=metrics.get_num_draft_tokens(),
        steps=len(metrics.main_model_metrics.raw_metrics.m_durations),
        seconds=seconds,
    )


def _first_words(error: BaseException) -> str:
    """The runtime's message without the places in its own source."""
    lines = [line.strip() for line in str(error).splitlines()]
    wanted = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(wanted or lines)[:600]


if __name__ == "__main__":
    _serve()
