"""Run OpenVINO GenAI on an export, in a process of its own.

The pipeline is native code: a faulty export can end the process, and GenAI's libraries can
not be unloaded. So a worker process takes jobs and answers (:mod:`irtools.runtime.lines`); when it
dies, the job it was at is reported as crashed and a new worker does the rest.
The main process needs neither OpenVINO nor GenAI.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from irtools.errors import UsageError
from irtools.runtime.lines import Child, Progress

__all__ = ["NOT_INSTALLED", "Job", "Outcome", "Timing", "available", "iterate", "run", "run_all"]

NOT_INSTALLED = "openvino-genai is not installed; install the extra `runtime` (in a checkout: pip install '.[runtime]')"


@dataclass(frozen=True, slots=True)
class Job:
    """What to run.

    Attributes
    ----------
    model : str
        Model directory.
    prompt : str
    token_ids : tuple of int
        Instead of a prompt.
    as_text : bool
        Give the token ids as the text that they stand for: the pipeline of a vision-language export takes text only.
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
    chat_template : bool
        Put the prompt through the export's chat template, as GenAI does by default.
    image : int
        Side of a made-up square image that goes with the prompt; 0 for none.
    exact : bool
        Give the device the hints of :data:`irtools.runtime.exact.EXACT`.
    reuse : bool
        Keep the pipeline for the next job, if that asks for the same one; the files must not change meanwhile.
    """

    model: str
    prompt: str = ""
    token_ids: tuple[int, ...] = ()
    as_text: bool = False
    draft: str | None = None
    max_new_tokens: int = 20
    assistant_tokens: int = 1
    prefix_caching: bool = False
    device: str = "CPU"
    stateful: bool = False
    chat_template: bool = True
    image: int = 0
    exact: bool = False
    reuse: bool = False

    @classmethod
    def plain(cls, model: str | Path, prompt: str = "", **options: Any) -> Job:
        """Generation without a draft."""
        return cls(str(model), prompt, **options)

    @classmethod
    def mtp(cls, model: str | Path, prompt: str = "", **options: Any) -> Job:
        """Generation with the MTP head of the same directory."""
        return cls(str(model), prompt, draft=str(model), **options)

    @classmethod
    def dflash(cls, model: str | Path, draft: str | Path, prompt: str = "", **options: Any) -> Job:
        """Generation with a draft from another directory; what kind it is, its rt_info says."""
        return cls(str(model), prompt, draft=str(draft), **options)


@dataclass(frozen=True, slots=True)
class Timing:
    """What differs from run to run; seconds and bytes.

    Attributes
    ----------
    seconds : float
        Of the whole generation, without load.
    load : float
        Of reading and compiling the models; 0 when the pipeline was there already.
    first_token : float
        From the call to the first token, the prompt's tokenization and run included (GenAI's ``get_ttft``).
    decode : float
        From the first token to the last (``m_new_token_times`` of GenAI's raw metrics).
    verify : float
        In the target after the run of the prompt (``m_durations`` of ``main_model_metrics``); with a draft only.
    draft : float
        In the draft (``m_durations`` of ``draft_model_metrics``).
    cache_bytes : int
        What GenAI has allocated for keys, values and other state of target and draft, in blocks; it keeps it.
    peak_memory : int
        Largest resident set of the process so far.
    """

    seconds: float = 0.0
    load: float = 0.0
    first_token: float = 0.0
    decode: float = 0.0
    verify: float = 0.0
    draft: float = 0.0
    cache_bytes: int = 0
    peak_memory: int = 0


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
    text : str
        The same as text; ``""`` without a detokenizer.
    prompt_ids : tuple of int
        The prompt as the model saw it; of an image only its tokens in the text are known: empty then.
    prompt_tokens : int
        Length of the prompt, images included.
    accepted, drafted : int
        Candidates that the target agreed with, and all: ``get_num_accepted_tokens`` and
        ``get_num_draft_tokens``. GenAI 2026.4 counts none for DFlash: there accepted are the tokens less
        the runs of the target, each of which yields one itself, and drafted is
        ``get_num_draft_processed_tokens``. 0 without a draft.
    steps : int
        Runs of the target, the prompt included.
    timing : Timing
    """

    stage: str
    message: str = ""
    tokens: tuple[int, ...] = ()
    text: str = ""
    prompt_ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    accepted: int = 0
    drafted: int = 0
    steps: int = 0
    timing: Timing = Timing()

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Outcome:
        """What ``asdict`` made of an outcome."""
        lists = {name: tuple(answer[name]) for name in ("tokens", "prompt_ids")}
        return cls(**{**answer, **lists, "timing": Timing(**answer["timing"])})


def available() -> bool:
    """Whether openvino-genai is installed."""
    from importlib.util import find_spec

    return find_spec("openvino_genai") is not None


def run(job: Job, *, timeout: float = 300.0) -> Outcome:
    """Run one job; see :func:`run_all`."""
    return run_all([job], timeout=timeout)[0]


def run_all(jobs: Iterable[Job], *, timeout: float = 300.0) -> list[Outcome]:
    """Run jobs one after the other; see :func:`iterate`."""
    return list(iterate(jobs, timeout=timeout))


def iterate(
    jobs: Iterable[Job], *, timeout: float = 300.0, progress: Progress | None = None
) -> Generator[Outcome, None, None]:
    """Run jobs one after the other, each when its outcome is asked for.

    Parameters
    ----------
    jobs : iterable of Job
    timeout : float
        Seconds without a sign of life after which a job's process is ended.
    progress : callable, optional
        Takes what is being done, as a clause.

    Yields
    ------
    Outcome
        In the order of the jobs. When the iterator is closed, the process ends.

    Raises
    ------
    UsageError
        openvino-genai is not installed.
    """
    if not available():
        raise UsageError(NOT_INSTALLED)
    worker: Child | None = None
    try:
        for job in jobs:
            worker = worker or Child("irtools.runtime.pipeline")
            reply = worker.ask(asdict(job), timeout=timeout, progress=progress)
            if reply.ended:
                worker.close()
                worker = None
            yield Outcome("crash", reply.ended) if reply.ended else Outcome.from_json(reply.value)
    finally:
        if worker is not None:
            worker.close()
