"""Conditions of the decoding strategies, each violated in OpenVINO GenAI; pipeline classes that GenAI accepts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import eagle3
import openvino as ov
import pytest

import irtools
from irtools.lint.conditions import Requirement, conditions, violated_by
from irtools.lint.context import Context
from irtools.registry import collect
from irtools.runtime.messages import pasted_message

DEFAULTS = {"draft": None, "properties": {}, "config": {}, "prompts": ["zqab"], "stream": False, "adapters": False}
VIOLATIONS: dict[str, dict[str, Any]] = {
    "draft-directory": {"draft": None},
    "assistant-tokens": {"config": {"num_assistant_tokens": 0}},
    "greedy": {"config": {"do_sample": True}},
    "no-beam-search": {"config": {"num_beams": 2}},
    "one-sequence": {"config": {"num_return_sequences": 2}},
    "confidence-threshold": {"config": {"assistant_confidence_threshold": 0.4}},
    "prefix-caching": {"scheduler": {"enable_prefix_caching": True}},
    "batched-tokens": {"scheduler": {"max_num_batched_tokens": 2}, "config": {"num_assistant_tokens": 5}},
    "paged-attention": {"scheduler": None, "properties": {"ATTENTION_BACKEND": "SDPA"}},
    "prompt-length": {"prompts": ["z"]},
    "one-prompt": {"pipeline": "ContinuousBatchingPipeline", "prompts": ["zqab", "abcd"], "stream": True},
    "no-prompt-lookup": {"config": {"max_ngram_size": 3}},
    "no-adapters": {"adapters": True},
}
"""Changes of a run that violate a condition, by its id."""


def run_genai(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run GenAI in a process of its own; the last outcome is missing if it crashed."""
    command = [sys.executable, str(Path(__file__).with_name("enabling.py")), json.dumps(runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def without_linear_attention(source: Path, directory: Path) -> None:
    """Copy ``qwen3_5_vl_trained`` with the one layer that has a KV cache."""
    name = "openvino_language_model.xml"
    model = ov.Core().read_model(source / name)
    named = {node.get_friendly_name(): node for node in model.get_ordered_ops()}
    layers = irtools.open_export(source).locate().layers
    types = json.loads((source / "config.json").read_text())["text_config"]["layer_types"]
    assert types[-1] == "full_attention"
    assert set(types[:-1]) == {"linear_attention"}
    (embeddings,) = (p for p in model.get_parameters() if "inputs_embeds" in p.output(0).get_names())
    for reader in named[layers[-2].locator.producer].output(0).get_target_inputs():
        reader.replace_source_output(embeddings.output(0))
    sinks = [
        sink for sink in model.get_sinks() if ".key." in sink.get_variable_id() or ".value." in sink.get_variable_id()
    ]
    made = ov.Model(model.get_results(), sinks, model.get_parameters(), "attention")
    shutil.copytree(source, directory, ignore=shutil.ignore_patterns("openvino_language_model.*"))
    ov.save_model(made, directory / name, compress_to_fp16=False)


def make_pair(case: str, fixtures: Path, folder: Path) -> tuple[Path, Path, str, str]:
    """Target, draft, decoding strategy and pipeline class."""
    if case == "mtp":
        return fixtures / "qwen3_5_vl_trained", fixtures / "qwen3_5_vl_trained", "mtp", "VLMPipeline"
    if case == "mtp with attention only":
        without_linear_attention(fixtures / "qwen3_5_vl_trained", folder / "vl")
        return folder / "vl", folder / "vl", "mtp", "VLMPipeline"
    if case == "dflash":
        return fixtures / "qwen3", fixtures / "qwen3_dflash", "dflash", "LLMPipeline"
    if case == "eagle3":
        eagle3.write(shutil.copytree(fixtures / "llama", folder / "draft"))
        return fixtures / "llama", folder / "draft", "eagle3", "LLMPipeline"
    return fixtures / "llama", fixtures / "llama", "draft", "LLMPipeline"


@pytest.mark.parametrize("strategy", ["mtp", "dflash"])
def test_what_must_be_set_for_linear_attention_is_named_beside_the_draft(strategy: str, fixtures: Path) -> None:
    """GenAI refuses prefix caching with such a target, as the slow tests show."""
    found = {one.name: one for one in irtools.open_export(fixtures / "qwen3_5_vl_trained").verify().strategies}
    assert found[strategy].available
    assert found[strategy].reason.endswith("with enable_prefix_caching=False")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["mtp", "mtp with attention only", "dflash", "eagle3", "draft"])
def test_genai_refuses_or_ignores_what_violates_a_condition(case: str, fixtures: Path, tmp_path: Path) -> None:
    target, draft, strategy, pipeline = make_pair(case, fixtures, tmp_path)
    found = {one.id: one for one in conditions(Context(irtools.open_export(target)), strategy)}
    scheduler = {"enable_prefix_caching": False}
    sound: dict[str, Any] = {
        **DEFAULTS,
        "model": str(target),
        "draft": str(draft),
        "pipeline": pipeline,
        "scheduler": scheduler,
        "config": {"num_assistant_tokens": 1},
    }
    runs = [sound]
    for name in found:
        change = dict(VIOLATIONS[name])
        if name == "greedy" and strategy == "eagle3":
            change["stream"] = True
        config = {**sound["config"], **change.pop("config", {})}
        limits = change.pop("scheduler", {})
        runs.append(
            {**sound, **change, "config": config, "scheduler": None if limits is None else {**scheduler, **limits}}
        )

    first, *outcomes = run_genai(runs)

    assert first["stage"] == "ran"
    assert first["drafted"] > 0
    assert len(outcomes) == len(found)
    for (name, condition), outcome in zip(found.items(), outcomes, strict=True):
        assert outcome["stage"] == (condition.stage or "ran"), (name, outcome)
        if condition.stage:
            violated = [(one.strategy, one.condition.id) for one in violated_by(pasted_message(outcome["message"]))]
            assert (strategy, name) in violated, (name, outcome["message"])
    silent = {name: outcome for (name, one), outcome in zip(found.items(), outcomes, strict=True) if not one.stage}
    assert not silent["draft-directory"]["drafting"]
    if strategy in ("dflash", "draft"):  # the default of GenAI is 5
        (five,) = run_genai([{**sound, "config": {"num_assistant_tokens": 5}}])
        assert silent["assistant-tokens"]["drafted"] == five["drafted"] > first["drafted"] * (strategy == "dflash")
    if strategy == "eagle3":
        assert silent["assistant-tokens"]["drafted"] == 0
    if strategy == "draft":
        assert silent["batched-tokens"]["text"] != first["text"] == silent["assistant-tokens"]["text"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["mtp with attention only", "eagle3", "draft"])
def test_a_condition_that_an_export_does_not_need_may_be_violated(case: str, fixtures: Path, tmp_path: Path) -> None:
    target, draft, strategy, pipeline = make_pair(case, fixtures, tmp_path)
    assert "prefix-caching" not in {one.id for one in conditions(Context(irtools.open_export(target)), strategy)}
    run = {**DEFAULTS, "model": str(target), "draft": str(draft), "pipeline": pipeline, "scheduler": None}
    (outcome,) = run_genai([{**run, "config": {"num_assistant_tokens": 1}}])  # the default is prefix caching
    assert outcome["stage"] == "ran"
    assert outcome["drafted"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("case", ["mtp", "dflash", "eagle3", "draft"])
def test_genai_reads_generation_config_only_with_a_dflash_draft(case: str, fixtures: Path, tmp_path: Path) -> None:
    source, draft, strategy, pipeline = make_pair(case, fixtures, tmp_path)
    target = shutil.copytree(source, tmp_path / "target")
    draft = target if draft == source else draft
    (target / "generation_config.json").write_text('{"do_sample": true, "num_assistant_tokens": 2}')
    script = (
        "import openvino_genai as genai\n"
        f"draft = genai.draft_model({str(draft)!r}, 'CPU')\n"
        "scheduler = genai.SchedulerConfig()\n"
        f"pipe = genai.{pipeline}({str(target)!r}, 'CPU', scheduler_config=scheduler, draft_model=draft)\n"
        "config = pipe.get_generation_config()\n"
        "print(config.do_sample, config.num_assistant_tokens)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    found = {one.id: one for one in conditions(Context(irtools.open_export(target)), strategy)}
    assert done.stdout.split() == (["True", "2"] if strategy == "dflash" else ["False", "None"])
    assert found["assistant-tokens"].met == (strategy == "dflash")
    assert "greedy" not in found or found["greedy"].met == (strategy != "dflash")


def test_generation_config_says_what_must_still_be_set(export_copy: Callable[..., Path]) -> None:
    path = export_copy("qwen3")

    def unset(content: str) -> dict[str, str]:
        (path / "generation_config.json").write_text(content)
        found = conditions(Context(irtools.open_export(path)), "dflash")
        return {one.id: one.default for one in found if not one.met}

    assert list(unset("{}")) == list(unset("[")) == ["draft-directory", "assistant-tokens", "prefix-caching"]
    sampled = unset('{"do_sample": true, "num_assistant_tokens": 2, "num_beams": null}')
    assert list(sampled) == ["draft-directory", "greedy", "prefix-caching"]
    assert sampled["greedy"] == "True (generation_config.json)"


def test_only_available_strategies_have_conditions(fixtures: Path) -> None:
    strategies = {one.name: one for one in irtools.open_export(fixtures / "llama").verify().strategies}
    assert not strategies["mtp"].conditions
    assert not strategies["plain"].conditions
    assert {one.id for one in strategies["dflash"].conditions} == VIOLATIONS.keys() - {"prompt-length"}


def test_an_id_is_unique_for_an_export_and_a_strategy(fixtures: Path) -> None:
    for name in ("llama", "qwen3_5_vl_trained", "gemma4_vl"):
        context = Context(irtools.open_export(fixtures / name))
        for strategy in {one.strategy for one in collect(Requirement)}:
            ids = [one.id for one in conditions(context, strategy)]
            assert len(ids) == len(set(ids))
            assert set(ids) <= VIOLATIONS.keys()


CLASSES = {
    "llama": {"LLMPipeline", "ContinuousBatchingPipeline"},
    "qwen3_5_vl_trained": {"VLMPipeline", "ContinuousBatchingPipeline"},
    "renamed": {"ContinuousBatchingPipeline"},
    "qwen3_next": {"LLMPipeline", "ContinuousBatchingPipeline"},
    "gpt2_eager": {"LLMPipeline"},
    "llama_stateless": set(),
    "qwen3_dflash": set(),
}


def make_export(name: str, fixtures: Path, folder: Path) -> Path:
    """An export with a tokenizer."""
    source = {"renamed": "qwen3_5_vl_trained"}.get(name, name)
    found = fixtures / source if (fixtures / source).exists() else fixtures / "zoo" / source
    copy = shutil.copytree(found, folder / name)
    if name == "renamed":
        for suffix in (".xml", ".bin"):
            (copy / f"openvino_language_model{suffix}").rename(copy / f"openvino_model{suffix}")
    if not (copy / "openvino_tokenizer.xml").exists():
        for file in (fixtures / "llama").glob("openvino_*tokenizer.*"):
            shutil.copy(file, copy)
    return copy


@pytest.mark.parametrize("name", CLASSES)
def test_the_pipeline_classes_are_told(name: str, fixtures: Path, tmp_path: Path) -> None:
    pipelines = irtools.open_export(make_export(name, fixtures, tmp_path)).verify().pipelines
    assert {one.name for one in pipelines if one.fits} == CLASSES[name]
    assert [one for one in pipelines if one.fits == bool(one.reason)] == []
    assert [one.fits for one in pipelines] == sorted((one.fits for one in pipelines), reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_genai_runs_an_export_with_the_classes_that_fit(name: str, fixtures: Path, tmp_path: Path) -> None:
    path = make_export(name, fixtures, tmp_path)
    ran = set()
    for pipeline in ("LLMPipeline", "VLMPipeline", "ContinuousBatchingPipeline"):
        outcomes = run_genai([{**DEFAULTS, "model": str(path), "pipeline": pipeline, "scheduler": None}])
        ran |= {pipeline for outcome in outcomes if outcome["stage"] == "ran"}
    assert ran == CLASSES[name]
