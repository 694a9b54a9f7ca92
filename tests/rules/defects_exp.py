"""Seeded defects of the directory: parts, configuration and vocabularies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from defects import Defect, add, both, copy, in_json, remove, rewrite, sub

X, B = "openvino_model.xml", "openvino_model.bin"
LANGUAGE, EMBEDDINGS = "openvino_language_model.xml", "openvino_text_embeddings_model.xml"
TOKENIZER, DETOKENIZER = "openvino_tokenizer.xml", "openvino_detokenizer.xml"
VISION = "openvino_vision_embeddings_model"
CONFIG = "config.json"
NOTE, WARNING = {"severity": "note"}, {"severity": "warning"}
VOCABULARY = r'<layer id="\d+" name="[^"]*" type="%s"'


def bigger_vocabulary(file: str) -> Callable[[Path], object]:
    """Extend the list of positions that the vocabulary op reads, both its shape and its bytes."""
    data = r'element_type="i32" shape="263" offset="\d+" size="1052"'
    grown = 'element_type="i32" shape="600" offset="0" size="2400"'
    weights = file.replace(".xml", ".bin")
    return both(sub(file, data, grown, count=2), rewrite(weights, lambda content: content + bytes(4000)))


def missing(name: str, base: str, stem: str, code: str, **more: Any) -> Defect:
    """A part that is missing, XML and weights."""
    return Defect(name, base, remove(f"{stem}.xml", f"{stem}.bin"), code, f"{stem}.xml", **more)


def configured(
    name: str, base: str, *path: str, value: object, code: str, at: str | None = None, **more: Any
) -> Defect:
    """Another value for a key of config.json, which is reported at this key."""
    at = f'"{path[-1]}"' if at is None else at
    return Defect(name, base, in_json(CONFIG, *path, value=value), code, CONFIG, at, **more)


DEFECTS = (
    # -- parts -------------------------------------------------------------------------
    Defect("target-missing", "falcon", remove(X, B), "EXP001", None),
    Defect(
        "target-of-encoder-decoder",
        "falcon",
        both(
            copy(X, "openvino_encoder_model.xml"),
            copy(B, "openvino_encoder_model.bin"),
            copy(X, "openvino_decoder_model.xml"),
            copy(B, "openvino_decoder_model.bin"),
            remove(X, B),
        ),
        "EXP001",
        None,
    ),
    Defect(
        "second-target",
        "qwen3_5_vl",
        both(copy(LANGUAGE, X), copy("openvino_language_model.bin", B)),
        "EXP002",
        X,
        causes=("MTP006",),
    ),
    Defect(
        "second-target-in-text-export",
        "falcon",
        both(copy(X, LANGUAGE), copy(B, "openvino_language_model.bin")),
        "EXP002",
        LANGUAGE,
    ),
    missing("tokenizer-missing", "falcon", "openvino_tokenizer", "EXP003"),
    missing("detokenizer-missing", "qwen3_5_vl", "openvino_detokenizer", "EXP003"),
    missing("text-embeddings-missing", "qwen3_5_vl", "openvino_text_embeddings_model", "EXP004", causes=("MTP006",)),
    missing("text-embeddings-of-llava-missing", "llava", "openvino_text_embeddings_model", "EXP004"),
    missing("vision-missing", "llava", VISION, "EXP005"),
    missing("vision-merger-missing", "qwen3_5_vl", "openvino_vision_embeddings_merger_model", "EXP005"),
    missing("vision-positions-missing", "qwen3_5_moe_vl", "openvino_vision_embeddings_pos_model", "EXP005"),
    missing("per-layer-embeddings-missing", "gemma4_vl", "openvino_text_embeddings_per_layer_model", "EXP005"),
    configured(
        "family-unknown-to-runtime",
        "llava",
        "model_type",
        value="mistral3",
        code="EXP006",
        at='"model_type": "mistral3"',
        causes=("EXP005",),
    ),
    configured(
        "family-of-text-model",
        "qwen3_5_vl",
        "model_type",
        value="qwen3_5_text",
        code="EXP006",
        at='"model_type": "qwen3_5_text"',
    ),
    Defect(
        "weights-without-xml",
        "falcon",
        add("openvino_old_model.bin", b"1234"),
        "EXP007",
        "openvino_old_model.bin",
        **WARNING,
    ),
    Defect(
        "temporary-file",
        "falcon",
        add("openvino_model.xml.irtools-tmp"),
        "EXP007",
        "openvino_model.xml.irtools-tmp",
        **WARNING,
    ),
    Defect(
        "part-with-unknown-name",
        "falcon",
        both(
            copy(DETOKENIZER, "openvino_detokenizer_old.xml"),
            copy("openvino_detokenizer.bin", "openvino_detokenizer_old.bin"),
        ),
        "EXP007",
        "openvino_detokenizer_old.xml",
        **WARNING,
    ),
    Defect("weights-of-checkpoint", "falcon", add("model.safetensors"), "EXP007", "model.safetensors", **NOTE),
    # -- JSON --------------------------------------------------------------------------
    Defect(
        "config-truncated",
        "falcon",
        rewrite(CONFIG, lambda d: d[:200]),
        "EXP010",
        CONFIG,
        lambda d: (d / CONFIG).read_bytes().count(b"\n") + 1,
    ),
    Defect("config-no-object", "falcon", rewrite(CONFIG, lambda _: b"[1, 2]"), "EXP010", CONFIG),
    Defect(
        "generation-config-malformed",
        "falcon",
        rewrite("generation_config.json", lambda _: b"{'a': 1}"),
        "EXP010",
        "generation_config.json",
        lambda _: 1,
    ),
    Defect(
        "tokenizer-json-malformed",
        "falcon",
        rewrite("tokenizer.json", lambda d: d[:-5]),
        "EXP010",
        "tokenizer.json",
        lambda d: (d / "tokenizer.json").read_bytes().count(b"\n") + 1,
        **WARNING,
    ),
    Defect("config-missing", "falcon", remove(CONFIG), "EXP011", CONFIG, **WARNING),
    Defect("config-of-wrapper-missing", "qwen3_5_vl", remove(CONFIG), "EXP011", CONFIG),
    Defect(
        "preprocessor-config-missing",
        "qwen3_5_vl",
        remove("preprocessor_config.json"),
        "EXP011",
        "preprocessor_config.json",
        **NOTE,
    ),
    Defect("tokenizer-json-missing", "falcon", remove("tokenizer.json"), "EXP011", "tokenizer.json", **NOTE),
    # -- config.json and the graph -----------------------------------------------------
    configured("config-has-more-layers", "falcon", "num_hidden_layers", value=5, code="EXP012", **WARNING),
    configured(
        "config-of-wrapper-has-fewer-layers",
        "qwen3_5_vl",
        "text_config",
        "num_hidden_layers",
        value=3,
        code="EXP012",
        options={"expect_mtp": True},
    ),
    configured(
        "config-lists-other-layers",
        "qwen3_5_vl",
        "text_config",
        "layer_types",
        value=["full_attention"] * 6,
        code="EXP012",
        **WARNING,
    ),
    configured("config-is-wider", "falcon", "hidden_size", value=64, code="EXP013", **WARNING),
    configured(
        "config-of-wrapper-is-wider",
        "qwen3_5_vl",
        "text_config",
        "hidden_size",
        value=64,
        code="EXP013",
        at='"hidden_size": 64',
        options={"expect_mtp": True},
    ),
    configured("config-has-larger-vocabulary", "falcon", "vocab_size", value=513, code="EXP014", **WARNING),
    configured(
        "config-of-wrapper-has-smaller-vocabulary",
        "qwen3_5_vl",
        "text_config",
        "vocab_size",
        value=500,
        code="EXP014",
        options={"expect_mtp": True},
    ),
    configured("config-says-untied", "falcon", "tie_word_embeddings", value=False, code="EXP015", **NOTE),
    configured("config-says-tied", "llama", "tie_word_embeddings", value=True, code="EXP015", **NOTE),
    # -- vocabularies ------------------------------------------------------------------
    Defect(
        "tokenizer-larger-than-embedding",
        "falcon",
        bigger_vocabulary(TOKENIZER),
        "EXP020",
        TOKENIZER,
        VOCABULARY % "BPETokenizer",
        causes=("IR029",),
    ),
    Defect(
        "tokenizer-larger-than-text-embeddings",
        "qwen3_5_vl",
        bigger_vocabulary(TOKENIZER),
        "EXP020",
        TOKENIZER,
        VOCABULARY % "BPETokenizer",
        causes=("IR029",),
    ),
    Defect(
        "token-added-to-json",
        "falcon",
        sub("tokenizer.json", '"id": 262', '"id": 263'),
        "EXP021",
        "tokenizer.json",
        '"id": 263',
        **WARNING,
    ),
    Defect(
        "token-behind-embedding",
        "mixtral",
        sub("tokenizer.json", '"id": 262', '"id": 512'),
        "EXP021",
        "tokenizer.json",
        '"id": 512',
        **WARNING,
    ),
    Defect(
        "detokenizer-larger",
        "falcon",
        bigger_vocabulary(DETOKENIZER),
        "EXP022",
        DETOKENIZER,
        VOCABULARY % "VocabDecoder",
        **WARNING,
        causes=("IR029",),
    ),
    Defect(
        "detokenizer-larger-in-wrapper",
        "qwen3_5_vl",
        bigger_vocabulary(DETOKENIZER),
        "EXP022",
        DETOKENIZER,
        VOCABULARY % "VocabDecoder",
        **WARNING,
        causes=("IR029",),
    ),
    Defect(
        "embeddings-of-another-width",
        "llava",
        sub(EMBEDDINGS, "<dim>32</dim>", "<dim>64</dim>", 20),
        "EXP023",
        EMBEDDINGS,
        r'<layer id="\d+" name="[^"]*" type="Result"',
    ),
    Defect(
        "language-model-of-another-width",
        "llava",
        sub(LANGUAGE, r'shape="\?,\?,32" element_type="f32"', 'shape="?,?,48" element_type="f32"'),
        "EXP023",
        EMBEDDINGS,
        r'<layer id="\d+" name="[^"]*" type="Result"',
    ),
    *(
        Defect(
            name,
            base,
            sub(DETOKENIZER, f'type="{op}" version="extension"', f'type="{newer}" version="{opset}"'),
            "EXP024",
            DETOKENIZER,
            rf'<layer id="\d+" name="[^"]*" type="{newer}"',
        )
        for name, base, op, newer, opset in (
            ("detokenizer-with-newer-op", "falcon", "VocabDecoder", "VocabDecoderNew", "extension"),
            ("detokenizer-with-newer-op-in-wrapper", "qwen3_5_vl", "UTF8Validate", "UTF8Validate", "opset18"),
        )
    ),
)
