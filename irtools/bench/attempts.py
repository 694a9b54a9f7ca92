"""Attempts in OpenVINO GenAI: load, warm up, and time the prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from irtools.bench.samples import CRASHED, HUNG, RAN, REFUSED, Attempt, Contender, PromptRun
from irtools.bench.settings import BenchSettings
from irtools.bench.workload import Prompt
from irtools.prove.evidence import load_averages
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob, Outcome

__all__ = ["Attempts"]

_WARM = 16
"""New tokens of a run that warms up."""
_LONG = 2000
"""Characters of a prompt above which it does not warm up: reading it would take too long."""
_ENOUGH = 2.5
"""Seconds of timed passes in a process, below which the prompts run again."""
_ROUNDS = 4
"""Most times that the prompts run in a process."""


class Attempts:
    """Runs contenders; as a context manager it ends the process that keeps pipelines loaded."""

    def __init__(self, settings: BenchSettings, prompts: Sequence[Prompt]) -> None:
        self._settings = settings
        self._prompts = prompts
        self._kept: _Process | None = None

    def __enter__(self) -> Attempts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            self._kept.close()

    def __call__(self, contender: Contender, repetition: int) -> Attempt:
        """Run all prompts with a contender, in a fresh process unless ``keep_loaded`` is set."""
        attempt = Attempt(repetition, RAN, load_average=next(iter(load_averages()), None))
        if self._settings.keep_loaded:
            self._kept = self._kept or _Process(self._settings.timeout)
            return replace(self._attempt(self._kept, contender, attempt), peak_memory=0)
        process = _Process(self._settings.timeout)
        try:
            return self._attempt(process, contender, attempt)
        finally:
            process.close()

    def _attempt(self, process: _Process, contender: Contender, attempt: Attempt) -> Attempt:
        for job in self._warming(contender):
            outcome = process.run(job)
            if outcome.stage != "ran":
                return _failed(attempt, outcome, contender)
            attempt = replace(
                attempt,
                load=attempt.load + outcome.timing.load,
                warm_up=attempt.warm_up + outcome.timing.seconds,
                peak_memory=outcome.timing.peak_memory,
            )
        runs: list[PromptRun] = []
        for _ in range(_ROUNDS):
            for number, prompt in enumerate(self._prompts):
                outcome = process.run(self._job(contender, prompt))
                if outcome.stage != "ran":
                    return _failed(replace(attempt, runs=tuple(runs)), outcome, contender, f" (prompt {number + 1})")
                runs.append(PromptRun.of(number, outcome))
            if sum(run.decode for run in runs) >= _ENOUGH:
                break
        return replace(attempt, runs=tuple(runs), peak_memory=outcome.timing.peak_memory)

    def _job(self, contender: Contender, prompt: Prompt) -> GenerationJob:
        return GenerationJob(
            str(contender.model),
            prompt.text,
            draft=str(contender.draft) if contender.draft is not None else None,
            max_new_tokens=self._settings.max_new_tokens,
            assistant_tokens=contender.assistant_tokens or 1,
            device=self._settings.device,
            chat_template=prompt.chat_template,
            reuse=True,
            keep_others=self._settings.keep_loaded,
            properties=self._settings.properties,
            system=prompt.system,
            image_file=prompt.image,
            stateful=contender.stateful,
        )

    def _warming(self, contender: Contender) -> Iterator[GenerationJob]:
        """A short generation for the first prompt of each class: the device compiles kernels at first use."""
        first = {prompt.kind: prompt for prompt in reversed(self._prompts) if len(prompt.text) <= _LONG}
        for prompt in first.values() or self._prompts[:1]:
            job = self._job(contender, prompt)
            yield replace(job, max_new_tokens=min(_WARM, job.max_new_tokens))


class _Process:
    """A process that runs one job after another; one that ends is replaced for the next job."""

    def __init__(self, timeout: float) -> None:
        self._waiting: deque[GenerationJob] = deque()
        self._outcomes = iterate(self._jobs(), timeout=timeout)

    def _jobs(self) -> Iterator[GenerationJob]:
        while self._waiting:
            yield self._waiting.popleft()

    def run(self, job: GenerationJob) -> Outcome:
        self._waiting.append(job)
        return next(self._outcomes)

    def close(self) -> None:
        self._outcomes.close()


def _failed(attempt: Attempt, outcome: Outcome, contender: Contender, where: str = "") -> Attempt:
    status = HUNG if outcome.hung else CRASHED if outcome.stage == "crash" else REFUSED
    message = outcome.message.replace(str(contender.model), contender.shown_model)
    return replace(attempt, status=status, message=f"{message}{where}")
