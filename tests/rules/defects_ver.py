"""Seeded defects of provenance."""

from __future__ import annotations

import re

from defects import Defect, both, in_json, remove, sub

X, TOKENIZER, DETOKENIZER = "openvino_model.xml", "openvino_tokenizer.xml", "openvino_detokenizer.xml"
MTP, EMBEDDINGS = "openvino_mtp_model.xml", "openvino_text_embeddings_model.xml"
LANGUAGE, MERGER = "openvino_language_model.xml", "openvino_vision_embeddings_merger_model.xml"
VL = "qwen3_5_vl"
EXPORTER, RUNTIME = (
    ("optimum_intel_version", "2.2.0"),
    ("Runtime_version", "2026.4.1-22982-e213a147257-releases/2026/4"),
)
OPENVINO, TOKENIZERS = ("openvino_version", "2026.4.1"), ("openvino_tokenizers_version", "2026.4.1")
TRANSFORMERS, NNCF = ("transformers_version", "5.2.0"), ("version", "3.4.0")
NOTE, WARNING = "note", "warning"


def set_version(file: str, entry: tuple[str, str], version: str):
    """Replace the value of an rt_info entry, given as key and current value."""
    key, current = entry
    return sub(file, rf'(<{key} value="){re.escape(current)}', rf"\g<1>{version}")


def seed(
    name: str,
    base: str,
    file: str,
    entry: tuple[str, str],
    version: str,
    code: str,
    *,
    at: str | None = None,
    severity: str = WARNING,
) -> Defect:
    """Another version in one rt_info entry, which is reported at this entry."""
    at = f"<{entry[0]} " if at is None else at
    return Defect(name, base, set_version(file, entry, version), code, file, at, severity=severity)


DEFECTS = (
    seed("mtp-of-other-openvino", VL, MTP, RUNTIME, "2026.3.0-22000-0123456789a-releases/2026/3", "VER001"),
    seed("vision-of-other-openvino", VL, MERGER, RUNTIME, "2025.4.0-20000-0123456789a-releases/2025/4", "VER001"),
    Defect(
        "tokenizer-of-other-openvino",
        "falcon",
        both(set_version(TOKENIZER, OPENVINO, "2026.3.0"), set_version(TOKENIZER, TOKENIZERS, "2026.3.0")),
        "VER001",
        TOKENIZER,
        "<openvino_version ",
        severity=NOTE,
    ),
    seed("mtp-of-other-exporter", VL, MTP, EXPORTER, "2.3.1", "VER002"),
    seed("embeddings-of-other-transformers", VL, EMBEDDINGS, TRANSFORMERS, "4.57.6", "VER002"),
    seed("mtp-of-other-nncf", "qwen3_5_vl_int4", MTP, NNCF, "3.1.0", "VER002", at='<version value="3.1.0"'),
    seed("exporter-before-mtp", VL, LANGUAGE, EXPORTER, "2.1.0", "VER003"),
    Defect(
        "exporter-before-declared-mtp",
        VL,
        both(remove(MTP, "openvino_mtp_model.bin"), set_version(LANGUAGE, EXPORTER, "2.1.0")),
        "VER003",
        LANGUAGE,
        "<optimum_intel_version ",
        severity=WARNING,
    ),
    seed("exporter-before-dflash", "qwen3_dflash", X, EXPORTER, "1.27.0", "VER003"),
    seed("exporter-unreleased", "falcon", X, EXPORTER, "2.3.0.dev0+1a2b3c4", "VER004", severity=NOTE),
    seed("openvino-unreleased", "falcon", X, RUNTIME, "2026.4.1-22982-e213a147257", "VER004", severity=NOTE),
    seed("newer-than-target-runtime", "falcon", X, RUNTIME, "2027.1.0-24000-0123456789a-releases/2027/1", "VER005"),
    Defect(
        "older-target-runtime",
        "falcon",
        sub(X, "</net>", "</net>\n"),
        "VER005",
        X,
        "<Runtime_version ",
        {"target_runtime": "2026.2"},
        severity=WARNING,
    ),
    seed("tokenizers-of-other-release", "falcon", TOKENIZER, TOKENIZERS, "2026.2.0", "VER006"),
    seed(
        "openvino-of-detokenizer-other",
        "falcon",
        DETOKENIZER,
        OPENVINO,
        "2025.4.0",
        "VER006",
        at="<openvino_tokenizers_version ",
    ),
    *(
        Defect(
            name,
            base,
            in_json("config.json", "transformers_version", value=version),
            "VER007",
            "config.json",
            '"transformers_version"',
            severity=NOTE,
        )
        for name, base, version in (
            ("config-of-other-transformers", "falcon", "4.40.0"),
            ("config-of-wrapper-of-other-transformers", VL, "5.5.4"),
        )
    ),
    *(
        Defect(
            name,
            base,
            sub(X if base == "falcon" else MTP, "</net>", "</net>\n"),
            "VER008",
            at_file,
            "<net ",
            {"target_runtime": runtime, **options},
            severity=severity,
            causes=causes,
        )
        for name, base, at_file, runtime, options, severity, causes in (
            ("head-in-older-runtime", VL, MTP, "2026.3.1", {"expect_mtp": True}, "error", ()),
            ("head-beside-older-runtime", VL, MTP, "2025.4", {}, NOTE, ()),
            ("expected-head-in-older-runtime", "falcon", X, "2026.3", {"expect_mtp": True}, "error", ("MTP001",)),
        )
    ),
)
