"""The step runtime: exact token counts, unchanged texts, refusals explained by rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from defects_mtp import FUSION
from ir_edit import IR

from irtools.errors import UsageError
from irtools.export import open_export
from irtools.prove import decoding, run
from irtools.prove import speculate as module
from irtools.prove.decoding import Decoded, Runs, first_difference
from irtools.prove.refusal import RefusalEvidence
from irtools.prove.settings import Prompt, ProveSettings
from irtools.prove.speculate import draft_setup, speculate
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Step
from irtools.runtime.conversion import Conversion
from irtools.runtime.jobs import GenerationJob, Outcome
from irtools.runtime.probe import RuntimeFacts
from tests.prove.conftest import Proved

Prove = Callable[..., Proved]
RUN = ("--steps", "runtime", "--prompt", "zqab")
ANSWER = "dkeaab" * 6 + "dkea"
"""Continuation of the prompt by the trained export."""


def swap(directory: Path) -> None:
    ir = IR(directory / "openvino_mtp_model.xml")
    ir.swap(ir.layer(FUSION), 0, 1)
    ir.save()


def counts(check: dict[str, Any]) -> dict[int, tuple[int, int]]:
    return {row["number"]: (row["accepted"], row["drafted"]) for row in check["figures"]["assistant_tokens"]}


# -- in the runtime --------------------------------------------------------------------


@pytest.mark.slow
def test_the_trained_head_is_accepted_and_changes_nothing(trained: Proved) -> None:
    done = trained

    prompt, *_ = done.check("runtime", "plain")["figures"]["prompts"]
    assert prompt["continuation"] == ANSWER
    assert len(prompt["tokens"]) == 40
    assert done.check("runtime", "text")["figures"] == {"equal": True, "differences": []}
    one = done.check("runtime", "acceptance")["figures"]["assistant_tokens"][0]["prompts"][0]
    assert (one["accepted"], one["drafted"]) == (19, 19)  # contract
    assert done.check("runtime", "image")["figures"]["prompt_tokens"] > len(prompt["token_ids"])
    assert {check["status"] for check in done.proof["steps"][3]["checks"]} == {PASSED}
    assert done.code == 0


@pytest.mark.slow
def test_a_head_with_the_concat_swapped_writes_the_same_text_and_is_not_accepted(proved: Prove) -> None:
    options = ("--assistant-tokens", "1", "--min-acceptance", "0.9")
    done = proved("swapped", "qwen3_5_vl_trained", *RUN, *options, edit=swap)

    (prompt,) = done.check("runtime", "plain")["figures"]["prompts"]
    assert prompt["continuation"] == ANSWER
    assert done.check("runtime", "text")["figures"]["equal"]
    acceptance = done.check("runtime", "acceptance")
    assert counts(acceptance) == {1: (5, 33)}  # contract
    assert acceptance["status"] == FAILED
    assert "below the required 0.9. MTP034: " in acceptance["why"]
    assert done.code == 1


@pytest.mark.slow
def test_dflash_is_counted_by_what_the_draft_processed(dflash: Proved) -> None:
    """GenAI does not count drafted tokens for DFlash. The random draft is never accepted: one pass per token."""
    done = dflash

    assert done.check("runtime", "text")["figures"]["equal"]
    acceptance = done.check("runtime", "acceptance")
    (row,) = acceptance["figures"]["assistant_tokens"]
    assert (row["accepted"], row["passes"], row["passes_saved"]) == (0, 10, 0)
    assert row["drafted"] == 2 * 7 + 1  # no draft for the first and the last token; one token where two are too many
    assert done.proof["drafting"] == "dflash"
    assert done.code == 0


@pytest.mark.slow
def test_an_ordinary_draft_is_proved_without_a_head(proved: Prove, fixtures: Path) -> None:
    """granite is llama with the same weights and a scale of 1."""
    options = ("--prompt", "abc", "--assistant-tokens", "2", "--max-new-tokens", "8", "--draft")
    done = proved("ordinary", "llama", "--steps", "head,runtime", *options, fixtures / "granite")
    refused = proved("other", "llama", "--steps", "runtime", *options, fixtures / "gpt2")

    assert done.proof["drafting"] == "draft"
    assert done.step("head")["status"] == NOT_APPLICABLE
    assert done.check("runtime", "text")["figures"]["equal"]
    assert counts(done.check("runtime", "acceptance")) == {2: (4, 4)}
    assert done.code == 0
    text = refused.check("runtime", "text")
    assert "Tokenizers for draft and main models are different!" in text["saw"]
    assert text["why"].startswith("DFL042: the draft's bos token is 50256 (config.json)")
    assert refused.code == 1


def test_the_runtime_takes_a_head_wherever_it_finds_one(fixtures: Path, export_copy: Callable[..., Path]) -> None:
    own, other = open_export(fixtures / "qwen3_5_vl_trained"), open_export(export_copy("qwen3_5_vl"))
    again = open_export(fixtures / "falcon" / ".." / "qwen3_5_vl_trained")

    assert draft_setup(own, again) == draft_setup(own, None) == module.DraftSetup("mtp", "MTP head", own)
    assert draft_setup(own, other) == module.DraftSetup("mtp", "MTP head", other)
    falcon = open_export(fixtures / "falcon")
    assert (
        draft_setup(own, falcon) == draft_setup(falcon, falcon) == module.DraftSetup("draft", "ordinary draft", falcon)
    )
    assert draft_setup(own, open_export(fixtures / "qwen3_dflash")).name == "dflash"


def test_no_more_is_drafted_than_a_block_holds(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixture has block_size 4 in its config.json: three tokens after the last one of the text."""
    monkeypatch.setattr(run, "_steps", lambda *_: ())
    target, draft = open_export(fixtures / "qwen3"), fixtures / "qwen3_dflash"

    with pytest.raises(UsageError, match="block_size is 4, so give --assistant-tokens of at most 3"):
        run.prove(target, ProveSettings(draft=draft, assistant_tokens=(2, 4)))
    proof = run.prove(target, ProveSettings(draft=draft, assistant_tokens=(1, 3)))
    assert proof.record["settings"]["assistant_tokens"] == [1, 3]


@pytest.mark.slow
def test_the_default_numbers_are_cut_to_the_block(
    export_copy: Callable[..., Path], fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_steps", lambda *_: ())
    draft = export_copy("qwen3_dflash")
    path = draft / "config.json"
    path.write_text(path.read_text().replace('"block_size": 4', '"block_size": 3'))

    proof = run.prove(open_export(fixtures / "qwen3"), ProveSettings(draft=draft))

    assert proof.record["settings"]["assistant_tokens"] == [1, 2]


def test_ids_stand_in_for_text_where_there_is_no_tokenizer(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        run, "probe", lambda *_, **__: RuntimeFacts(("CPU",), {"NUM_STREAMS": "1"}, {}, fault="no tokenizer")
    )
    monkeypatch.setattr(run, "_steps", lambda *_: ())
    asked = ProveSettings(prompts=("zqab", "ab"))

    proofs = {name: run.prove(open_export(fixtures / name), asked) for name in ("opt", "falcon", "llava")}
    texts = {name: [prompt["text"] for prompt in proof.record["prompts"]] for name, proof in proofs.items()}

    assert not (fixtures / "opt" / "openvino_tokenizer.xml").exists()
    assert texts == {"opt": ["", ""], "falcon": ["zqab", "ab"], "llava": ["zqab", "ab"]}


def test_exports_that_it_is_not_for_are_told_why(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "convert", lambda files, timeout: [Conversion()] * len(files))
    ids = [Prompt(token_ids=(5, 6, 7))]

    bert = speculate(open_export(fixtures / "bert"), module.DraftSetup(), ids, ProveSettings())
    draft = speculate(open_export(fixtures / "qwen3_dflash"), module.DraftSetup(), ids, ProveSettings())
    llava = speculate(open_export(fixtures / "llava"), module.DraftSetup(), ids, ProveSettings())

    assert (bert.status, draft.status) == (NOT_APPLICABLE, NOT_APPLICABLE)
    assert "not a causal language model" in bert.why
    assert "prove its target with --draft" in draft.why
    assert [(check.name, check.status) for check in llava.checks] == [("conversion", PASSED), ("plain", NOT_APPLICABLE)]
    assert "EXP003" in llava.checks[1].why


@pytest.mark.parametrize(
    ("target", "head", "saw"),
    [
        (
            Conversion(),
            Conversion(left=("a",)),
            "openvino_mtp_model.xml: 1 state op is left after conversion, such as 'a'",
        ),
        (
            Conversion(left=("b", "a")),
            Conversion(),
            "openvino_language_model.xml: 2 state ops are left after conversion, such as 'b'",
        ),
        (Conversion("no such op"), Conversion(), "openvino_language_model.xml: no such op"),
    ],
)
def test_a_part_that_is_not_converted_is_named_with_what_is_left(
    target: Conversion, head: Conversion, saw: str, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"openvino_language_model.xml": target, "openvino_mtp_model.xml": head}
    monkeypatch.setattr(module, "convert", lambda files, timeout: [given[file.name] for file in files])
    monkeypatch.setattr(module, "decode", lambda *_, **__: both(outcome(1, 2), outcome(1, 2)))
    export = open_export(fixtures / "qwen3_5_vl_trained")

    step = speculate(export, draft_setup(export, None), [Prompt("zqab")], ProveSettings())

    (check,) = (check for check in step.checks if check.name == "conversion")
    assert (check.status, check.saw) == (FAILED, saw)
    assert check.did.startswith("converted copies of openvino_language_model.xml and openvino_mtp_model.xml to")


# -- checks from outcomes --------------------------------------------------------


def outcome(*tokens: int, accepted: int = 0, drafted: int = 0) -> Outcome:
    return Outcome("ran", tokens=tokens, accepted=accepted, drafted=drafted, steps=len(tokens) - accepted)


@pytest.fixture
def checks_of(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Checks of the step for the given GenAI results in order."""

    def run(*decoded: Decoded, step: bool = False, **settings: Any) -> Any:
        answers = iter(decoded)
        monkeypatch.setattr(module, "decode", lambda *args, **options: next(answers))
        monkeypatch.setattr(module, "convert", lambda files, timeout: [Conversion()] * len(files))
        export = open_export(fixtures / "qwen3_5_vl_trained")
        found = speculate(export, draft_setup(export, None), [Prompt("zqab")], ProveSettings(**settings))
        return found if step else {check.name: check for check in found.checks}

    return run


def both(plain: Outcome, drafted: Outcome, number: int = 1) -> Decoded:
    return Decoded((Prompt("zqab"),), Runs((plain,)), {number: Runs((drafted,))})


ROUNDED = both(outcome(1, 2, 3, 4), outcome(1, 2, 9, 4, drafted=3))
EQUAL = both(outcome(1, 2, 3, 4), outcome(1, 2, 3, 4, drafted=3))


def test_other_text_fails_unless_it_is_the_same_with_less_rounding(checks_of: Any) -> None:
    by_rounding = checks_of(ROUNDED, EQUAL)["text"]
    really = checks_of(ROUNDED, ROUNDED)["text"]

    assert (by_rounding.status, really.status) == (PASSED, FAILED)
    assert "token 2 is 9 instead of 3" in really.saw
    assert really.figures["differences"] == [
        {"assistant_tokens": 1, "prompt": 0, "position": 2, "plain": 3, "drafted": 9}
    ]
    assert by_rounding.figures["equal_exactly"] is True
    assert "roundings" in by_rounding.why


@pytest.mark.parametrize(
    ("accepted", "drafted", "wanted", "status"),
    [
        (0, 30, None, WARNING),
        (0, 3, None, PASSED),
        (1, 30, None, WARNING),
        (2, 30, None, PASSED),
        (0, 30, 0.0, PASSED),
        (15, 30, 0.5, PASSED),
        (14, 30, 0.5, FAILED),
        (0, 0, None, NOT_APPLICABLE),
        (0, 0, 0.5, FAILED),
    ],
)
def test_acceptance(checks_of: Any, accepted: int, drafted: int, wanted: float | None, status: str) -> None:
    tokens = tuple(range(40))
    found = checks_of(
        both(outcome(*tokens), outcome(*tokens, accepted=accepted, drafted=drafted)), min_acceptance=wanted
    )

    assert found["acceptance"].status == status


def test_a_crash_breaks_the_step(checks_of: Any) -> None:
    ended = Outcome("crash", "the process ended with code -11 (SIGSEGV)")
    step: Step = checks_of(Decoded((Prompt("zqab"),), Runs(refused=ended)), step=True)

    assert step.broken
    assert step.status == FAILED
    assert "SIGSEGV" in step.why


def test_what_a_tiny_tokenizer_cannot_do_is_no_failure(checks_of: Any) -> None:
    said = Outcome("generate", "Encoded vision tokens must contain two tokens")
    found = checks_of(Decoded((Prompt("zqab"),), Runs(refused=said)))

    assert found["plain"].status == NOT_APPLICABLE


FAILURE = Outcome("crash", "the process ended with code -11 (SIGSEGV)")


@pytest.mark.parametrize(
    ("last", "status", "said"),
    [
        (outcome(1, 2, 3, 4, accepted=2, drafted=3), PASSED, "the same tokens each time; accepted: 2 of 3"),
        (
            outcome(1, 2, 3, 4, accepted=0, drafted=3),
            FAILED,
            "1 process accepted different numbers of tokens from the first; accepted: 2 of 3 and 0 of 3",
        ),
        (outcome(1, 2, 9, 4, accepted=2, drafted=3), FAILED, "1 process wrote different tokens from the first"),
        (FAILURE, FAILED, "1 process failed (the process ended with code -11 (SIGSEGV)); accepted: 2 of 3"),
    ],
    ids=["same", "acceptance", "text", "crash"],
)
def test_fresh_processes_must_agree(
    last: Outcome, status: str, said: str, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call of ``iterate`` stands for a process: plain, drafted, and one for each further repetition."""
    drafted = outcome(1, 2, 3, 4, accepted=2, drafted=3)
    processes = iter([outcome(1, 2, 3, 4), drafted, drafted, last])
    jobs_of: list[list[GenerationJob]] = []

    def iterate(jobs: Iterable[GenerationJob], *, timeout: float) -> Iterator[Outcome]:
        jobs_of.append(list(jobs))
        answer = next(processes)
        return (answer for _ in jobs_of[-1])

    monkeypatch.setattr(decoding, "iterate", iterate)
    monkeypatch.setattr(module, "convert", lambda files, timeout: [Conversion()] * len(files))
    export = open_export(fixtures / "qwen3_5_vl_trained")
    settings = ProveSettings(repeat=3, assistant_tokens=(2, 3))
    step = speculate(export, draft_setup(export, None), [Prompt("zqab")], settings)

    (check,) = (check for check in step.checks if check.name == "repeat")
    assert (check.status, step.status) == (status, status)
    assert said in check.saw
    assert check.did == "decoded the prompts in 3 fresh processes, drafting 2 at a time"
    assert check.figures["processes"] == 3
    assert [[job.assistant_tokens if job.draft else 0 for job in jobs] for jobs in jobs_of] == [
        [0, 0],
        [2, 2, 3],
        [2],
        [2],
    ]


MESSAGES = {
    "Either openvino_tokenizer.xml was not provided or it was not loaded correctly.": (
        ["openvino_tokenizer.xml", "openvino_detokenizer.xml"],
        "EXP003: openvino_tokenizer.xml",
    ),
    "Detokenizer model has not been provided. Tokenizer::decode is not available": (
        ["openvino_tokenizer.xml", "openvino_detokenizer.xml"],
        "EXP003: openvino_detokenizer.xml",
    ),
    "MTP speculative decoding requires a decomposed model with a text embeddings model": (
        ["openvino_text_embeddings_model.xml"],
        "MTP006: ",
    ),
    "Empty weights data in bin file or bin file cannot be found!": (["openvino_mtp_model.bin"], "IR006: "),
    'FrontEnd API failed with GeneralFailure: ir: Could not open the file: "/m/openvino_vision_embeddings_model.xml"': (
        ["openvino_vision_embeddings_model.xml"],
        "EXP005: ",
    ),
    "anything else": ([], "no rule of irtools explains this"),
}
"""Messages of GenAI 2026.4.1 for the trained export without these files."""


@pytest.mark.parametrize("message", MESSAGES)
def test_a_refusal_is_explained_by_a_rule(message: str, export_copy: Callable[..., Path]) -> None:
    missing, expected = MESSAGES[message]
    directory = export_copy("qwen3_5_vl_trained")
    for name in missing:
        (directory / name).unlink()

    assert RefusalEvidence(open_export(directory), "mtp", None).explain(message).startswith(expected)


# -- figures ---------------------------------------------------------------------------


def test_the_first_difference_counts_a_shorter_text() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 9, 3]) == 1
    assert first_difference([1, 2, 3], [1, 2]) == 2
