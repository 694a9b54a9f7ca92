"""Run pipelines of the GenAI release of the interpreter that runs this script, and print what they answer.

``python pipelines.py`` reads a JSON list of settings on stdin: each is one pipeline and the calls of it (see
``test_grafts.py``). It prints one JSON list a line, with a dictionary for each call: ``texts``, ``accepted`` and
``drafted``, or ``error``. It imports nothing of irtools, because older releases have an environment of their own.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai


def load(directory: str, kind: str, draft: str | None, scheduler: dict[str, Any], properties: dict[str, Any]) -> Any:
    """One pipeline; ``kind`` is ``batching``, ``visual`` or ``stateful``."""
    properties = dict(properties)
    if kind == "stateful":
        pipeline = genai.VLMPipeline if (ov_part(directory)) else genai.LLMPipeline
        return pipeline(directory, "CPU", ATTENTION_BACKEND="SDPA", **properties)
    if draft:
        properties["draft_model"] = genai.draft_model(draft, "CPU", **properties)
    settings = genai.SchedulerConfig()
    settings.enable_prefix_caching = False
    for name, value in scheduler.items():
        setattr(settings, name, value)
    if kind == "visual":
        return genai.VLMPipeline(directory, "CPU", scheduler_config=settings, **properties)
    return genai.ContinuousBatchingPipeline(directory, settings, "CPU", properties)


def ov_part(directory: str) -> bool:
    """True for a vision-language export."""
    from pathlib import Path

    return (Path(directory) / "openvino_text_embeddings_model.xml").exists()


def image(side: int) -> Any:
    """A square image with a gradient in each colour."""
    rows, columns = np.mgrid[0:side, 0:side] * 255 // max(1, side - 1)
    return ov.Tensor(np.ascontiguousarray(np.stack([rows, columns, 255 - rows], axis=-1)[None], "uint8"))


def call(
    pipeline: Any,
    prompts: list[str],
    *,
    side: int = 0,
    chat: bool = False,
    template: bool = False,
    tokens: int = 12,
    **options: Any,
) -> dict[str, Any]:
    """Generate; in a chat, the prompts are its turns."""
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.apply_chat_template = tokens, True, template
    for name, value in options.items():
        setattr(config, name, value)
    images = [image(side)] if side else []
    if isinstance(pipeline, genai.ContinuousBatchingPipeline):
        more = {"images": [images] * len(prompts)} if side else {}
        if more:
            results = pipeline.generate(prompts, generation_config=[config] * len(prompts), **more)
        else:
            results = pipeline.generate(prompts, [config] * len(prompts))
    else:
        if chat:
            pipeline.start_chat()
        more = {"images": images} if side else {}
        results = [pipeline.generate(prompt, generation_config=config, **more) for prompt in prompts]
        if chat:
            pipeline.finish_chat()
    metrics = [getattr(result, "extended_perf_metrics", None) for result in results]
    return {
        "texts": [text(result) for result in results],
        "accepted": sum(one.get_num_accepted_tokens() for one in metrics if one is not None),
        "drafted": sum(one.get_num_draft_tokens() for one in metrics if one is not None),
    }


def text(result: Any) -> list[str]:
    """The texts of one request."""
    return [str(result)] if isinstance(result, str) else list(getattr(result, "texts", None) or result.m_generation_ids)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers to the calls of one pipeline."""
    calls = setting.pop("calls")
    try:
        pipeline = load(**setting)
    except (RuntimeError, ValueError) as error:
        return [{"error": f"load: {error}"}] * len(calls)
    answers = []
    for options in calls:
        try:
            answers.append(call(pipeline, **options))
        except (RuntimeError, ValueError, IndexError) as error:
            answers.append({"error": f"generate: {error}"})
    return answers


if __name__ == "__main__":
    for setting in json.load(sys.stdin):
        print(json.dumps(run(setting)), flush=True)
