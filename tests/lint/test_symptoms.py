"""Symptoms name rules that exist, in the order of the rule packs; messages that users paste are explained by them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from time import perf_counter

import pytest

from irtools.lint.finding import Finding
from irtools.lint.rule import load_rules
from irtools.lint.symptoms import Symptom, cited, explain_message, explained_by, explanation, of_check
from irtools.registry import collect
from irtools.runtime.jobs import GenerationJob
from irtools.runtime.messages import pasted_message
from irtools.runtime.pipeline import _with_text

FINDINGS = [Finding(code, code=code) for code in ("DFL010", "EXP003", "IR006", "MTP050", "RUN003")]


def test_symptoms_name_rules_that_exist() -> None:
    rules = load_rules()
    known = {rule.code for rule in rules} | {rule.group for rule in rules}

    assert {name for symptom in collect(Symptom) for name in symptom.rules} <= known


@pytest.mark.parametrize(
    ("message", "codes"),
    [
        ("the logits are not produced by a MatMul", ["DFL010", "MTP050"]),
        ("Tokenizer::encode is not available", ["EXP003", "IR006"]),
        ("Empty weights data, no ScaledDotProductAttention", ["RUN003", "IR006"]),
        ("SOMETHING PAGED", ["RUN003"]),
        ("anything else", []),
    ],
)
def test_a_message_is_explained_by_the_most_specific_symptom_first(message: str, codes: list[str]) -> None:
    assert [finding.code for finding in explained_by(message, FINDINGS)] == codes


@pytest.mark.parametrize(
    ("message", "code"),
    [  # each is what GenAI 2026.4.1 says about a defect of an EAGLE-3 draft that the rule finds
        ('Could not convert to: i from string "[0,": stoi', "DFL023"),
        ("Eagle3 is expected to provide exactly three layers for extraction", "DFL023"),
        ("Number of extracted hidden states does not match the requested number.", "DFL005"),
        ("Failed to locate FC weights in eagle3 draft model for shifting to main model.", "DFL026"),
        ("Port for tensor name hidden_states was not found.", "DFL024"),
        ("Port for tensor name last_hidden_state was not found.", "DFL028"),
        ("Could not convert to bool from string maybe", "DFL022"),
        ("Incompatible MatMul matrix dimension. First input dimension=96", "DFL027"),
        ("Tensor data with element type i32, is not representable as pointer to i64", "DFL029"),
        ("Eltwise shape infer input shapes dim index: 0 mismatch", "DFL022"),
        ("Model is supposed to be stateful, cannot perform the SDPAToPagedAttention transformation", "DFL033"),
    ],
)
def test_a_message_about_an_eagle3_draft_is_explained(message: str, code: str) -> None:
    assert [finding.code for finding in explained_by(message, [Finding("it is wrong", code=code)])][:1] == [code]


def test_a_limit_of_the_runtime_has_a_fixed_explanation() -> None:
    assert "full-size model" in explanation("Encoded vision tokens must contain two tokens")
    assert explanation("no ScaledDotProductAttention") == ""


def test_the_worker_words_its_own_limit_as_the_symptom_says() -> None:
    class Pipeline:
        def get_tokenizer(self) -> Pipeline:
            return self

        def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
            return ""

    with pytest.raises(ValueError) as caught:
        _with_text(Pipeline(), GenerationJob("model", token_ids=(1, 2), as_text=True))
    assert "give --prompt" in explanation(str(caught.value))


def test_a_check_names_its_rules() -> None:
    assert [finding.code for finding in of_check("runtime/acceptance", FINDINGS)] == ["DFL010", "MTP050"]
    assert cited("head/port names") == " (MTP010, MTP013)"
    assert cited("head/rotary") == " (MTP052 compares the dimension)"
    assert cited("head/mask") == ""


# -- pasted messages ---------------------------------------------------------------------

PASTED = """\
Traceback (most recent call last):
  File "/home/me/dflash/shape/run.py", line 12, in <module>
    pipe = openvino_genai.LLMPipeline("/models/chat_template", draft_model=paged, prefix_caching=1)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
RuntimeError: Exception from src/inference/src/cpp/core.cpp:125:
Exception from src/inference/src/dev/plugin.cpp:58:
Check 'shape.rank() == 3' failed at /home/jenkins/agent/b/openvino/src/dflash_strategy.cpp:77:
MESSAGE
"""


def examples(pattern: str) -> Iterator[str]:
    """Texts that a regular expression finds: one for each alternative, optional parts left out."""
    parser = re._parser  # type: ignore[attr-defined]

    def texts(items: object) -> list[str]:
        pieces = [one(*item) for item in items]  # type: ignore[attr-defined]
        return ["".join(chosen) for chosen in product(*pieces)]

    def one(op: object, value: object) -> list[str]:
        match str(op):
            case "LITERAL":
                return [chr(value)]  # type: ignore[arg-type]
            case "ANY":
                return ["x"]
            case "AT":
                return [""]
            case "IN":
                return one(*value[0])  # type: ignore[index]
            case "BRANCH":
                return [text for branch in value[1] for text in texts(branch)]  # type: ignore[index]
            case "RANGE":
                return [chr(value[0])]  # type: ignore[index]
            case "SUBPATTERN":
                return texts(value[-1])  # type: ignore[index]
            case "MAX_REPEAT":
                return [text * value[0] for text in texts(value[2])[: None if value[0] else 1]]  # type: ignore[index]
        raise AssertionError(f"write an example for {op}")

    yield from texts(parser.parse(pattern))


@pytest.mark.parametrize("symptom", [one for one in collect(Symptom) if one.message], ids=lambda one: one.message)
def test_every_message_that_prove_knows_is_explained_when_it_is_pasted(symptom: Symptom) -> None:
    rules = load_rules()
    for example in examples(symptom.message):
        assert re.search(symptom.message, example)
        found = explain_message(pasted_message(PASTED.replace("MESSAGE", f"It has {example} in it.")), rules)
        assert set(symptom.rules) <= {rule.code for rule in found.rules} | set(found.groups) or found.limits
        if symptom.explanation:
            assert symptom.explanation in found.limits


def test_only_the_message_is_read_in_a_pasted_traceback() -> None:
    assert not explain_message(pasted_message(PASTED.replace("MESSAGE", "Something else happened.")), load_rules())
    assert pasted_message(PASTED) == "RuntimeError: MESSAGE"
    assert pasted_message("at C:\\dflash\\it\\openvino_model.xml: CB/PA") == "at openvino_model.xml: CB/PA"
    start = perf_counter()
    pasted_message("x" * 100_000)
    assert perf_counter() - start < 2  # a quadratic search takes 18 s
    assert pasted_message("Check 'a' failed") == "Check 'a' failed"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Empty weights data in bin file or bin file cannot be found!", "IR006"),
        ("DFlash draft model is missing dflash_mask_token_id RT info.", "DFL002"),
        ("Check 'x' failed at a.cpp:1:\nPort for tensor name logits was not found.", "RUN001"),
    ],
)
def test_a_rule_whose_page_quotes_the_message_is_named(message: str, code: str) -> None:
    assert code in [rule.code for rule in explain_message(pasted_message(message), load_rules()).rules]


def test_a_message_about_settings_names_the_condition_and_no_other_cause() -> None:
    message = "MTP speculative decoding requires num_assistant_tokens > 0."
    found = explain_message(message, load_rules())
    assert [(one.strategy, one.condition.id) for one in found.requirements] == [("mtp", "assistant-tokens")]
    assert explain_message(message.rstrip("."), load_rules()) == found
    assert (found.rules, found.groups) == ((), ())
    cached = explain_message("DFlash CB/PA does not support scheduler_config.enable_prefix_caching.", load_rules())
    assert [rule.code for rule in cached.rules] == ["RUN009"]
