"""Seeded defects of weight compression."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from defects import Defect, in_json, rewrite, sub
from defects_ir import EDGE, wiring
from defects_mtp import from_other

BASE = "qwen3_5_vl_int4"
LANGUAGE, MTP = "openvino_language_model.xml", "openvino_mtp_model.xml"
EMBEDDINGS, VISION = "openvino_text_embeddings_model.xml", "openvino_vision_embeddings_model.xml"
NOTE, WARNING = {"severity": "note"}, {"severity": "warning"}
REQUEST = r"<weight_compression>"


def in_half_precision(data: bytes) -> bytes:
    """Set the type of every large weight to f16 without changing its size, which IR009 reports."""
    return re.sub(rb'element_type="f32" shape="(\d+, \d+)"', rb'element_type="f16" shape="\1"', data)


def without_scale(kind: bytes) -> Callable[[bytes], bytes]:
    """Let the consumers of a decompressed weight read its Convert instead of the Multiply by the scale."""

    def change(data: bytes) -> bytes:
        types, edges = wiring(data)
        weights = re.findall(
            rb'<layer id="(\d+)" [^>]*type="Const"[^>]*>\s*<data element_type="%s" shape="\d+, \d+"' % kind, data
        )
        convert = next(to for at, _, to, _ in edges if at == weights[0])
        assert types[convert] == b"Convert"
        multiply = next(to for at, _, to, _ in edges if at == convert)
        assert types[multiply] == b"Multiply"
        old = next(edge for edge in edges if edge[0] == multiply)
        return data.replace(EDGE % old, EDGE % (convert, b"1", old[2], old[3]))

    return change


DOWN_PROJ = r'<layer id="\d+" name="self.layers.0.mlp.down_proj.weight" type="Const"'
LM_HEAD = r'<layer id="\d+" name="self.model.lm_head.weight" type="Const"'
INT8 = '<nncf><weight_compression><mode value="int8_asym"/></weight_compression></nncf>'
# Errors that a part of another width also causes.
OTHER_WIDTH = ("EXP023", "MTP018", "MTP024", "MTP052")


def recorded(
    name: str, file: str, key: str, old: str, new: str, code: str, at: str = REQUEST, *, more: dict[str, str] = WARNING
) -> Defect:
    """Another value for a key of the recorded compression request."""
    return Defect(name, BASE, sub(file, f'<{key} value="{old}"', f'<{key} value="{new}"'), code, file, at, **more)


def plain(name: str, file: str, code: str, more: dict[str, Any], *causes: str) -> Defect:
    """A part replaced by an uncompressed one, reported at its first line."""
    change = from_other("qwen3_5_vl_trained", file, file.replace(".xml", ".bin"))
    return Defect(name, BASE, change, code, file, lambda _: 1, causes=causes, **more)


def compressed(name: str, file: str, at: str) -> Defect:
    """A part of an uncompressed export replaced by a compressed one, with its last MatMul in the backup precision."""
    change = from_other(BASE, file, file.replace(".xml", ".bin"))
    return Defect(name, "qwen3_5_vl", change, "QNT003", file, at, causes=OTHER_WIDTH, **NOTE)


GROUPED = r'<layer id="\d+" name="[^"]*" type="Const" version="opset1">\s*<data element_type="u4" shape="\d+, \d+, 64"'
MTP_BITS = ("quantization_config", "quantization_configs", "mtp_model", "bits")


def configured(name: str, part: str, key: str, value: object, file: str) -> Defect:
    """Another value in openvino_config.json."""
    change = in_json("openvino_config.json", "quantization_config", "quantization_configs", part, key, value=value)
    return Defect(name, BASE, change, "QNT014", file, REQUEST, **WARNING)


class Specs(dict[str, str]):
    """Options that a cache can hold."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def expected(name: str, specs: dict[str, str], file: str) -> Defect:
    """An unchanged export of which another compression is expected."""
    causes = ("QNT017",)
    return Defect(
        name, BASE, lambda _: None, "QNT017", file, REQUEST, {"expect_compression": Specs(specs)}, causes=causes
    )


DEFECTS = (
    recorded("mode-changed", LANGUAGE, "mode", "int4_asym", "int8_asym", "QNT001"),
    recorded("mode-symmetric", MTP, "mode", "int4_asym", "int4_sym", "QNT001"),
    recorded("mode-of-embeddings-changed", EMBEDDINGS, "mode", "int8_sym", "int4_sym", "QNT001"),
    Defect(
        "request-without-compression",
        "qwen3",
        sub("openvino_model.xml", r"(\t\t<optimum>)", rf"\t\t{INT8}\n\1"),
        "QNT001",
        "openvino_model.xml",
        REQUEST,
        **WARNING,
    ),
    recorded("group-size-changed", MTP, "group_size", "64", "32", "QNT002", GROUPED, more=NOTE),
    recorded("everything-asked", MTP, "all_layers", "False", "True", "QNT002", DOWN_PROJ, more=NOTE),
    compressed("last-layer-in-backup", LANGUAGE, LM_HEAD),
    compressed("last-layer-of-mtp-in-backup", MTP, DOWN_PROJ),
    plain("configured-part-uncompressed", MTP, "QNT004", WARNING, *OTHER_WIDTH),
    plain("configured-language-model-uncompressed", LANGUAGE, "QNT004", WARNING, *OTHER_WIDTH),
    Defect(
        "configured-bits-differ",
        BASE,
        in_json("openvino_config.json", *MTP_BITS, value=8),
        "QNT004",
        MTP,
        REQUEST,
        **WARNING,
    ),
    Defect(
        "record-of-compression-missing",
        BASE,
        sub(LANGUAGE, r"<nncf>.*</nncf>", ""),
        "QNT005",
        LANGUAGE,
        lambda _: 1,
        **NOTE,
    ),
    Defect(
        "record-of-compression-of-mtp-missing",
        BASE,
        sub(MTP, r"<weight_compression>.*</weight_compression>", ""),
        "QNT005",
        MTP,
        lambda _: 1,
        **NOTE,
    ),
    plain("head-uncompressed", MTP, "QNT010", WARNING, *OTHER_WIDTH),
    plain("head-uncompressed-for-release", MTP, "QNT010", {"options": {"expect_mtp": True}}, *OTHER_WIDTH, "MTP053"),
    Defect(
        "target-uncompressed",
        BASE,
        from_other("qwen3_5_vl_trained", LANGUAGE, LANGUAGE.replace(".xml", ".bin")),
        "QNT011",
        MTP,
        lambda _: 1,
        causes=OTHER_WIDTH,
        **NOTE,
    ),
    Defect(
        "head-in-half-precision",
        "qwen3_5_vl",
        rewrite(MTP, in_half_precision),
        "QNT011",
        MTP,
        lambda _: 1,
        causes=("IR009",),
        **NOTE,
    ),
    plain("embeddings-uncompressed", EMBEDDINGS, "QNT012", NOTE, *OTHER_WIDTH),
    plain("vision-uncompressed", VISION, "QNT012", NOTE),
    Defect("scale-bypassed", BASE, rewrite(LANGUAGE, without_scale(b"i8")), "QNT013", LANGUAGE, LM_HEAD),
    Defect("scale-of-mtp-bypassed", BASE, rewrite(MTP, without_scale(b"i8")), "QNT013", MTP, DOWN_PROJ),
    configured("group-size-configured-otherwise", "lm_model", "group_size", 128, LANGUAGE),
    configured("symmetry-configured-otherwise", "mtp_model", "sym", True, MTP),
    configured("backup-configured-otherwise", "lm_model", "backup_precision", "int8_asym", LANGUAGE),
    configured("ratio-configured-otherwise", "mtp_model", "ratio", 0.5, MTP),
    recorded("backup-recorded-otherwise", LANGUAGE, "backup_mode", "int8_sym", "int8_asym", "QNT015"),
    recorded("ratio-recorded-otherwise", MTP, "ratio", "1.0", "0.5", "QNT015"),
    Defect("linear-attention-in-four-bits", BASE, lambda _: None, "QNT016", LANGUAGE, GROUPED, **NOTE),
    Defect(
        "linear-attention-in-spite-of-scope",
        BASE,
        sub(
            LANGUAGE,
            r'<ignored_scope value="\[\]" />',
            "<ignored_scope><patterns value=\"['.*linear_attn.*']\" /></ignored_scope>",
        ),
        "QNT016",
        LANGUAGE,
        GROUPED,
        **WARNING,
    ),
    expected("unexpected-mode", {"": "int4_sym"}, LANGUAGE),
    expected("unexpected-groups", {"": "int4_asym:128:int8_sym"}, MTP),
    expected("unexpected-backup", {"mtp": "int4_asym:64:int8_asym"}, MTP),
    expected("unexpected-eight-bits", {"text_embeddings": "int4_asym"}, EMBEDDINGS),
)
