"""Ordinary drafts: sound pairs, the decoding strategies, and the special tokens as OpenVINO GenAI reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from defects import remove
from defects_dfl_ordinary import FEWER_TOKENS
from irtools.rules import dfl_ordinary_tokenizer

from irtools.authoring import Severity
from irtools.export import open_export
from irtools.lint.engine import Verification
from irtools.lint.finding import Strategy
from irtools.model.directory import ModelDirectory
from irtools.model.special_tokens import UnreadableTokensError, special_tokens
from irtools.prove.refusal import RefusalEvidence
from irtools.runtime import genai
from irtools.runtime.probe import Tokenized

Copier = Callable[..., Path]
DIFFERENT = "Tokenizers for draft and main models are different!"


def strategies(verification: Verification) -> dict[str, Strategy]:
    return {strategy.name: strategy for strategy in verification.strategies}


@pytest.mark.parametrize(("target", "draft"), [("llama", "granite"), ("granite", "llama"), ("llama", "llama")])
def test_a_pair_with_one_tokenizer_is_sound(fixtures: Path, target: str, draft: str) -> None:
    verification = open_export(fixtures / target).verify(draft=fixtures / draft)

    assert strategies(verification)["draft"] == Strategy("draft", True)
    assert [f.code for f in verification.findings if f.severity != Severity.NOTE] == []


def test_a_draft_needs_no_detokenizer(fixtures: Path, export_copy: Copier) -> None:
    draft = export_copy("llama", to="draft")
    remove("openvino_detokenizer.xml", "openvino_detokenizer.bin", "tokenizer.json")(draft)

    verification = open_export(fixtures / "llama").verify(draft=draft)

    assert strategies(verification)["draft"].available
    assert [f.code for f in verification.findings if f.severity != Severity.NOTE] == []


def test_every_target_is_told_whether_it_can_have_an_ordinary_draft(fixtures: Path, export_copy: Copier) -> None:
    linear = export_copy("llama")
    for suffix in ("xml", "bin"):
        model = fixtures / "zoo" / "qwen3_next" / f"openvino_model.{suffix}"
        (linear / model.name).write_bytes(model.read_bytes())
    found = {
        name: strategies(open_export(fixtures / name).verify())["draft"] for name in ("llama", "gemma4_vl", "bert")
    }
    found["linear"] = strategies(open_export(linear).verify())["draft"]
    found["zoo"] = strategies(open_export(fixtures / "zoo" / "gpt2_eager").verify())["draft"]
    found["dflash"] = strategies(open_export(fixtures / "qwen3_dflash").verify())["draft"]
    found["vl"] = strategies(open_export(fixtures / "qwen3_5_vl").verify())["draft"]

    same = "with an ordinary draft that has the same tokenizer (--draft DIR checks the pair)"
    assert found["llama"] == Strategy("draft", True, same)
    assert found["linear"] == Strategy("draft", True, f"{same}, with enable_prefix_caching=False", ("RUN009",))
    assert [name for name, strategy in found.items() if strategy.available] == ["llama", "linear"]
    assert found["vl"].reason == "ordinary drafts need a target that takes token ids"


def test_a_fault_of_the_draft_leaves_the_target_as_it_is(fixtures: Path, export_copy: Copier) -> None:
    draft = export_copy("llama", to="draft")
    (draft / "openvino_model.bin").write_bytes(b"")

    found = strategies(open_export(fixtures / "llama").verify(draft=draft))

    assert [name for name in ("plain", "dflash", "eagle3") if not found[name].available] == []
    assert not found["draft"].available


def test_a_head_in_the_directory_makes_it_no_ordinary_draft(fixtures: Path) -> None:
    """GenAI: "MTP speculative decoding requires a decomposed model with a text embeddings model"."""
    found = strategies(open_export(fixtures / "llama").verify(draft=fixtures / "qwen3_5_vl"))

    assert (found["draft"].available, found["draft"].findings) == (False, ("DFL016",))


def test_tokenizers_that_cannot_be_run_are_a_warning(
    fixtures: Path, export_copy: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = "openvino-genai, which contains the tokenizer, is not installed"
    monkeypatch.setattr(dfl_ordinary_tokenizer, "tokenize", lambda *_: (Tokenized(fault=absent),) * 2)
    draft = export_copy("llama", to="draft")
    FEWER_TOKENS(draft)

    verification = open_export(fixtures / "llama").verify(draft=draft)

    (finding,) = (finding for finding in verification.findings if finding.code == "DFL043")
    assert finding.severity == Severity.WARNING
    assert absent in finding.message
    assert strategies(verification)["draft"].available


def test_a_refusal_names_the_rule(fixtures: Path) -> None:
    evidence = RefusalEvidence(open_export(fixtures / "llama"), "draft", fixtures / "gpt2")

    assert evidence.explain(DIFFERENT).startswith("DFL042: the draft's bos token is 50256 (config.json)")


# -- special tokens --------------------------------------------------------------------

EOS, PAD = '<eos_token_id value="256" />', '<pad_token_id value="256" />'
NO_IDS = {"openvino_tokenizer.xml": {EOS: "", PAD: ""}, "config.json": {"bos_token_id": None, "eos_token_id": None}}
TEXT = {"content": "<|endoftext|>"}


def entry(value: str) -> dict[str, dict[str, object]]:
    return {"openvino_tokenizer.xml": {EOS: value and f'<eos_token_id value="{value}" />'}}


def tokens(**entries: object) -> dict[str, dict[str, object]]:
    return {**NO_IDS, "tokenizer_config.json": entries}


ADDED = {"256": TEXT, "257": {"content": "<|im_start|>"}}
CASES: dict[str, tuple[dict[str, dict[str, object]], tuple[int, int, int] | None]] = {
    "as exported": ({}, (1, 256, 256)),
    "no entry": (entry(""), (1, 2, 256)),
    "text before and after": (entry(" 255 or so"), (1, 255, 256)),
    "signed": (entry("+7"), (1, 7, 256)),
    "fraction": (entry("255.7"), (1, 255, 256)),
    "unset": (entry("-1"), (1, -1, 256)),
    "empty": ({"openvino_tokenizer.xml": {EOS: '<eos_token_id value="" />'}}, (1, 0, 256)),
    "no value": ({"openvino_tokenizer.xml": {EOS: "<eos_token_id />"}}, None),
    "word": (entry("True"), None),
    "too big": (entry("99999999999999999999"), None),
    "leading zeros": (entry("0" * 30 + "9"), (1, 9, 256)),
    "list in config": ({"config.json": {"bos_token_id": [1, 3]}}, (-1, 256, 256)),
    "null in config": ({"config.json": {"bos_token_id": None}}, (-1, 256, 256)),
    "float in config": ({"config.json": {"bos_token_id": 2.9}}, (2, 256, 256)),
    "boolean in config": ({"config.json": {"bos_token_id": True}}, None),
    "text in config": ({"config.json": {"bos_token_id": "1"}}, None),
    "only texts": (tokens(), (-1, -1, -1)),
    "added tokens": (tokens(added_tokens_decoder=ADDED), (-1, 256, 256)),
    "added begin token": (tokens(added_tokens_decoder=ADDED, bos_token="<|im_start|>"), (257, 256, 256)),
    "no padding token": (tokens(added_tokens_decoder=ADDED, pad_token=None), (-1, 256, 256)),
    "key of added tokens": (tokens(added_tokens_decoder={"x": TEXT}), None),
    "object as token": (tokens(eos_token=TEXT), None),
    "map": (
        {
            **tokens(added_tokens_decoder=ADDED, eos_token=None),
            "special_tokens_map.json": {"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|endoftext|>"},
        },
        (257, -1, 256),
    ),
}
"""Changes by file, and the ids of begin, end and padding token in GenAI 2026.4.1; None if it refuses the tokenizer."""


def changed(directory: Path, changes: dict[str, dict[str, object]]) -> Path:
    for file, edits in changes.items():
        path = directory / file
        if path.suffix == ".xml":
            text = path.read_text()
            for old, new in edits.items():
                assert old in text
                text = text.replace(old, str(new))
            path.write_text(text)
        else:
            content = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(
                json.dumps({key: value for key, value in {**content, **edits}.items() if value is not None})
            )
    return directory


@pytest.mark.parametrize("case", CASES)
def test_special_tokens_are_read_as_the_runtime_does(case: str, export_copy: Copier) -> None:
    changes, expected = CASES[case]
    export = ModelDirectory.open(changed(export_copy("llama"), changes))

    if expected is None:
        with pytest.raises(UnreadableTokensError):
            special_tokens(export)
    else:
        assert tuple(token.id for token in special_tokens(export)) == expected


@pytest.mark.slow
@pytest.mark.skipif(not genai.available(), reason="openvino-genai is not installed")
def test_the_runtime_reads_these_special_tokens(export_copy: Copier) -> None:
    import openvino_genai

    seen: dict[str, tuple[int, int, int] | None] = {}
    for case, (changes, _) in CASES.items():
        directory = changed(export_copy("llama", to=re.sub(r"\W", "-", case)), changes)
        try:
            read = openvino_genai.Tokenizer(str(directory))
        except (RuntimeError, ValueError):
            seen[case] = None
        else:
            seen[case] = (read.get_bos_token_id(), read.get_eos_token_id(), read.get_pad_token_id())

    assert seen == {case: expected for case, (_, expected) in CASES.items()}
