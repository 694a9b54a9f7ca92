"""OpenVINO GenAI drafts with the hidden states of annotated targets, and generates the same text."""

from __future__ import annotations

import shutil

import pytest

from irtools.export import open_export
from irtools.runtime.genai import available, iterate
from irtools.runtime.jobs import GenerationJob

PROMPT = "zqab"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="openvino-genai is not installed")]

# Targets with a tokenizer that fit the draft in qwen3_dflash (hidden size 32, three layers or more). qwen3 is left
# out: with random weights its sixth token is a tie, which rounding in the 8-bit cache decides.
TARGETS = ["falcon", "llama"]


@pytest.fixture(scope="module")
def outcomes(fixtures, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("targets")
    jobs, keys = [], []
    for name in TARGETS:
        plain = shutil.copytree(fixtures / name, scratch / name)
        export = open_export(plain)
        export.strip()
        export.save()
        annotated = open_export(shutil.copytree(plain, scratch / f"{name}_annotated"))
        annotated.annotate()
        annotated.save()
        draft = str(fixtures / "qwen3_dflash")
        jobs += [
            GenerationJob(str(plain), PROMPT),
            GenerationJob(str(plain), PROMPT, draft=draft, assistant_tokens=3),
            GenerationJob(str(annotated.directory), PROMPT, draft=draft, assistant_tokens=3),
        ]
        keys += [(name, "plain"), (name, "unannotated"), (name, "annotated")]
    return dict(zip(keys, iterate(jobs), strict=True))


@pytest.mark.parametrize("name", TARGETS)
def test_an_annotated_target_generates_with_the_draft_what_it_generates_without(name, outcomes):
    alone, drafted = outcomes[name, "plain"], outcomes[name, "annotated"]
    assert alone.stage == "ran"
    assert drafted.stage == "ran", drafted
    assert drafted.tokens == alone.tokens
    assert len(alone.tokens) == 20


def test_falcon_without_annotation_is_refused(outcomes):
    refused = outcomes["falcon", "unannotated"]
    assert refused.stage == "load"
    assert "fallback" in refused.message
