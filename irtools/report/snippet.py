"""Python scripts that generate with an export in OpenVINO GenAI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from irtools.errors import ExportError, UsageError
from irtools.lint.finding import Condition, Strategy
from irtools.lint.pipelines import Pipeline
from irtools.model.decoding import DRAFTING
from irtools.model.directory import ModelDirectory
from irtools.model.draft import draft as draft_facts
from irtools.model.draft import most_assistant_tokens
from irtools.model.part import PartFacts
from irtools.prove.prompts import DEFAULT_PROMPTS
from irtools.prove.speculate import draft_setup

__all__ = ["BEST", "assistant_tokens", "chosen_strategy", "draft_directory", "snippet_text"]

BEST = "best"
"""In place of a strategy: the one of the draft if there is one, else the best that needs no other directory."""
_DRAFTED = {"mtp": 1}
"""Tokens to draft at a time: an MTP head is trained to predict one token."""
_MORE = 4
_NEW_TOKENS = 40
_CALLS = {
    "LLMPipeline": "pipeline.generate([prompt], config)",
    "VLMPipeline": "pipeline.generate(prompt, generation_config=config)",
    "ContinuousBatchingPipeline": "pipeline.generate([prompt], [config])[0]",
}
_ACCEPTED = ("metrics.get_num_accepted_tokens()", "metrics.get_num_draft_tokens()")
_DFLASH_ACCEPTED = (
    "result.perf_metrics.get_num_generated_tokens() - len(metrics.main_model_metrics.raw_metrics.m_durations)",
    "metrics.get_num_draft_processed_tokens()",
)
"""GenAI 2026.4 does not count accepted tokens for DFlash. Each target pass gives one token that is not a draft."""


def snippet_text(
    export: ModelDirectory,
    draft: ModelDirectory | None,
    strategies: Sequence[Strategy],
    pipelines: Sequence[Pipeline],
    *,
    wanted: str = BEST,
    prompt: str | None = None,
    device: str = "CPU",
) -> str:
    """Write a script that generates with a decoding strategy and prints the text and the number of accepted tokens.

    Its settings are the conditions of the strategy that GenAI's defaults do not meet.

    Parameters
    ----------
    strategies, pipelines
        Those of a verification of the export with the draft.
    wanted : str
        Name of a strategy, or ``best``.
    device : str
        OpenVINO device of the target and the draft.

    Raises
    ------
    ExportError
        The strategy is not available, or no pipeline class fits the export.
    UsageError
        The strategy needs a draft in a directory of its own, and there is none.
    """
    strategy = chosen_strategy(export, draft, strategies, wanted)
    fitting = next((one for one in pipelines if one.fits), None)
    if fitting is None:
        why = "; ".join(dict.fromkeys(one.reason for one in pipelines)) or "it cannot be verified"
        raise ExportError(f"no pipeline class of OpenVINO GenAI fits it: {why}", path=export.directory)
    stateful = not any(one.fits for one in pipelines if one.name == "ContinuousBatchingPipeline")
    where = draft_directory(export, draft, strategy)
    text = prompt if prompt is not None else DEFAULT_PROMPTS[0]
    tokens = assistant_tokens(strategy, draft)
    return "\n".join(_lines(export.directory, where, strategy, tokens, fitting.name, text, stateful, device))


def assistant_tokens(strategy: Strategy, draft: ModelDirectory | None) -> int:
    """Tokens to draft at a time, for a start; not more than a DFlash draft was trained for."""
    count = _DRAFTED.get(strategy.name, _MORE)
    if strategy.name != "dflash" or draft is None:
        return count
    most = most_assistant_tokens(draft_facts(PartFacts(draft.target)), draft)
    return min(count, most) if most is not None else count


def chosen_strategy(
    export: ModelDirectory,
    draft: ModelDirectory | None,
    strategies: Sequence[Strategy],
    wanted: str,
    *,
    substitute: bool = True,
) -> Strategy:
    """The decoding strategy of a name, if it is available.

    Parameters
    ----------
    substitute : bool
        True if plain decoding may take the place of ``best``. Otherwise that is the strategy which the files are for.

    Raises
    ------
    ExportError
        The strategy is not available.
    UsageError
        There is no strategy of this name.
    """
    by_name = {one.name: one for one in strategies}
    if not by_name:
        raise ExportError(
            "the decoding strategies cannot be determined", path=export.directory, hint="`irtools verify` says why"
        )
    name = wanted
    if wanted == BEST:
        name = _kind(export, draft)
        if not (name in by_name and by_name[name].available) and "mtp" in by_name and by_name["mtp"].available:
            name = "mtp"
        if substitute and draft is None and not (name in by_name and by_name[name].available):
            name = "plain"
    if name not in by_name:
        raise UsageError(f"there is no decoding strategy {name!r}", hint=f"The strategies are {', '.join(by_name)}.")
    chosen = by_name[name]
    if not chosen.available:
        hint = "`irtools verify` has all findings" if chosen.findings else None
        raise ExportError(f"{name} is not available: {chosen.reason}", path=export.directory, hint=hint)
    return chosen


def draft_directory(export: ModelDirectory, draft: ModelDirectory | None, strategy: Strategy) -> Path | None:
    """Directory for ``draft_model``; None for plain decoding."""
    if strategy.name not in DRAFTING:
        return None
    if strategy.name == "mtp" and export.mtp is not None:
        return export.directory
    if draft is None:
        raise UsageError(f"{strategy.name} needs a draft", hint="Give its directory with --draft DIR.")
    kind = _kind(export, draft)
    if kind != strategy.name != "mtp":
        raise UsageError(f"the draft is for {kind}, not for {strategy.name}", path=draft.directory)
    return draft.directory


def _kind(export: ModelDirectory, draft: ModelDirectory | None) -> str:
    """Strategy that a draft is for; without a draft, the strategy of the export alone."""
    own = draft_setup(export, draft).name
    return own if draft is None or own != "plain" else "draft"


def _lines(
    directory: Path,
    draft: Path | None,
    strategy: Strategy,
    tokens: int,
    pipeline: str,
    prompt: str,
    stateful: bool,
    device: str,
) -> Iterator[str]:
    unset = [one for one in strategy.conditions if not one.met]
    scheduler = [f"scheduler.{_name(one)} = {one.value}" for one in unset if one.setting.startswith("SchedulerConfig.")]
    backend = next((one.value for one in unset if one.setting == "ATTENTION_BACKEND"), "SDPA" if stateful else "")
    yield from ("import openvino_genai", "", f"model = {str(directory.absolute())!r}")
    if draft is not None:
        same = draft.resolve() == directory.resolve()
        yield "draft = model" if same else f"draft = {str(draft.absolute())!r}"
    yield from (f"prompt = {prompt!r}", "")
    if scheduler or pipeline == "ContinuousBatchingPipeline":
        yield from ("scheduler = openvino_genai.SchedulerConfig()", *scheduler)
    yield from _construction(pipeline, bool(scheduler), draft is not None, backend, device)
    yield from ("config = openvino_genai.GenerationConfig()", f"config.max_new_tokens = {_NEW_TOKENS}")
    if draft is not None:
        yield f"config.num_assistant_tokens = {tokens}"
    yield from ("", f"result = {_CALLS[pipeline]}")
    yield f"print(result.{'m_generation_ids' if pipeline == 'ContinuousBatchingPipeline' else 'texts'}[0])"
    if draft is not None:
        accepted, drafted = _DFLASH_ACCEPTED if strategy.name == "dflash" else _ACCEPTED
        yield "metrics = result.extended_perf_metrics"
        yield from (f"accepted = {accepted}", f"drafted = {drafted}")
        yield 'print(f"accepted {accepted} of {drafted} drafted tokens")'


def _construction(pipeline: str, scheduler: bool, draft: bool, backend: str, device: str) -> Iterator[str]:
    quoted = json.dumps(device)
    drafting = f"openvino_genai.draft_model(draft, {quoted})"
    if pipeline == "ContinuousBatchingPipeline":
        properties = f'{{"draft_model": {drafting}}}' if draft else "{}"
        arguments = ["model", "scheduler", quoted, properties]
    else:
        arguments = ["model", quoted]
        arguments += ["scheduler_config=scheduler"] if scheduler else []
        arguments += [f"draft_model={drafting}"] if draft else []
        arguments += [f'ATTENTION_BACKEND="{backend}"'] if backend else []
    yield f"pipeline = openvino_genai.{pipeline}("
    yield from (f"    {argument}," for argument in arguments)
    yield ")"


def _name(condition: Condition) -> str:
    return condition.setting.rpartition(".")[2]
