"""Behavior of GenAI on the seeded defects, as the rules describe it.

One worker process runs all exports of a test in turn, without randomness.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rules"))

import defects_dfl
import defects_dfl_ordinary
import defects_eagle3
import defects_hid
import defects_mtp
import defects_run
import eagle3
from defects import Defect

from irtools.runtime import genai
from irtools.runtime.jobs import GenerationJob

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")]

PROMPT = "zqab"
LOAD, GENERATE, SILENT = "refused at load", "fails while generating", "silent"
COLLAPSED, FULL, WRONG_TEXT = "silent, few accepted", "silent, all accepted", "silent, other text"

# Behavior of OpenVINO GenAI 2026.4.1, each reproduced by hand before the rule was written
MTP = {
    "clean": FULL,
    "mtp-hidden-states-tensor": GENERATE,
    "mtp-hidden-states-friendly": FULL,
    "mtp-inputs-embeds-tensor": LOAD,
    "mtp-inputs-embeds-friendly": LOAD,
    "mtp-position-ids-tensor": GENERATE,
    "mtp-position-ids-friendly": GENERATE,
    "mtp-position-ids-both": SILENT,
    "mtp-attention-mask-renamed": FULL,
    "mtp-beam-idx-renamed": FULL,
    "mtp-beam-idx-removed": LOAD,
    "mtp-output-renamed": LOAD,
    "mtp-output-own-name-only": GENERATE,
    "mtp-language-model-in-place": LOAD,
    "mtp-own-logits": COLLAPSED,
    "mtp-own-logits-of-target": FULL,
    "mtp-own-logits-first-rows": FULL,
    "mtp-own-logits-f16": FULL,
    "mtp-own-logits-scattered": SILENT,
    "mtp-own-logits-i8": FULL,
    "mtp-own-logits-zero": COLLAPSED,
    "mtp-own-logits-random": COLLAPSED,
    "mtp-own-logits-shifted": COLLAPSED,
    "mtp-own-logits-too-many": SILENT,
    "mtp-position-ids-i32": GENERATE,
    "mtp-inputs-f16": GENERATE,
    "mtp-output-f16": LOAD,
    "mtp-attention-mask-f32": FULL,
    "mtp-static-batch": GENERATE,
    "mtp-hidden-width": LOAD,
    "mtp-stateless": LOAD,
    "mtp-assign-missing": FULL,
    "mtp-state-shared": FULL,
    "mtp-unfused": LOAD,
    "mtp-converted-keys": LOAD,
    "mtp-concat-swapped": COLLAPSED,
    "mtp-input-names-swapped": COLLAPSED,
    "mtp-hidden-state-unused": COLLAPSED,
    "mtp-embeddings-unused": COLLAPSED,
    "mtp-hidden-norm-missing": SILENT,
    "mtp-output-before-norm": SILENT,
    "mtp-logits-scaled": LOAD,
    "mtp-logits-converted": LOAD,
    "mtp-logits-renamed": LOAD,
    "mtp-exposed-hidden-state": SILENT,
    "mtp-config-zero": FULL,
    "mtp-config-three": FULL,
    "mtp-not-exported": LOAD,
    "mtp-without-text-embeddings": LOAD,
    "mtp-in-text-only": LOAD,
    "mtp-self-contained": LOAD,
}

DFLASH = {
    "clean": SILENT,
    "dfl-mode-missing": LOAD,
    "dfl-mode-false": LOAD,
    "dfl-mode-maybe": LOAD,
    "dfl-mask-missing": LOAD,
    "dfl-mask-abc": LOAD,
    "dfl-mask-with-rest": SILENT,
    "dfl-mask-negative": SILENT,
    "dfl-mask-too-big": SILENT,
    "dfl-ids-missing": LOAD,
    "dfl-ids-empty": LOAD,
    "dfl-ids-spaces": LOAD,
    "dfl-ids-brackets": LOAD,
    "dfl-ids-blank-item": LOAD,
    "dfl-ids-twice": LOAD,
    "dfl-ids-negative": LOAD,
    "dfl-ids-out-of-range": LOAD,
    "dfl-two-ids": GENERATE,
    "dfl-hidden-states-renamed": LOAD,
    "dfl-position-ids-renamed": LOAD,
    "dfl-attention-mask-renamed": LOAD,
    "dfl-inputs-embeds-renamed": LOAD,
    "dfl-beam-idx-renamed": GENERATE,
    "dfl-both-inputs": LOAD,
    "dfl-both-outputs": LOAD,
    "dfl-output-renamed": LOAD,
    "dfl-hidden-states-rank-2": LOAD,
    "dfl-hidden-states-batch-2": LOAD,
    "dfl-position-ids-i32": GENERATE,
    "dfl-mask-f32": GENERATE,
    "dfl-beam-idx-i64": GENERATE,
    "dfl-target-twice-as-wide": LOAD,
    "dfl-logits-scaled": LOAD,
    "dfl-embedding-renamed": LOAD,
    "dfl-embedding-of-gpt2": LOAD,
    "dfl-draft-of-ids-for-vl": LOAD,
    "dfl-nothing-to-guess": LOAD,
    "dfl-scopes-renamed": LOAD,
    "dfl-guess-without-layer-1": LOAD,
    "dfl-guess-inside-layer-1": SILENT,
    "dfl-head-in-draft": LOAD,
    "dfl-hidden-states-unused": LOAD,
    "dfl-output-before-norm": SILENT,
    "dfl-no-model-in-draft": LOAD,
    "dfl-taken-output": GENERATE,
    "dfl-own-head-of-fewer-tokens": SILENT,
    "dfl-own-head-of-more-tokens": SILENT,
    "dfl-block-size-in-rt-info": SILENT,
    "dfl-selector": SILENT,
    "hid-gone-where-the-draft-reads": LOAD,
    "hid-gone-where-no-draft-reads": SILENT,
    "hid-not-json": LOAD,
    "hid-no-layers": LOAD,
    "hid-empty": LOAD,
    "hid-lone-surrogate": LOAD,
    "hid-early-form": LOAD,
    "hid-gap": LOAD,
    "hid-last-missing": SILENT,
    "hid-padded-key": LOAD,
    "hid-extra-layer": SILENT,
    "hid-index-negative": LOAD,
    "hid-index-float": LOAD,
    "hid-index-string": LOAD,
    "hid-index-bool": LOAD,
    "hid-index-minus-zero": LOAD,
    "hid-index-huge": LOAD,
    "hid-producer-unknown": LOAD,
    "hid-producer-dead": LOAD,
    "hid-producer-named-twice": LOAD,
    "hid-index-one": LOAD,
    "hid-rank-4": LOAD,
    "hid-other-width": GENERATE,
    "hid-shared": LOAD,
    "hid-below-another-key": SILENT,
    "hid-twice": SILENT,
    "hid-shifted": SILENT,
    "hid-two-exchanged": SILENT,
    "hid-after-attention": SILENT,
    "hid-before-final-norm": SILENT,
    "run-one-layer-unfused": LOAD,
    "run-state-of-its-own": LOAD,
}

ORDINARY = {
    "clean": SILENT,
    "ord-no-tokenizer": LOAD,
    "ord-tokenizer-without-xml": LOAD,
    "ord-other-family": LOAD,
    "ord-bos-in-config": LOAD,
    "ord-eos": LOAD,
    "ord-pad": LOAD,
    "ord-no-eos": LOAD,
    "ord-eos-of-added-tokens": LOAD,
    "ord-bos-text": LOAD,
    "ord-eos-word": LOAD,
    "ord-eos-without-value": LOAD,
    "ord-token-object": LOAD,
    "ord-fewer-tokens": LOAD,
    "ord-fewer-tokens-in-target": LOAD,
    "ord-other-letters": SILENT,
    "ord-more-logits": SILENT,
    "ord-more-logits-in-target": SILENT,
    "ord-stateless": LOAD,
    "ord-unfused": LOAD,
    "ord-one-layer-unfused": LOAD,
    "ord-state-of-its-own": SILENT,
    "ord-keys-converted": LOAD,
    "ord-logits-renamed": GENERATE,
    "ord-logits-f16": GENERATE,
    "ord-ids-i32": GENERATE,
    "ord-ids-renamed": LOAD,
    "ord-positions-renamed": SILENT,
    "ord-generation-config": LOAD,
    "ord-linear-attention-lfm2_moe": GENERATE,
    "ord-linear-attention-qwen3_next": GENERATE,
    "dfl-plain-draft-for-vl": LOAD,
    "dfl-plain-draft-for-gemma": LOAD,
}

EAGLE3 = {
    "clean": SILENT,
    "eagle3-mode-missing": GENERATE,
    "eagle3-mode-false": GENERATE,
    "eagle3-mode-maybe": LOAD,
    "eagle3-layers-with-commas": LOAD,
    "eagle3-layers-in-brackets": LOAD,
    "eagle3-layers-with-a-space-after": LOAD,
    "eagle3-layers-of-two": LOAD,
    "eagle3-layers-of-four": LOAD,
    "eagle3-layers-empty": LOAD,
    "eagle3-layers-twice": LOAD,
    "eagle3-layers-out-of-range": LOAD,
    "eagle3-layers-negative": LOAD,
    "eagle3-without-layers": LOAD,
    "eagle3-unfound": GENERATE,
    "eagle3-unfound-layer": LOAD,
    "eagle3-hidden-states-tensor": GENERATE,
    "eagle3-hidden-states-friendly": LOAD,
    "eagle3-input-ids-tensor": LOAD,
    "eagle3-input-ids-friendly": GENERATE,
    "eagle3-position-ids-tensor": GENERATE,
    "eagle3-logits-renamed": GENERATE,
    "eagle3-fixed-width": LOAD,
    "eagle3-batch-1": GENERATE,
    "eagle3-position-ids-i32": GENERATE,
    "eagle3-converted": LOAD,
    "eagle3-projection-of-another-input": LOAD,
    "eagle3-not-transposed": LOAD,
    "eagle3-other-width": LOAD,
    "eagle3-scope-renamed": GENERATE,
    "eagle3-operands-swapped": GENERATE,
    "eagle3-d2t-i32": GENERATE,
    "eagle3-d2t-beyond": SILENT,
    "eagle3-d2t-negative": SILENT,
    "eagle3-d2t-unnamed": SILENT,
    "eagle3-d2t-lost": SILENT,
    "eagle3-fewer-tokens": SILENT,
    "eagle3-stateless": LOAD,
    "eagle3-unfused": LOAD,
    "eagle3-taken-output": SILENT,
    "eagle3-later-entry": SILENT,
}

TARGET = {
    "clean": SILENT,
    "run-logits-renamed": GENERATE,
    "run-stateless": LOAD,
    "run-unfused": LOAD,
    "run-state-of-its-own": WRONG_TEXT,
    "run-one-layer-unfused": LOAD,
    "run-ids-i32": GENERATE,
    "run-logits-f16": GENERATE,
    "run-text-positions-of-rank-3": LOAD,
    "run-text-positions-of-rank-1": LOAD,
    "run-mask-i32": SILENT,
    "run-fixed-length": SILENT,
    "run-embeddings-f16": GENERATE,
    "run-positions-of-rank-2": GENERATE,
    "run-keys-converted": LOAD,
    "run-values-converted": LOAD,
    "run-input-ids-friendly": GENERATE,
    "run-position-ids-friendly": GENERATE,
    "run-mask-friendly": SILENT,
    "run-position-ids-tensor": GENERATE,
    "run-position-ids-both": WRONG_TEXT,
    "run-unused-input": SILENT,
    "run-input-ids-tensor": LOAD,
    "run-beam-idx-removed": LOAD,
    "run-beam-idx-renamed": SILENT,
    "run-mask-renamed": SILENT,
    "run-logits-scaled": SILENT,
    "run-embedding-renamed": SILENT,
}

STATEFUL = {
    "clean": SILENT,
    "run-unfused-falcon": SILENT,
    "run-keys-converted": SILENT,
    "run-input-ids-friendly": SILENT,
    "run-position-ids-both": GENERATE,
    "run-unused-input": GENERATE,
    "run-beam-idx-renamed": GENERATE,
    "run-mask-renamed": GENERATE,
    "run-mask-i32": GENERATE,
    "run-fixed-length": GENERATE,
}

MODULES = (defects_mtp, defects_dfl, defects_dfl_ordinary, defects_eagle3, defects_hid, defects_run)
SEEDED = {defect.name: defect for module in MODULES for defect in module.DEFECTS}

Copier = Callable[..., Path]


def prepare(name: str, base: str, draft: str, copy: Copier) -> tuple[Path, Path]:
    """A copy of an export with the defect, and a draft beside it."""
    defect = SEEDED.get(name)
    directory = copy(defect.base if defect else base, to=f"{name}/target")
    beside = copy((defect.options.get("draft") if defect else None) or draft, to=f"{name}/draft")
    if defect is not None:
        defect.edit(directory)
    return directory, beside


def observed(jobs: Mapping[str, GenerationJob], *, collapse: bool = False) -> dict[str, str]:
    """The verdict on each export, in the terms of the tables."""
    verdicts = {}
    outcomes = dict(zip(jobs, genai.iterate(jobs.values()), strict=True))
    for name, outcome in outcomes.items():
        if outcome.stage != "ran":
            verdicts[name] = {"load": LOAD, "generate": GENERATE}.get(outcome.stage, outcome.message)
        elif collapse:
            share = outcome.accepted / max(1, outcome.drafted)
            verdicts[name] = FULL if share == 1 else COLLAPSED if share < 0.5 else SILENT
        else:
            verdicts[name] = SILENT
    return verdicts


def differing(expected: Mapping[str, str], verdicts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Expected and observed verdicts that differ; a plain ``silent`` accepts any acceptance rate."""
    return {
        name: (wanted, verdicts[name])
        for name, wanted in expected.items()
        if not (verdicts[name] == wanted or (wanted == SILENT and verdicts[name].startswith(SILENT)))
    }


def test_mtp(export_copy: Copier) -> None:
    jobs = {}
    for name in MTP:
        directory, _ = prepare(name, defects_mtp.BASE, "qwen3_dflash", export_copy)
        jobs[name] = GenerationJob(str(directory), PROMPT, draft=str(directory), max_new_tokens=24)

    verdicts = observed(jobs, collapse=True)

    assert differing(MTP, verdicts) == {}


def test_dflash(export_copy: Copier) -> None:
    jobs = {}
    for name in DFLASH:
        directory, draft = prepare(name, "qwen3", "qwen3_dflash", export_copy)
        if name in SEEDED and SEEDED[name].base == "qwen3_dflash":
            directory, draft = export_copy("qwen3", to=f"{name}/pair"), directory
        jobs[name] = GenerationJob(str(directory), PROMPT, draft=str(draft), assistant_tokens=3, max_new_tokens=8)

    verdicts = observed(jobs)

    assert differing(DFLASH, verdicts) == {}


def test_ordinary_draft(export_copy: Copier) -> None:
    jobs = {}
    for name in ORDINARY:
        directory, draft = prepare(name, "qwen3", "qwen3", export_copy)
        jobs[name] = GenerationJob(str(directory), PROMPT, draft=str(draft), assistant_tokens=3, max_new_tokens=8)

    verdicts = observed(jobs)

    assert differing(ORDINARY, verdicts) == {}


def test_eagle3(export_copy: Copier) -> None:
    jobs = {}
    for name in EAGLE3:
        directory, draft = prepare(name, "llama", "llama", export_copy)
        if name not in SEEDED:
            eagle3.write(draft)
        jobs[name] = GenerationJob(str(directory), PROMPT, draft=str(draft), assistant_tokens=2, max_new_tokens=8)

    verdicts = observed(jobs)

    assert differing(EAGLE3, verdicts) == {}


@pytest.mark.parametrize(("table", "stateful"), [(TARGET, False), (STATEFUL, True)], ids=["paged", "stateful"])
def test_target(table: Mapping[str, str], stateful: bool, export_copy: Copier) -> None:
    jobs = {}
    for name in table:
        directory, _ = prepare(name, "qwen3", "qwen3_dflash", export_copy)
        jobs[name] = GenerationJob(str(directory), PROMPT, max_new_tokens=8, stateful=stateful)
    outcomes = dict(zip(jobs, genai.iterate(jobs.values()), strict=True))

    verdicts = {}
    for name, outcome in outcomes.items():
        same = outcome.tokens == outcomes["clean"].tokens
        failure = {"load": LOAD, "generate": GENERATE}.get(outcome.stage, outcome.message)
        verdicts[name] = (
            failure if outcome.stage != "ran" else SILENT if same or SEEDED[name].base != "qwen3" else WRONG_TEXT
        )

    assert differing(table, verdicts) == {}


def test_every_silent_defect_has_a_finding() -> None:
    """The lint exists for defects that the runtime does not report, so none of them may be a mere note."""
    harmless = {"note", "warning"}
    silent = [
        SEEDED[name]
        for table in (MTP, DFLASH, TARGET)
        for name, verdict in table.items()
        if verdict in (COLLAPSED, WRONG_TEXT) and name in SEEDED
    ]
    assert [d.name for d in silent if d.severity in harmless and d.name != "run-state-of-its-own"] == []
    assert all(isinstance(defect, Defect) for defect in silent)
