"""Seeded defects of the directory: parts, configuration, vocabularies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from defects import Defect, add, both, copy, in_json, remove, rewrite, sub

X, B = "openvino_model.xml", "openvino_model.bin"
LANGUAGE, EMBEDDINGS = "openvino_language_model.xml", "openvino_text_embeddings_model.xml"
TOKENIZER, DETOKENIZER = "openvino_tokenizer.xml", "openvino_detokenizer.xml"
VISION = "openvino_vision_embeddings_model"
CONFIG, WARNING, NOTE = "config.json", "warning", "note"
VOCABULARY = r'<layer id="\d+" name="[^"]*" type="%s"'


def bigger_vocabulary(file: str) -> Callable[[Path], object]:
    """Let the op of a tokenizer read a longer list of positions: its shape grows, its bytes too."""
    data = r'element_type="i32" shape="263" offset="\d+" size="1052"'
    grown = 'element_type="i32" shape="600" offset="0" size="2400"'
    weights = file.replace(".xml", ".bin")
    return both(sub(file, data, grown, count=2), rewrite(weights, lambda content: content + bytes(4000)))


def of_part(stem: str) -> tuple[str, str]:
    return f"{stem}.xml", f"{stem}.bin"


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
    Defect("tokenizer-missing", "falcon", remove(*of_part("openvino_tokenizer")), "EXP003", TOKENIZER),
    Defect("detokenizer-missing", "qwen3_5_vl", remove(*of_part("openvino_detokenizer")), "EXP003", DETOKENIZER),
    Defect(
        "text-embeddings-missing",
        "qwen3_5_vl",
        remove(*of_part("openvino_text_embeddings_model")),
        "EXP004",
        EMBEDDINGS,
        causes=("MTP006",),
    ),
    Defect(
        "text-embeddings-of-llava-missing",
        "llava",
        remove(*of_part("openvino_text_embeddings_model")),
        "EXP004",
        EMBEDDINGS,
    ),
    Defect("vision-missing", "llava", remove(*of_part(VISION)), "EXP005", f"{VISION}.xml"),
    Defect(
        "vision-merger-missing",
        "qwen3_5_vl",
        remove(*of_part("openvino_vision_embeddings_merger_model")),
        "EXP005",
        "openvino_vision_embeddings_merger_model.xml",
    ),
    Defect(
        "vision-positions-missing",
        "qwen3_5_moe_vl",
        remove(*of_part("openvino_vision_embeddings_pos_model")),
        "EXP005",
        "openvino_vision_embeddings_pos_model.xml",
    ),
    Defect(
        "per-layer-embeddings-missing",
        "gemma4_vl",
        remove(*of_part("openvino_text_embeddings_per_layer_model")),
        "EXP005",
        "openvino_text_embeddings_per_layer_model.xml",
    ),
    Defect(
        "family-unknown-to-runtime",
        "llava",
        in_json(CONFIG, "model_type", value="mistral3"),
        "EXP006",
        CONFIG,
        '"model_type": "mistral3"',
        causes=("EXP005",),
    ),
    Defect(
        "family-of-text-model",
        "qwen3_5_vl",
        in_json(CONFIG, "model_type", value="qwen3_5_text"),
        "EXP006",
        CONFIG,
        '"model_type": "qwen3_5_text"',
    ),
    Defect(
        "weights-without-xml",
        "falcon",
        add("openvino_old_model.bin", b"1234"),
        "EXP007",
        "openvino_old_model.bin",
        severity=WARNING,
    ),
    Defect(
        "temporary-file",
        "falcon",
        add("openvino_model.xml.irtools-tmp"),
        "EXP007",
        "openvino_model.xml.irtools-tmp",
        severity=WARNING,
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
        severity=WARNING,
    ),
    Defect("weights-of-checkpoint", "falcon", add("model.safetensors"), "EXP007", "model.safetensors", severity=NOTE),
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
        severity=WARNING,
    ),
    Defect("config-missing", "falcon", remove(CONFIG), "EXP011", CONFIG, severity=WARNING),
    Defect("config-of-wrapper-missing", "qwen3_5_vl", remove(CONFIG), "EXP011", CONFIG),
    Defect(
        "preprocessor-config-missing",
        "qwen3_5_vl",
        remove("preprocessor_config.json"),
        "EXP011",
        "preprocessor_config.json",
        severity=NOTE,
    ),
    Defect("tokenizer-json-missing", "falcon", remove("tokenizer.json"), "EXP011", "tokenizer.json", severity=NOTE),
    # -- config.json and the graph -----------------------------------------------------
    Defect(
        "config-has-more-layers",
        "falcon",
        in_json(CONFIG, "num_hidden_layers", value=5),
        "EXP012",
        CONFIG,
        '"num_hidden_layers"',
        severity=WARNING,
    ),
    Defect(
        "config-of-wrapper-has-fewer-layers",
        "qwen3_5_vl",
        in_json(CONFIG, "text_config", "num_hidden_layers", value=3),
        "EXP012",
        CONFIG,
        '"num_hidden_layers"',
        {"expect_mtp": True},
    ),
    Defect(
        "config-lists-other-layers",
        "qwen3_5_vl",
        in_json(CONFIG, "text_config", "layer_types", value=["full_attention"] * 6),
        "EXP012",
        CONFIG,
        '"layer_types"',
        severity=WARNING,
    ),
    Defect(
        "config-is-wider",
        "falcon",
        in_json(CONFIG, "hidden_size", value=64),
        "EXP013",
        CONFIG,
        '"hidden_size"',
        severity=WARNING,
    ),
    Defect(
        "config-of-wrapper-is-wider",
        "qwen3_5_vl",
        in_json(CONFIG, "text_config", "hidden_size", value=64),
        "EXP013",
        CONFIG,
        '"hidden_size": 64',
        {"expect_mtp": True},
    ),
    Defect(
        "config-has-larger-vocabulary",
        "falcon",
        in_json(CONFIG, "vocab_size", value=513),
        "EXP014",
        CONFIG,
        '"vocab_size"',
        severity=WARNING,
    ),
    Defect(
        "config-of-wrapper-has-smaller-vocabulary",
        "qwen3_5_vl",
        in_json(CONFIG, "text_config", "vocab_size", value=500),
        "EXP014",
        CONFIG,
        '"vocab_size"',
        {"expect_mtp": True},
    ),
    Defect(
        "config-says-untied",
        "falcon",
        in_json(CONFIG, "tie_word_embeddings", value=False),
        "EXP015",
        CONFIG,
        '"tie_word_embeddings"',
        severity=NOTE,
    ),
    Defect(
        "config-says-tied",
        "llama",
        in_json(CONFIG, "tie_word_embeddings", value=True),
        "EXP015",
        CONFIG,
        '"tie_word_embeddings"',
        severity=NOTE,
    ),
    # -- vocabularies ------------------------------------------------------------------
    Defect(
        "tokenizer-larger-than-embedding",
        "falcon",
        bigger_vocabulary(TOKENIZER),
        "EXP020",
        TOKENIZER,
        VOCABULARY % "BPETokenizer",
    ),
    Defect(
        "tokenizer-larger-than-text-embeddings",
        "qwen3_5_vl",
        bigger_vocabulary(TOKENIZER),
        "EXP020",
        TOKENIZER,
        VOCABULARY % "BPETokenizer",
    ),
    Defect(
        "token-added-to-json",
        "falcon",
        sub("tokenizer.json", '"id": 262', '"id": 263'),
        "EXP021",
        "tokenizer.json",
        '"id": 263',
        severity=WARNING,
    ),
    Defect(
        "token-behind-embedding",
        "mixtral",
        sub("tokenizer.json", '"id": 262', '"id": 512'),
        "EXP021",
        "tokenizer.json",
        '"id": 512',
        severity=WARNING,
    ),
    Defect(
        "detokenizer-larger",
        "falcon",
        bigger_vocabulary(DETOKENIZER),
        "EXP022",
        DETOKENIZER,
        VOCABULARY % "VocabDecoder",
        severity=WARNING,
    ),
    Defect(
        "detokenizer-larger-in-wrapper",
        "qwen3_5_vl",
        bigger_vocabulary(DETOKENIZER),
        "EXP022",
        DETOKENIZER,
        VOCABULARY % "VocabDecoder",
        severity=WARNING,
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
)
