"""Seeded defects of weight compression."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from defects import Defect, in_json, rewrite, sub

BASE = "qwen3_5_vl_int4"
LANGUAGE, MTP = "openvino_language_model.xml", "openvino_mtp_model.xml"
EMBEDDINGS, VISION = "openvino_text_embeddings_model.xml", "openvino_vision_embeddings_model.xml"
NOTE, WARNING = "note", "warning"
REQUEST = r"<weight_compression>"


def from_fixture(name: str, *files: str) -> Callable[[Path], object]:
    """Replace files by those of another fixture."""

    def edit(directory: Path) -> None:
        source = Path(__file__).resolve().parents[2] / "fixtures" / name
        for file in files:
            (directory / file).write_bytes((source / file).read_bytes())

    return edit


def in_half_precision(data: bytes) -> bytes:
    """Say that every large weight is f16 (the sizes are wrong then, which is another finding)."""
    return re.sub(rb'element_type="f32" shape="(\d+, \d+)"', rb'element_type="f16" shape="\1"', data)


def without_scale(kind: bytes) -> Callable[[bytes], bytes]:
    """Let the consumers of a decompressed weight read its Convert instead of the Multiply by the scale."""

    def change(data: bytes) -> bytes:
        types = dict(re.findall(rb'<layer id="(\d+)" name="[^"]*" type="(\w+)"', data))
        edges = re.findall(rb'<edge from-layer="(\d+)" from-port="(\d+)" to-layer="(\d+)" to-port="(\d+)" />', data)
        weights = re.findall(
            rb'<layer id="(\d+)" [^>]*type="Const"[^>]*>\s*<data element_type="%s" shape="\d+, \d+"' % kind, data
        )
        convert = next(to for at, _, to, _ in edges if at == weights[0])
        assert types[convert] == b"Convert"
        multiply = next(to for at, _, to, _ in edges if at == convert)
        assert types[multiply] == b"Multiply"
        old = next((a, b, c, d) for a, b, c, d in edges if a == multiply)
        wire = b'<edge from-layer="%s" from-port="%s" to-layer="%s" to-port="%s" />'
        return data.replace(wire % old, wire % (convert, b"1", old[2], old[3]))

    return change


DOWN_PROJ = r'<layer id="\d+" name="self.layers.0.mlp.down_proj.weight" type="Const"'
LM_HEAD = r'<layer id="\d+" name="self.model.lm_head.weight" type="Const"'
INT8 = '<nncf><weight_compression><mode value="int8_asym"/></weight_compression></nncf>'
# Parts of another width: what the annotation, the widths and the head say about it is no surprise.
OTHER_WIDTH = ("EXP023", "MTP018", "MTP024", "MTP052")


def plain(*stems: str) -> Callable[[Path], object]:
    """Replace parts by uncompressed ones."""
    return from_fixture("qwen3_5_vl_trained", *(f"{stem}.{suffix}" for stem in stems for suffix in ("xml", "bin")))


DEFECTS = (
    Defect(
        "mode-changed",
        BASE,
        sub(LANGUAGE, '<mode value="int4_asym"', '<mode value="int8_asym"'),
        "QNT001",
        LANGUAGE,
        REQUEST,
        severity=WARNING,
    ),
    Defect(
        "mode-symmetric",
        BASE,
        sub(MTP, '<mode value="int4_asym"', '<mode value="int4_sym"'),
        "QNT001",
        MTP,
        REQUEST,
        severity=WARNING,
    ),
    Defect(
        "mode-of-embeddings-changed",
        BASE,
        sub(EMBEDDINGS, '<mode value="int8_sym"', '<mode value="int4_sym"'),
        "QNT001",
        EMBEDDINGS,
        REQUEST,
        severity=WARNING,
    ),
    Defect(
        "request-without-compression",
        "qwen3",
        sub("openvino_model.xml", r"(\t\t<optimum>)", rf"\t\t{INT8}\n\1"),
        "QNT001",
        "openvino_model.xml",
        REQUEST,
        severity=WARNING,
    ),
    Defect(
        "group-size-changed",
        BASE,
        sub(MTP, '<group_size value="64"', '<group_size value="32"'),
        "QNT002",
        MTP,
        r'<layer id="\d+" name="[^"]*" type="Const" version="opset1">\s*<data element_type="u4" shape="\d+, \d+, 64"',
        severity=NOTE,
    ),
    Defect(
        "everything-asked",
        BASE,
        sub(MTP, '<all_layers value="False"', '<all_layers value="True"'),
        "QNT002",
        MTP,
        DOWN_PROJ,
        severity=NOTE,
    ),
    Defect(
        "last-layer-in-backup",
        "qwen3_5_vl",
        from_fixture(BASE, LANGUAGE, "openvino_language_model.bin"),
        "QNT003",
        LANGUAGE,
        LM_HEAD,
        severity=NOTE,
        causes=OTHER_WIDTH,
    ),
    Defect(
        "last-layer-of-mtp-in-backup",
        "qwen3_5_vl",
        from_fixture(BASE, MTP, "openvino_mtp_model.bin"),
        "QNT003",
        MTP,
        DOWN_PROJ,
        severity=NOTE,
        causes=OTHER_WIDTH,
    ),
    Defect(
        "configured-part-uncompressed",
        BASE,
        plain("openvino_mtp_model"),
        "QNT004",
        MTP,
        lambda _: 1,
        severity=WARNING,
        causes=OTHER_WIDTH,
    ),
    Defect(
        "configured-language-model-uncompressed",
        BASE,
        plain("openvino_language_model"),
        "QNT004",
        LANGUAGE,
        lambda _: 1,
        severity=WARNING,
        causes=OTHER_WIDTH,
    ),
    Defect(
        "configured-bits-differ",
        BASE,
        in_json("openvino_config.json", "quantization_config", "quantization_configs", "mtp_model", "bits", value=8),
        "QNT004",
        MTP,
        REQUEST,
        severity=WARNING,
    ),
    Defect(
        "record-of-compression-missing",
        BASE,
        sub(LANGUAGE, r"<nncf>.*</nncf>", ""),
        "QNT005",
        LANGUAGE,
        lambda _: 1,
        severity=NOTE,
    ),
    Defect(
        "record-of-compression-of-mtp-missing",
        BASE,
        sub(MTP, r"<weight_compression>.*</weight_compression>", ""),
        "QNT005",
        MTP,
        lambda _: 1,
        severity=NOTE,
    ),
    Defect(
        "head-uncompressed",
        BASE,
        plain("openvino_mtp_model"),
        "QNT010",
        MTP,
        lambda _: 1,
        severity=WARNING,
        causes=OTHER_WIDTH,
    ),
    Defect(
        "head-uncompressed-for-release",
        BASE,
        plain("openvino_mtp_model"),
        "QNT010",
        MTP,
        lambda _: 1,
        {"expect_mtp": True},
        causes=(*OTHER_WIDTH, "MTP053"),
    ),
    Defect(
        "target-uncompressed",
        BASE,
        plain("openvino_language_model"),
        "QNT011",
        MTP,
        lambda _: 1,
        severity=NOTE,
        causes=OTHER_WIDTH,
    ),
    Defect(
        "head-in-half-precision",
        "qwen3_5_vl",
        rewrite(MTP, in_half_precision),
        "QNT011",
        MTP,
        lambda _: 1,
        severity=NOTE,
        causes=("IR009",),
    ),
    Defect(
        "embeddings-uncompressed",
        BASE,
        plain("openvino_text_embeddings_model"),
        "QNT012",
        EMBEDDINGS,
        lambda _: 1,
        severity=NOTE,
        causes=OTHER_WIDTH,
    ),
    Defect(
        "vision-uncompressed",
        BASE,
        plain("openvino_vision_embeddings_model"),
        "QNT012",
        VISION,
        lambda _: 1,
        severity=NOTE,
    ),
    Defect("scale-bypassed", BASE, rewrite(LANGUAGE, without_scale(b"i8")), "QNT013", LANGUAGE, LM_HEAD),
    Defect("scale-of-mtp-bypassed", BASE, rewrite(MTP, without_scale(b"i8")), "QNT013", MTP, DOWN_PROJ),
)
