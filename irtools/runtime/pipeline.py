"""The process that runs GenAI; started by :mod:`irtools.runtime.genai`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from irtools.runtime.child import Progress, serve
from irtools.runtime.exact import exact_hints
from irtools.runtime.jobs import GenerationJob, Outcome, Timing
from irtools.runtime.memory import peak_memory
from irtools.runtime.messages import short_message

__all__ = ["encode"]

_IMAGE_TAG = "<ov_genai_image_0>"
"""Place of the image in a prompt, for every model (GenAI's universal tag)."""


class _PipelineServer:
    """Runs jobs, and keeps the pipeline between those that allow it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], Any] = {}

    def __call__(self, request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
        job = GenerationJob(**{**request, "token_ids": tuple(request["token_ids"])})
        return asdict(self._execute(job, progress))

    def _execute(self, job: GenerationJob, progress: Progress) -> Outcome:
        import openvino_genai as genai

        began = time.monotonic()
        try:
            pipeline = self._pipeline(genai, job, progress)
        except (RuntimeError, ValueError, IndexError) as error:
            return Outcome("load", short_message(error))
        load = time.monotonic() - began
        tokens: list[int] = []
        progress("generating")
        began = time.monotonic()
        try:
            job = _with_system(pipeline, _with_text(pipeline, job))
            prompt_ids = () if job.image or job.image_file else _prompt_ids(pipeline, job)
            began, cpu = time.monotonic(), time.process_time()
            result = _generate(genai, pipeline, job, prompt_ids, _recorder(genai, tokens))
        except (RuntimeError, ValueError, IndexError) as error:
            return Outcome("generate", short_message(error))
        timing = _timing(result, load, time.monotonic() - began, time.process_time() - cpu)
        return _outcome(pipeline, result, tokens, prompt_ids, timing)

    def _pipeline(self, genai: Any, job: GenerationJob, progress: Progress) -> Any:
        properties = tuple(sorted(job.properties.items()))
        key = (job.model, job.draft, job.device, job.prefix_caching, job.stateful, job.exact, _batched(job), properties)
        if job.reuse and key in self._kept:
            return self._kept[key]
        if not job.keep_others:
            self._kept.clear()
        progress("loading")
        pipeline = _load(genai, job)
        if job.reuse:
            self._kept[key] = pipeline
        return pipeline


def _load(genai: Any, job: GenerationJob) -> Any:
    import openvino as ov

    hints = {**job.properties, **(exact_hints(ov.Core(), job.device) if job.exact else {})}
    if job.stateful:
        return genai.LLMPipeline(job.model, job.device, ATTENTION_BACKEND="SDPA", **hints)
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = job.prefix_caching
    scheduler.cache_size = 0  # grows as needed, so that the size can be reported
    scheduler.max_num_batched_tokens = _batched(job)
    properties: dict[str, Any] = dict(hints)
    if job.draft:
        properties["draft_model"] = genai.draft_model(job.draft, job.device, **hints)
    return genai.ContinuousBatchingPipeline(job.model, scheduler, job.device, properties)


def _batched(job: GenerationJob) -> int:
    """Tokens per pass: GenAI's default, or more if the candidates need it."""
    return max(256, job.assistant_tokens + 1)


def _with_text(pipeline: Any, job: GenerationJob) -> GenerationJob:
    """The job with decoded text instead of token ids, if ``as_text`` is set."""
    if not (job.as_text and job.token_ids):
        return job
    tokenizer = pipeline.get_tokenizer()
    text = tokenizer.decode(list(job.token_ids), skip_special_tokens=False)
    textual = replace(job, prompt=text, token_ids=(), chat_template=False)
    if not text or _prompt_ids(pipeline, textual) != job.token_ids:
        raise ValueError(f"no text is tokenized to the token ids {list(job.token_ids)}")
    return textual


def _prompt_ids(pipeline: Any, job: GenerationJob) -> tuple[int, ...]:
    if job.token_ids:
        return job.token_ids
    return encode(pipeline.get_tokenizer(), job.prompt, chat_template=job.chat_template)


def _with_system(pipeline: Any, job: GenerationJob) -> GenerationJob:
    """The job with the chat template applied to its system message and prompt, if it has a system message.

    With a draft, the pipeline of a vision-language export refuses a ``ChatHistory`` ("VisionRegistry is not
    available"; GenAI 2026.4.1), so that it gets text.
    """
    if not job.system:
        return job
    tokenizer = pipeline.get_tokenizer()
    if not tokenizer.chat_template:
        return replace(job, prompt=f"{job.system}\n\n{job.prompt}")
    content = f"{_IMAGE_TAG}{job.prompt}" if job.image or job.image_file else job.prompt
    return replace(job, prompt=_chat(tokenizer, content, job.system), chat_template=False)


def _chat(tokenizer: Any, prompt: str, system: str = "") -> str:
    messages = [{"role": "system", "content": system}] if system else []
    text: str = tokenizer.apply_chat_template(
        [*messages, {"role": "user", "content": prompt}], add_generation_prompt=True
    )
    return text


def encode(tokenizer: Any, prompt: str, *, chat_template: bool) -> tuple[int, ...]:
    """Tokenize a prompt as GenAI does. Runs in the worker."""
    if chat_template and tokenizer.chat_template:
        encoded = tokenizer.encode(_chat(tokenizer, prompt), add_special_tokens=False)
    else:
        encoded = tokenizer.encode(prompt)
    return tuple(int(token) for token in encoded.input_ids.data[0])


def _generate(genai: Any, pipeline: Any, job: GenerationJob, prompt_ids: tuple[int, ...], streamer: Any) -> Any:
    config = genai.GenerationConfig()
    config.max_new_tokens, config.do_sample, config.ignore_eos = job.max_new_tokens, False, True
    config.apply_chat_template = job.chat_template
    if job.draft:
        config.num_assistant_tokens = job.assistant_tokens
    if job.stateful:
        return pipeline.generate(_tensor([prompt_ids], "int64"), config, streamer)
    if job.token_ids:
        return pipeline.generate([_tensor([prompt_ids], "int64")], [config], streamer)[0]
    prompts = [job.prompt]
    if job.image or job.image_file:
        images = [[_read_image(job.image_file) if job.image_file else _image(job.image)]]
        return pipeline.generate(prompts, images=images, generation_config=[config], streamer=streamer)[0]
    return pipeline.generate(prompts, [config], streamer)[0]


def _tensor(values: Any, kind: str) -> Any:
    import numpy as np
    import openvino as ov

    return ov.Tensor(np.ascontiguousarray(values, kind))


def _image(side: int) -> Any:
    """A square image with a gradient in each colour."""
    import numpy as np

    rows, columns = np.mgrid[0:side, 0:side] * 255 // max(1, side - 1)
    return _tensor(np.stack([rows, columns, 255 - rows], axis=-1)[None], "uint8")


def _read_image(path: str) -> Any:
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return _tensor(np.asarray(image.convert("RGB"))[None], "uint8")


def _recorder(genai: Any, tokens: list[int]) -> Any:
    """A streamer that keeps the token ids, which cannot be recovered from text that is not valid UTF-8."""

    class Recorder(genai.StreamerBase):  # type: ignore[misc]
        def write(self, token: int | list[int]) -> Any:
            tokens.extend(token if isinstance(token, list) else [token])
            return genai.StreamingStatus.RUNNING

        def end(self) -> None:
            pass

    return Recorder()


def _timing(result: Any, load: float, seconds: float, cpu: float) -> Timing:
    perf, both = result.perf_metrics, getattr(result, "extended_perf_metrics", None)
    times = [time / 1000 for time in perf.raw_metrics.m_new_token_times]
    verify = draft = 0.0
    if both is not None:
        verify = sum(both.main_model_metrics.raw_metrics.m_durations[1:]) / 1e6
        draft = sum(both.draft_model_metrics.raw_metrics.m_durations) / 1e6
    return Timing(
        seconds=seconds,
        load=load,
        first_token=perf.get_ttft().mean / 1000,
        verify=verify,
        draft=draft,
        peak_memory=peak_memory(),
        cpu=cpu,
        passes=tuple(after - before for before, after in pairwise(times)),
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
        pass_tokens=tuple(result.perf_metrics.raw_metrics.m_batch_sizes),
        timing=timing,
    )


def _text(pipeline: Any, tokens: list[int]) -> str:
    try:
        text: str = pipeline.get_tokenizer().decode(tokens)
    except RuntimeError:  # no detokenizer
        return ""
    return text


if __name__ == "__main__":
    serve(_PipelineServer())
