"""Run GenAI with given settings: ``python enabling.py '[{...}, ...]'`` prints each outcome as a line of JSON.

A run gives ``model``, ``draft``, ``pipeline``, ``scheduler`` (null for none), ``properties``, ``config``, ``prompts``,
``stream`` and ``adapters``. Successive runs with the same pipeline share it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import openvino_genai as genai


def pipeline(run: dict[str, Any]) -> Any:
    properties = dict(run["properties"])
    if run["draft"]:
        properties["draft_model"] = genai.draft_model(run["draft"], "CPU")
    scheduler = None
    if run["scheduler"] is not None:
        scheduler = genai.SchedulerConfig()
        for name, value in run["scheduler"].items():
            setattr(scheduler, name, value)
    if run["pipeline"] == "ContinuousBatchingPipeline":
        return genai.ContinuousBatchingPipeline(run["model"], scheduler or genai.SchedulerConfig(), "CPU", properties)
    if scheduler is not None:
        properties["scheduler_config"] = scheduler
    return getattr(genai, run["pipeline"])(run["model"], "CPU", **properties)


def generate(pipe: Any, run: dict[str, Any]) -> dict[str, Any]:
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.apply_chat_template = 20, True, False
    for name, value in run["config"].items():
        setattr(config, name, value)
    if run["adapters"]:
        config.adapters = genai.AdapterConfig()
    streamer = {"streamer": lambda text: genai.StreamingStatus.RUNNING} if run["stream"] else {}
    prompts = run["prompts"]
    if run["pipeline"] == "VLMPipeline" and len(prompts) == 1:
        result = pipe.generate(prompts[0], generation_config=config, **streamer)
    elif run["pipeline"] == "LLMPipeline":
        result = pipe.generate(prompts, config, **streamer)
    else:
        result = pipe.generate(prompts, [config] * len(prompts), **streamer)[0]
    both = getattr(result, "extended_perf_metrics", None)
    texts = result.m_generation_ids if hasattr(result, "m_generation_ids") else result.texts
    return {
        "stage": "ran",
        "message": "",
        "text": texts[0],
        "drafting": both is not None,
        "drafted": both.get_num_draft_processed_tokens() if both is not None else 0,
    }


def main() -> None:
    kept: tuple[str, Any] = "", None
    for run in json.loads(sys.argv[1]):
        key = json.dumps([run[name] for name in ("model", "draft", "pipeline", "scheduler", "properties")])
        stage = "load"
        try:
            if kept[0] != key:
                kept = "", None
                kept = key, pipeline(run)
            stage = "generate"
            outcome = generate(kept[1], run)
        except RuntimeError as error:
            outcome = {"stage": stage, "message": str(error)}
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
