"""Seeded defects of a target and an ordinary language model as its draft."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from defects import Defect, in_json, remove, sub
from defects_dfl import X, in_draft, nothing
from defects_mtp import FIXTURES, NET, WARNING, layer, renamed
from defects_run import LOGITS, half_logits, keys, own_state, retyped, unfused
from ir_edit import IR, edit

BASE = "qwen3"
T = "openvino_tokenizer.xml"
TOKENIZER = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")

Edit = Callable[[Path], object]


def pair(name: str, change: Edit, code: str, file: str, at: str | None = None, **more: object) -> Defect:
    """A defect of a sound pair, of which both models are copies of one export."""
    return Defect(name, BASE, change, code, f"../draft/{file}", at, options={"draft": BASE}, **more)


def of_draft(change: Edit) -> Edit:
    return lambda directory: change(directory.parent / "draft")


def with_tokenizer(directory: Path) -> None:
    """Give the draft the tokenizer and the special tokens of the target."""
    for file in (*TOKENIZER, "config.json", "tokenizer_config.json"):
        shutil.copy(directory / file, directory.parent / "draft" / file)


def stateless(directory: Path) -> None:
    for file in (X, "openvino_model.bin"):
        shutil.copy(FIXTURES / "zoo" / "llama_stateless" / file, directory.parent / "draft" / file)


def twice_the_logits(ir: IR) -> None:
    result = ir.result("logits")
    source = ir.source(result, 0)
    outputs = [("f32", (-1, -1, 1024))]
    ir.rewire(
        result, 0, ir.output(ir.add("Concat", [source, source], name="twice", data={"axis": "2"}, outputs=outputs))
    )
    result.set("output_names", "logits")


def other_letters(directory: Path) -> None:
    """Exchange two letters in the vocabulary of the tokenizer IR, and leave tokenizer.json."""
    path = directory / TOKENIZER[1]
    data = path.read_bytes()
    assert data.count(b"abcde") == 1
    path.write_bytes(data.replace(b"abcde", b"ebcda"))


def only_added_tokens(directory: Path) -> None:
    """Let tokenizer_config.json alone define the ids: 257 for the end token."""
    path = directory / "tokenizer_config.json"
    content = json.loads(path.read_text())
    content["added_tokens_decoder"] = {"257": {"content": content["eos_token"]}}
    path.write_text(json.dumps(content, indent=2))
    sub(T, r'\s*<eos_token_id value="256" />\s*', "\n")(directory)


EOS, PAD = '<eos_token_id value="256" />', '<pad_token_id value="256" />'
FEWER_TOKENS = sub(T, 'behaviour="isolate"', 'behaviour="remove"')

DEFECTS = (
    pair("ord-no-tokenizer", of_draft(remove(*TOKENIZER)), "DFL041", T),
    pair("ord-tokenizer-without-xml", of_draft(remove(T)), "DFL041", T),
    Defect(
        "ord-other-family",
        "llama",
        nothing,
        "DFL042",
        "../draft/config.json",
        '"bos_token_id"',
        options={"draft": "gpt2"},
    ),
    pair(
        "ord-bos-in-config",
        of_draft(in_json("config.json", "bos_token_id", value=5)),
        "DFL042",
        "config.json",
        '"bos_token_id"',
    ),
    pair("ord-eos", of_draft(sub(T, EOS, '<eos_token_id value="255" />')), "DFL042", T, "<eos_token_id"),
    pair("ord-pad", of_draft(sub(T, PAD, '<pad_token_id value=" 7 of 9" />')), "DFL042", T, "<pad_token_id"),
    pair("ord-no-eos", of_draft(sub(T, EOS, "")), "DFL042", T, NET),
    pair("ord-eos-of-added-tokens", of_draft(only_added_tokens), "DFL042", "tokenizer_config.json"),
    pair(
        "ord-bos-text",
        of_draft(in_json("config.json", "bos_token_id", value="5")),
        "DFL042",
        "config.json",
        '"bos_token_id"',
    ),
    pair("ord-eos-word", of_draft(sub(T, EOS, '<eos_token_id value="end" />')), "DFL042", T, "<eos_token_id"),
    pair("ord-eos-without-value", of_draft(sub(T, EOS, "<eos_token_id />")), "DFL042", T, "<eos_token_id"),
    pair(
        "ord-token-object",
        of_draft(in_json("tokenizer_config.json", "eos_token", value={"content": "x"})),
        "DFL042",
        "tokenizer_config.json",
        '"eos_token"',
    ),
    pair("ord-fewer-tokens", of_draft(FEWER_TOKENS), "DFL043", T, NET),
    pair("ord-fewer-tokens-in-target", FEWER_TOKENS, "DFL043", T, NET),
    pair("ord-other-letters", of_draft(other_letters), "DFL043", T, NET, **WARNING),
    pair("ord-more-logits", in_draft(twice_the_logits), "DFL044", X, LOGITS, **WARNING),
    pair(
        "ord-more-logits-in-target",
        lambda directory: edit(directory / X, twice_the_logits),
        "DFL044",
        X,
        LOGITS,
        **WARNING,
    ),
    pair("ord-stateless", stateless, "DFL045", X, NET),
    pair("ord-unfused", in_draft(unfused()), "DFL045", X, NET),
    pair("ord-one-layer-unfused", in_draft(unfused(3)), "DFL045", X, '<layer [^>]*name="ReadValue_188594"'),
    pair("ord-state-of-its-own", in_draft(own_state), "DFL045", X, layer("own_read")),
    pair("ord-keys-converted", in_draft(keys), "DFL045", X, layer("to_narrow")),
    pair(
        "ord-logits-renamed",
        in_draft(lambda ir: ir.rename_tensor("logits", "scores")),
        "DFL045",
        X,
        '<layer [^>]*type="Result"[^>]*output_names="scores"',
    ),
    pair("ord-logits-f16", in_draft(half_logits), "DFL045", X, LOGITS),
    pair("ord-ids-i32", in_draft(retyped("input_ids", "i32", "i64")), "DFL045", X, layer("input_ids")),
    pair("ord-ids-renamed", in_draft(renamed("input_ids")), "DFL045", X, NET),
    pair("ord-positions-tensor", in_draft(renamed("position_ids", friendly=False)), "DFL045", X, layer("position_ids")),
    pair("ord-positions-renamed", in_draft(renamed("position_ids")), "DFL045", X, layer("position_ids_x"), **WARNING),
    pair(
        "ord-generation-config",
        of_draft(sub("generation_config.json", r"\{", "{{")),
        "DFL045",
        "generation_config.json",
        r"\{",
    ),
    *(
        Defect(
            f"ord-linear-attention-{name}",
            "llama",
            with_tokenizer,
            "DFL046",
            f"../draft/{X}",
            '<layer [^>]*type="ReadValue"[^>]*>\\s*<data [^>]*(?:conv|recurrent)',
            options={"draft": f"zoo/{name}"},
        )
        for name in ("lfm2_moe", "qwen3_next")
    ),
)
