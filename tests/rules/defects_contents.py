"""Seeded defects of the content of a ``.bin`` of the right size."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from defects import Defect, rewrite

B, LANGUAGE, MTP = "openvino_model.bin", "openvino_language_model.bin", "openvino_mtp_model.bin"
MERGER, TABLE = "openvino_vision_embeddings_merger_model.bin", "openvino_text_embeddings_model.bin"
TOKENIZER, DETOKENIZER = "openvino_tokenizer.bin", "openvino_detokenizer.bin"
NORM = r'<data element_type="f32" shape="1, 1, 32"'
WARNING = {"severity": "warning"}
OTHERS = ("IR024", "IR025", "IR026", "IR027", "IR029")


def shuffled(data: bytes) -> bytes:
    """The same bytes in another order."""
    numbers = list(data)
    random.Random(1).shuffle(numbers)
    return bytes(numbers)


def zeros(start: float, end: float = 1.0) -> Callable[[bytes], bytes]:
    """Zeros between two fractions of the file."""

    def change(data: bytes) -> bytes:
        first, last = int(len(data) * start), int(len(data) * end)
        return data[:first] + bytes(last - first) + data[last:]

    return change


def constant(name: str) -> str:
    """Pattern of a constant with a name that matches."""
    return rf'name="{name}" type="Const"[^>]*>\s*<data '


HEAD, UP = constant(r"self\.lm_head\.weight"), constant(r"[^\"]*layers\.1\.mlp\.up_proj\.weight")
WORDS, PLACES = constant(r"self\.model\.embed_tokens\.weight"), constant(r"self\.transformer\.wpe\.weight")
FC_SCALE = constant(r"self\.fc\.weight/scale")


def filled(file: str, pattern: str, content: bytes) -> Callable[[Path], object]:
    """An edit that repeats some bytes over each constant that matches."""

    def edit(directory: Path) -> None:
        text = (directory / file).with_suffix(".xml").read_text()
        data = bytearray((directory / file).read_bytes())
        found = re.findall(rf'{pattern}[^>]*offset="(\d+)" size="(\d+)"', text)
        assert found, pattern
        for offset, size in ((int(offset), int(size)) for offset, size in found):
            data[offset : offset + size] = (content * size)[:size]
        (directory / file).write_bytes(data)

    return edit


def of_another(other: str) -> Callable[[Path], object]:
    """An edit that puts another model's weights into the file, cut or filled to its size."""

    def edit(directory: Path) -> None:
        path = directory / B
        size = path.stat().st_size
        own = Path(__file__).parents[2] / "fixtures" / other / B
        path.write_bytes(own.read_bytes()[:size].ljust(size, b"\0"))

    return edit


def seed(name: str, base: str, file: str, change: Callable[[Path], object], code: str, **more: Any) -> Defect:
    return Defect(name, base, change, code, file, **{"causes": OTHERS, **more})


def changed(name: str, base: str, file: str, change: Callable[[bytes], bytes], code: str, **more: Any) -> Defect:
    return seed(name, base, file, rewrite(file, change), code, **more)


DEFECTS = (
    changed("bin-shuffled", "llama", B, shuffled, "IR024"),
    seed("bin-cut-from-another-model", "llama", B, of_another("gpt2"), "IR024"),
    changed("bin-of-merger-shuffled", "qwen3_5_vl", MERGER, shuffled, "IR024"),
    changed("bin-zeros", "llama", B, zeros(0), "IR025"),
    changed("bin-zeros-from-the-middle", "llama", B, zeros(0.5), "IR026"),
    changed("bin-of-language-model-zeros-at-the-beginning", "qwen3_5_vl_int4", LANGUAGE, zeros(0, 0.1), "IR025"),
    changed("bin-zeros-in-the-last-tenth", "qwen3", B, zeros(0.9), "IR026"),
    changed("bin-of-embeddings-zeros-in-the-last-tenth", "qwen3_5_vl_int4", TABLE, zeros(0.9), "IR026"),
    seed("head-zeros", "llama", B, filled(B, HEAD, b"\0"), "IR026", causes=()),
    seed("table-zeros", "llama", B, filled(B, WORDS, b"\0"), "IR026", causes=()),
    seed("table-of-positions-zeros", "gpt2", B, filled(B, PLACES, b"\0"), "IR026", **WARNING, causes=()),
    seed("norm-zeros", "qwen3_5_vl", MTP, filled(MTP, NORM, b"\0"), "IR026", **WARNING, causes=()),
    seed(
        "scales-zeros",
        "qwen3_5_vl_int4",
        MTP,
        filled(MTP, FC_SCALE, b"\0"),
        "IR026",
        causes=(),
    ),
    seed(
        "matrix-zeros",
        "llama",
        B,
        filled(B, UP, b"\0"),
        "IR026",
        **WARNING,
    ),
    seed("head-not-a-number", "llama", B, filled(B, HEAD, b"\xff"), "IR027", causes=()),
    seed("norm-infinite", "qwen3_5_vl", MTP, filled(MTP, NORM, struct.pack("<f", float("inf"))), "IR027", causes=()),
    seed("head-of-huge-numbers", "llama", B, filled(B, HEAD, struct.pack("<f", 3e20)), "IR028", **WARNING),
    seed("norm-of-huge-numbers", "qwen3_5_vl", MTP, filled(MTP, NORM, struct.pack("<f", -1e9)), "IR028", **WARNING),
    changed("bin-of-tokenizer-zeros", "llama", TOKENIZER, zeros(0), "IR029"),
    changed("bin-of-tokenizer-shuffled", "llama", TOKENIZER, shuffled, "IR029"),
    changed("bin-of-detokenizer-zeros-from-the-middle", "llama", DETOKENIZER, zeros(0.5), "IR029"),
)
