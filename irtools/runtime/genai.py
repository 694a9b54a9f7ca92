"""Run OpenVINO GenAI on an export, in a process of its own.

The pipeline is native code: a faulty export can end the process, and GenAI's libraries can
not be unloaded. So a worker process takes jobs and answers (:mod:`irtools.runtime.lines`); when it
dies, the job it was at is reported as crashed and a new worker does the rest.
The main process needs neither OpenVINO nor GenAI.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from irtools.errors import UsageError
from irtools.runtime.lines import Child, Progress, serve
from irtools.runtime.memory import peak_memory

__all__ = ["EXACT", "Job", "Outcome", "Timing", "available", "encode", "first_words", "iterate", "run", "run_all"]

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""Hints under which a device rounds as little as it can."""

_NO_GENAI = "openvino-genai is not installed; pip install 'ov-irtools[runtime]'"


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
        Give the device the hints of :data:`EXACT`.
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
        raise UsageError(_NO_GENAI)
    worker: Child | None = None
    try:
        for job in jobs:
            worker = worker or Child("irtools.runtime.genai")
            reply = worker.ask(asdict(job), timeout=timeout, progress=progress)
            if reply.ended:
                worker.close()
                worker = None
            yield Outcome("crash", reply.ended) if reply.ended else Outcome.from_json(reply.value)
    finally:
        if worker is not None:
            worker.close()


# -- in the worker ---------------------------------------------------------------------


class _Server:
    """Keeps the pipeline from one job to the next, if they say so."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Any, ...], Any] | None = None

    def __call__(self, request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        job = Job(**{**request, "token_ids": tuple(request["token_ids"])})
        return asdict(self._execute(job, progress))

    def _execute(self, job: Job, progress: Progress) -> Outcome:
        import openvino_genai as genai

        began = time.monotonic()
        try:
            pipeline = self._pipeline(genai, job, progress)
        except (RuntimeError, ValueError, IndexError) as error:
            return Outcome("load", first_words(error))
        load = time.monotonic() - began
        tokens: list[int] = []
        progress("generating")
        began = time.monotonic()
        try:
            job = _with_text(pipeline, job)
            prompt_ids = () if job.image else _prompt_ids(pipeline, job)
            began = time.monotonic()
            result = _generate(genai, pipeline, job, prompt_ids, _recorder(genai, tokens))
        except (RuntimeError, ValueError, IndexError) as error:
            return Outcome("generate", first_words(error))
        seconds = time.monotonic() - began
        return _outcome(pipeline, result, tokens, prompt_ids, _timing(pipeline, result, load, seconds))

    def _pipeline(self, genai: Any, job: Job, progress: Progress) -> Any:
        key = (job.model, job.draft, job.device, job.prefix_caching, job.stateful, job.exact)
        if job.reuse and self._kept is not None and self._kept[0] == key:
            return self._kept[1]
        self._kept = None
        progress("loading")
        pipeline = _load(genai, job)
        if job.reuse:
            self._kept = (key, pipeline)
        return pipeline


def _load(genai: Any, job: Job) -> Any:
    hints = EXACT if job.exact else {}
    if job.stateful:
        return genai.LLMPipeline(job.model, job.device, ATTENTION_BACKEND="SDPA", **hints)
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = job.prefix_caching
    scheduler.cache_size = 0  # as much as is needed, so that it can be told how much that is
    scheduler.max_num_batched_tokens = max(256, job.assistant_tokens + 1)
    properties: dict[str, Any] = dict(hints)
    if job.draft:
        properties["draft_model"] = genai.draft_model(job.draft, job.device, **hints)
    return genai.ContinuousBatchingPipeline(job.model, scheduler, job.device, properties)


def _with_text(pipeline: Any, job: Job) -> Job:
    """The job with text instead of token ids, if it asks for that."""
    if not (job.as_text and job.token_ids):
        return job
    tokenizer = pipeline.get_tokenizer()
    text = tokenizer.decode(list(job.token_ids), skip_special_tokens=False)
    found = replace(job, prompt=text, token_ids=(), chat_template=False)
    if not text or _prompt_ids(pipeline, found) != job.token_ids:
        raise ValueError(f"the token ids {list(job.token_ids)} are not what the tokenizer makes of any text")
    return found


def _prompt_ids(pipeline: Any, job: Job) -> tuple[int, ...]:
    """The token ids that GenAI makes of a prompt."""
    if job.token_ids:
        return job.token_ids
    return encode(pipeline.get_tokenizer(), job.prompt, chat_template=job.chat_template)


def encode(tokenizer: Any, prompt: str, *, chat_template: bool) -> tuple[int, ...]:
    """The token ids that GenAI makes of a prompt; in the worker."""
    if chat_template and tokenizer.chat_template:
        text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
        found = tokenizer.encode(text, add_special_tokens=False)
    else:
        found = tokenizer.encode(prompt)
    return tuple(int(token) for token in found.input_ids.data[0])


def _generate(genai: Any, pipeline: Any, job: Job, prompt_ids: tuple[int, ...], streamer: Any) -> Any:
    config = genai.GenerationConfig()
    config.max_new_tokens, config.do_sample, config.ignore_eos = job.max_new_tokens, False, True
    config.apply_chat_template = job.chat_template
    if job.draft:
        config.num_assistant_tokens = job.assistant_tokens
    if job.stateful:
        return pipeline.generate(_tensor([prompt_ids], "int64"), config, streamer)
    if job.token_ids:
        return pipeline.generate([_tensor([prompt_ids], "int64")], [config], streamer)[0]
    if job.image:
        images = [[_image(job.image)]]
        return pipeline.generate([job.prompt], images=images, generation_config=[config], streamer=streamer)[0]
    return pipeline.generate([job.prompt], [config], streamer)[0]


def _tensor(values: Any, kind: str) -> Any:
    import numpy as np
    import openvino as ov

    return ov.Tensor(np.ascontiguousarray(values, kind))


def _image(side: int) -> Any:
    """A square image with a gradient in each colour."""
    import numpy as np

    rows, columns = np.mgrid[0:side, 0:side] * 255 // max(1, side - 1)
    return _tensor(np.stack([rows, columns, 255 - rows], axis=-1)[None], "uint8")


def _recorder(genai: Any, tokens: list[int]) -> Any:
    """A streamer that keeps the ids: text does not tell them when it is no valid UTF-8."""

    class Recorder(genai.StreamerBase):  # type: ignore[misc]
        def write(self, token: int | list[int]) -> Any:
            tokens.extend(token if isinstance(token, list) else [token])
            return genai.StreamingStatus.RUNNING

        def end(self) -> None:
            pass

    return Recorder()


def _timing(pipeline: Any, result: Any, load: float, seconds: float) -> Timing:
    perf, both = result.perf_metrics, getattr(result, "extended_perf_metrics", None)
    times = list(perf.raw_metrics.m_new_token_times)  # milliseconds
    verify = draft = 0.0
    if both is not None:
        verify = sum(both.main_model_metrics.raw_metrics.m_durations[1:]) / 1e6
        draft = sum(both.draft_model_metrics.raw_metrics.m_durations) / 1e6
    return Timing(
        seconds=seconds,
        load=load,
        first_token=perf.get_ttft().mean / 1000,
        decode=(times[-1] - times[0]) / 1000 if times else 0.0,
        verify=verify,
        draft=draft,
        cache_bytes=pipeline.get_metrics().cache_size_in_bytes if hasattr(pipeline, "get_metrics") else 0,
        peak_memory=peak_memory(),
    )


def _outcome(pipeline: Any, result: Any, tokens: list[int], prompt_ids: tuple[int, ...], timing: Timing) -> Outcome:
    both = getattr(result, "extended_perf_metrics", None)
    steps, accepted, drafted = len(tokens), 0, 0
    if both is not None:
        steps = len(both.main_model_metrics.raw_metrics.m_durations)
        accepted, drafted = both.get_num_accepted_tokens(), both.get_num_draft_tokens()
        if not drafted:
            accepted, drafted = len(tokens) - steps, both.get_num_draft_processed_tokens()
    return Outcome(
        "ran",
        tokens=tuple(tokens),
        text=_text(pipeline, tokens),
        prompt_ids=prompt_ids,
        prompt_tokens=len(prompt_ids) or result.perf_metrics.get_num_input_tokens(),
        accepted=accepted,
        drafted=drafted,
        steps=steps,
        timing=timing,
    )


def _text(pipeline: Any, tokens: list[int]) -> str:
    try:
        text: str = pipeline.get_tokenizer().decode(tokens)
    except RuntimeError:  # there is no detokenizer
        return ""
    return text


def first_words(error: BaseException) -> str:
    """The runtime's message without the places in its own source."""
    lines = [line.strip() for line in str(error).splitlines()]
    wanted = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(wanted or lines)[:600]


if __name__ == "__main__":
    serve(_Server())
