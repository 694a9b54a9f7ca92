"""OpenVINO GenAI writes the same text with a draft head and without it, and accepts as many drafted tokens.

The exact runs compute in f32. In bf16, the default on some CPUs, each output of the target moves roundings: then plain
decoding with a draft head rounds as drafting without one does. The trained export is certain enough for both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

import irtools
from irtools.lint.finding import Severity
from irtools.runtime import genai
from irtools.runtime.exact import EXACT
from irtools.runtime.jobs import GenerationJob, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")]

TRAINED, PART = "qwen3_5_vl_trained", "openvino_language_model.xml"
PROMPT, LONG = "zqab", "zqab" * 30
LETTERS = tuple(range(90, 63, -1))
"""Token ids of the letters, which the trained export writes, in another order."""
SCRIPT = Path(__file__).with_name("pipelines.py")
Copier = Callable[..., Path]
Answers = list[list[dict[str, Any]]]


def answers(settings: list[dict[str, Any]], python: Path | str = sys.executable) -> Answers:
    """Answers to the calls of each pipeline; they run in a process of their own."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-P", SCRIPT], input=json.dumps(settings), capture_output=True, text=True, timeout=300, env=clean
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def pipeline(
    directory: Path,
    *calls: dict[str, Any],
    kind: str = "batching",
    draft: bool = False,
    properties: Mapping[str, str] | None = None,
    **scheduler: Any,
) -> dict[str, Any]:
    """One pipeline and the calls of it, for the script."""
    return {
        "directory": str(directory),
        "kind": kind,
        "draft": str(directory) if draft else None,
        "scheduler": scheduler,
        "properties": dict(properties or {}),
        "calls": list(calls),
    }


def ask(*prompts: str, **options: Any) -> dict[str, Any]:
    """One call; ``drafts`` is the number of assistant tokens."""
    drafts = options.pop("drafts", None)
    more = {"num_assistant_tokens": drafts} if drafts is not None else {}
    return {"prompts": list(prompts or (PROMPT,)), **more, **options}


def every_way(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Plain and drafted decoding in many ways, also some that the runtime refuses with every export."""
    three, turns = (PROMPT, "hello wor", "abcdefgh"), (PROMPT, "next", "more")
    plain = (ask(), ask(*three), ask(LONG), ask("z"), ask(template=True))
    drafted = (
        *(ask(drafts=drafts) for drafts in range(1, 9)),
        *(ask(*three, drafts=3), ask(LONG, drafts=3), ask(drafts=3, template=True)),
        *(ask("z", drafts=3), ask(drafts=0), ask(drafts=2, do_sample=True), ask(drafts=2, num_beams=2)),
        ask(drafts=3, assistant_confidence_threshold=0.4),
    )
    seen = (ask(), ask(side=28, template=True), ask(*turns, chat=True, template=True))
    return [
        pipeline(path, *plain, **options),
        pipeline(path, *drafted, draft=True, **options),
        pipeline(path, ask(LONG), max_num_batched_tokens=16, **options),
        pipeline(path, ask(LONG, PROMPT, drafts=3), draft=True, max_num_batched_tokens=16, **options),
        pipeline(path, ask(drafts=3), draft=True, enable_prefix_caching=True, **options),
        pipeline(path, ask(), ask(LONG), kind="stateful", **options),
        pipeline(path, *seen, kind="visual", **options),
        pipeline(path, *({**call, "num_assistant_tokens": 3} for call in seen), kind="visual", draft=True, **options),
    ]


def said(answers: Answers) -> list[Any]:
    """What is said, without the counts."""
    return [answer.get("texts") or answer["error"] for calls in answers for answer in calls]


def accepted(answers: Answers) -> list[int]:
    return [answer.get("accepted", 0) for calls in answers for answer in calls]


def grafted(directory: Path, vocabulary: int | None = None, **options: Any) -> Path:
    """The export with a draft head."""
    export = irtools.open_export(directory)
    export.graft(vocabulary, **options)
    export.save(check=False)
    return directory


@pytest.fixture(scope="module")
def ungrafted(fixtures: Path) -> Answers:
    """Answers of the trained export as it is."""
    return answers(every_way(fixtures / TRAINED))


def test_the_runs_draft_and_are_refused(ungrafted: Answers) -> None:
    """Otherwise the comparisons would say nothing."""
    refused = [text for text in said(ungrafted) if isinstance(text, str)]
    assert len(refused) == 6
    assert any("enable_prefix_caching" in text for text in refused)
    assert sum(count > 0 for count in accepted(ungrafted)) == 15


@pytest.mark.parametrize(
    "options",
    [{"vocabulary": 128}, {"tokens": LETTERS, "own_head": True}],
    ids=["target", "scattered"],
)
def test_the_same_text_and_as_many_accepted(options: dict[str, Any], ungrafted: Answers, export_copy: Copier) -> None:
    found = answers(every_way(grafted(export_copy(TRAINED), **options)))

    assert said(found) == said(ungrafted)
    assert accepted(found) == accepted(ungrafted)


@pytest.mark.parametrize("own_head", [False, True])
def test_without_the_tokens_of_the_text_nothing_is_accepted(
    own_head: bool, ungrafted: Answers, export_copy: Copier
) -> None:
    path = grafted(export_copy(TRAINED), 64, own_head=own_head)
    (found,) = answers([pipeline(path, *every_way(path)[1]["calls"][:9], draft=True)])

    assert said([found]) == said(ungrafted[1:2])[:9]
    assert accepted([found]) == [0] * 9


@pytest.mark.parametrize("name", ["qwen3_5_vl_int4", "qwen3_5_moe_vl"])
def test_the_same_text_of_random_weights(name: str, export_copy: Copier) -> None:
    path = export_copy(name)
    calls = (ask(PROMPT, "hello wor", "abcdefgh", drafts=3), ask(LONG, drafts=3))
    plain = [{**call, "num_assistant_tokens": 0} for call in calls]

    def both() -> Answers:
        return answers([pipeline(path, *plain, properties=EXACT), pipeline(path, *calls, draft=True, properties=EXACT)])

    before = both()
    grafted(path, 128)
    assert said(both()) == said(before)


# -- targets that MTP refuses ----------------------------------------------------------------


def with_tail(directory: Path, tail: str) -> Path:
    """The export with ops between lm_head and the logits."""
    path = directory / PART
    model = ov.Core().read_model(path)
    result = next(port.get_node() for port in model.outputs if "logits" in port.get_names())
    logits = result.input_value(0)
    kept = result.input(0)
    logits.get_tensor().set_names(set())
    width = logits.get_partial_shape()[-1].get_length()
    if tail == "bias":
        value = ops.add(logits, ops.constant(np.linspace(0, 0.01, width, dtype=np.float32)))
    elif tail == "softcap":
        cap = np.float32(30)
        value = ops.multiply(ops.tanh(ops.divide(logits, ops.constant(cap))), ops.constant(cap))
    else:
        value = ops.multiply(logits, ops.constant(np.float32(0.5)))
    value.output(0).get_tensor().set_names({"logits"})
    kept.replace_source_output(value.output(0))
    model.validate_nodes_and_infer_types()
    saved = directory / "new.xml"
    ov.save_model(model, saved, compress_to_fp16=False)
    del model, result, logits, kept, value
    saved.replace(path)
    saved.with_suffix(".bin").replace(path.with_suffix(".bin"))
    return directory


@pytest.mark.parametrize("tail", ["bias", "softcap", "scale"])
def test_a_draft_head_makes_mtp_possible_with_ops_after_lm_head(tail: str, export_copy: Copier) -> None:
    path = with_tail(export_copy(TRAINED), tail)
    (refused,), (plain,) = answers([pipeline(path, ask(drafts=3), draft=True), pipeline(path, ask())])

    grafted(path, 128)
    (drafted,) = answers([pipeline(path, ask(drafts=3), draft=True)])[0]

    assert "to be produced by a MatMul" in refused["error"]
    assert drafted["texts"] == plain["texts"]
    assert drafted["accepted"] > 0


# -- further edits ----------------------------------------------------------------------------


def saved_again(directory: Path) -> None:
    """Let OpenVINO write the target again."""
    saved = directory / "new.xml"
    ov.save_model(ov.Core().read_model(directory / PART), saved, compress_to_fp16=False)
    saved.replace(directory / PART)
    saved.with_suffix(".bin").replace((directory / PART).with_suffix(".bin"))


def annotated_and_exposed(directory: Path) -> None:
    for change in ("annotate", "expose", "conceal", "strip"):
        export = irtools.open_export(directory)
        if change == "expose":
            export.expose([1])
        else:
            getattr(export, change)()
        export.save(check=False)


@pytest.mark.parametrize("change", [saved_again, annotated_and_exposed])
def test_a_draft_head_survives_further_edits(
    change: Callable[[Path], None], ungrafted: Answers, export_copy: Copier
) -> None:
    path = grafted(export_copy(TRAINED), 128)
    change(path)
    found = answers([pipeline(path, *every_way(path)[1]["calls"][:9], draft=True)])
    codes = {finding.code for finding in irtools.open_export(path).verify(expect_mtp=True).findings}

    assert said(found) == said(ungrafted[1:2])[:9]
    assert accepted(found) == accepted(ungrafted[1:2])[:9]
    assert not {code for code in codes if code.startswith("MTP06")} - {"MTP065"}
    export = irtools.open_export(path)
    export.ungraft()
    export.save()
    assert "irtools.graft" not in (path / PART).read_text()


# -- other drafts -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def falcon(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target of DFlash drafts."""
    path = shutil.copytree(fixtures / "falcon", tmp_path_factory.mktemp("falcon") / "target")
    export = irtools.open_export(path)
    export.annotate()
    export.save(check=False)
    return path


def drafted(target: Path, draft: Path | None = None) -> Outcome:
    job = GenerationJob(str(target), PROMPT, draft=str(draft) if draft else None, assistant_tokens=3, exact=True)
    return next(genai.iterate([job]))


def computed(model: ov.Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    compiled = ov.Core().compile_model(model, "CPU", EXACT)
    results = compiled([feeds[port.get_any_name()] for port in compiled.inputs])
    return {name: results[port].copy() for port in compiled.outputs for name in port.get_names()}


@pytest.mark.parametrize(
    "tokens",
    [tuple(range(512)), tuple(range(100)), tuple(range(3, 512, 5))],
    ids=["whole", "first", "scattered"],
)
def test_a_dflash_draft_with_a_head_of_its_own(tokens: tuple[int, ...], falcon: Path, export_copy: Copier) -> None:
    path = export_copy("qwen3_dflash")
    random = np.random.default_rng(1)
    feeds = {
        "inputs_embeds": random.normal(0, 1, (1, 5, 32)).astype("f4"),
        "hidden_states": random.normal(0, 1, (1, 5, 96)).astype("f4"),
        "position_ids": np.arange(10)[None],
        "attention_mask": np.ones((1, 10), np.int64),
        "beam_idx": np.zeros(1, np.int32),
    }
    hidden = computed(ov.Core().read_model(path / "openvino_model.xml"), feeds)["last_hidden_state"]
    target = ov.Core().read_model(falcon / "openvino_model.xml")
    lm_head = next(port.get_node() for port in target.outputs if "logits" in port.get_names()).input_value(0).get_node()
    state = ops.parameter([-1, -1, 32], ov.Type.f32, name="state")
    state.output(0).set_names({"state"})
    lm_head.input(0).replace_source_output(state.output(0))
    whole = computed(ov.Model([ops.result(lm_head)], [state], "head"), {"state": hidden})["logits"]
    draft = irtools.open_export(path)
    irtools.open_export(falcon).graft(tokens=tokens, draft=draft)
    draft.save(check=False)

    logits = computed(ov.Core().read_model(path / "openvino_model.xml"), feeds)["logits"]
    logits = logits if logits.shape[-1] == len(tokens) else logits[..., list(tokens)]
    outcome, plain = drafted(falcon, path), drafted(falcon)

    np.testing.assert_array_equal(logits, whole[..., list(tokens)])
    assert (outcome.stage, outcome.message) == ("ran", "")
    assert outcome.drafted > 0
    assert outcome.tokens == plain.tokens


def test_dflash_fails_on_a_target_with_a_draft_head(falcon: Path, fixtures: Path, tmp_path: Path) -> None:
    path = shutil.copytree(falcon, tmp_path / "target")
    export = irtools.open_export(path)
    with export.edit() as editor:
        editor.graft(100)
    export.save(check=False)
    draft = fixtures / "qwen3_dflash"

    assert drafted(falcon, draft).stage == "ran"
    assert drafted(path, draft).stage == "generate"
    assert drafted(path).tokens == drafted(falcon).tokens
    findings = irtools.open_export(path).verify(draft=draft).findings
    (finding,) = (finding for finding in findings if finding.code == "MTP065")
    assert finding.severity is Severity.ERROR


# -- other releases ---------------------------------------------------------------------------

CONVERT = """
import sys
import openvino
from openvino_tokenizers import convert_tokenizer
from transformers import PreTrainedTokenizerFast
source, directory = sys.argv[1:]
special = "<|endoftext|>"
fast = PreTrainedTokenizerFast(tokenizer_file=source, eos_token=special, pad_token=special)
for name, model in zip(("tokenizer", "detokenizer"), convert_tokenizer(fast, with_detokenizer=True)):
    openvino.save_model(model, f"{directory}/openvino_{name}.xml")
"""


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make an environment with a release of GenAI; returns its Python."""
    made: dict[str, Path] = {}

    def make(version: str, *more: str) -> Path:
        if version not in made:
            directory = tmp_path_factory.mktemp("release")
            subprocess.run([sys.executable, "-m", "venv", directory], check=True)
            python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
            packages = [f"openvino=={version}", f"openvino-tokenizers=={version}.0", f"openvino-genai=={version}.0"]
            install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages, *more]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"pip cannot install OpenVINO GenAI {version}: {done.stderr.strip()[-300:]}")
            made[version] = python
        return made[version]

    return make


def test_genai_2026_4_0_writes_the_same_text(release: Callable[..., Path], export_copy: Copier) -> None:
    python, path = release("2026.4.0"), export_copy(TRAINED)
    before = answers(every_way(path), python)
    after = answers(every_way(grafted(path, 128)), python)

    assert sum(count > 0 for count in accepted(before)) == 15
    assert said(after) == said(before)
    assert accepted(after) == accepted(before)


def test_genai_2026_3_1_writes_the_same_plain_text(release: Callable[..., Path], export_copy: Copier) -> None:
    """This release has no MTP, and takes a MatMul of rank 3 before the first output for lm_head."""
    python = release("2026.3.1", "transformers==5.2.0")
    for name, part in ((TRAINED, PART), ("llama", "openvino_model.xml")):
        path = export_copy(name)
        subprocess.run([python, "-c", CONVERT, path / "tokenizer.json", path], check=True, capture_output=True)
        calls = (ask(), ask(LONG), ask(PROMPT, "hello wor", "abcdefgh"))
        settings = [
            pipeline(path, *calls, properties=EXACT),
            pipeline(path, ask(LONG), properties=EXACT, max_num_batched_tokens=16),
            pipeline(path, ask(), ask(LONG), kind="stateful", properties=EXACT),
        ]
        before = answers(settings, python)
        export = irtools.open_export(path)
        with export.edit() as editor:
            editor.graft(128)
        export.save(check=False)
        assert b"irtools.graft" in (path / part).read_bytes()

        assert not any("error" in answer for calls in before for answer in calls), before
        assert said(answers(settings, python)) == said(before)
        export = irtools.open_export(path)
        graph = export.target.graph
        shown = next(key for key in graph.results if graph.result_names(key) == ("last_hidden_state",))
        with export.edit() as editor:
            editor.rewire("irtools.graft/128/MatMul", 0, graph.inputs(shown)[0].op)
        export.save(check=False)
        assert said(answers(settings[:1], python)) != said(before[:1])
