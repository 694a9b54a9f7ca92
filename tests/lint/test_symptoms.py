"""Symptoms name rules that exist, in the order of the rule packs."""

from __future__ import annotations

import pytest

from irtools.lint.finding import Finding
from irtools.lint.rule import load_rules
from irtools.lint.symptoms import Symptom, cited, explained_by, explanation, of_check
from irtools.registry import collect
from irtools.runtime.jobs import GenerationJob
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
