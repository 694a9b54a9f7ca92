"""Seeded defects of provenance."""

from __future__ import annotations

from defects import Defect, both, in_json, sub

X, TOKENIZER = "openvino_model.xml", "openvino_tokenizer.xml"
MTP, EMBEDDINGS = "openvino_mtp_model.xml", "openvino_text_embeddings_model.xml"
LANGUAGE, MERGER = "openvino_language_model.xml", "openvino_vision_embeddings_merger_model.xml"
RUNTIME, EXPORTER = r"<Runtime_version ", r"<optimum_intel_version "
OPENVINO = r'(<Runtime_version value=")2026\.4\.1-22982-e213a147257-releases/2026/4'
NOTE, WARNING = "note", "warning"

DEFECTS = (
    Defect(
        "mtp-of-other-openvino",
        "qwen3_5_vl",
        sub(MTP, OPENVINO, r"\g<1>2026.3.0-22000-0123456789a-releases/2026/3"),
        "VER001",
        MTP,
        RUNTIME,
        severity=WARNING,
    ),
    Defect(
        "vision-of-other-openvino",
        "qwen3_5_vl",
        sub(MERGER, OPENVINO, r"\g<1>2025.4.0-20000-0123456789a-releases/2025/4"),
        "VER001",
        MERGER,
        RUNTIME,
        severity=WARNING,
    ),
    Defect(
        "tokenizer-of-other-openvino",
        "falcon",
        both(
            sub(TOKENIZER, r'(<openvino_version value=")2026\.4\.1', r"\g<1>2026.3.0"),
            sub(TOKENIZER, r'(<openvino_tokenizers_version value=")2026\.4\.1', r"\g<1>2026.3.0"),
        ),
        "VER001",
        TOKENIZER,
        "<openvino_version ",
        severity=NOTE,
    ),
    Defect(
        "mtp-of-other-exporter",
        "qwen3_5_vl",
        sub(MTP, r'(<optimum_intel_version value=")2\.2\.0', r"\g<1>2.3.1"),
        "VER002",
        MTP,
        EXPORTER,
        severity=WARNING,
    ),
    Defect(
        "embeddings-of-other-transformers",
        "qwen3_5_vl",
        sub(EMBEDDINGS, r'(<transformers_version value=")5\.2\.0', r"\g<1>4.57.6"),
        "VER002",
        EMBEDDINGS,
        "<transformers_version ",
        severity=WARNING,
    ),
    Defect(
        "mtp-of-other-nncf",
        "qwen3_5_vl_int4",
        sub(MTP, r'(<version value=")3\.4\.0', r"\g<1>3.1.0"),
        "VER002",
        MTP,
        '<version value="3.1.0"',
        severity=WARNING,
    ),
    Defect(
        "exporter-before-mtp",
        "qwen3_5_vl",
        sub(LANGUAGE, r'(<optimum_intel_version value=")2\.2\.0', r"\g<1>2.1.0"),
        "VER003",
        LANGUAGE,
        EXPORTER,
        severity=WARNING,
    ),
    Defect(
        "exporter-before-dflash",
        "qwen3_dflash",
        sub(X, r'(<optimum_intel_version value=")2\.2\.0', r"\g<1>1.27.0"),
        "VER003",
        X,
        EXPORTER,
        severity=WARNING,
    ),
    Defect(
        "exporter-unreleased",
        "falcon",
        sub(X, r'(<optimum_intel_version value=")2\.2\.0', r"\g<1>2.3.0.dev0+1a2b3c4"),
        "VER004",
        X,
        EXPORTER,
        severity=NOTE,
    ),
    Defect(
        "openvino-unreleased",
        "falcon",
        sub(X, OPENVINO, r"\g<1>2026.4.1-22982-e213a147257"),
        "VER004",
        X,
        RUNTIME,
        severity=NOTE,
    ),
    Defect(
        "newer-than-target-runtime",
        "falcon",
        sub(X, OPENVINO, r"\g<1>2027.1.0-24000-0123456789a-releases/2027/1"),
        "VER005",
        X,
        RUNTIME,
        severity=WARNING,
    ),
    Defect(
        "older-target-runtime",
        "falcon",
        sub(X, "</net>", "</net>\n"),
        "VER005",
        X,
        RUNTIME,
        {"target_runtime": "2026.2"},
        severity=WARNING,
    ),
    Defect(
        "tokenizers-of-other-release",
        "falcon",
        sub(TOKENIZER, r'(<openvino_tokenizers_version value=")2026\.4\.1', r"\g<1>2026.2.0"),
        "VER006",
        TOKENIZER,
        "<openvino_tokenizers_version ",
        severity=WARNING,
    ),
    Defect(
        "openvino-of-detokenizer-other",
        "falcon",
        sub("openvino_detokenizer.xml", r'(<openvino_version value=")2026\.4\.1', r"\g<1>2025.4.0"),
        "VER006",
        "openvino_detokenizer.xml",
        "<openvino_tokenizers_version ",
        severity=WARNING,
    ),
    Defect(
        "config-of-other-transformers",
        "falcon",
        in_json("config.json", "transformers_version", value="4.40.0"),
        "VER007",
        "config.json",
        '"transformers_version"',
        severity=NOTE,
    ),
    Defect(
        "config-of-wrapper-of-other-transformers",
        "qwen3_5_vl",
        in_json("config.json", "transformers_version", value="5.5.4"),
        "VER007",
        "config.json",
        '"transformers_version"',
        severity=NOTE,
    ),
)
