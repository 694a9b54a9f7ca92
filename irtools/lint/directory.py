"""Facts about a model directory: expected parts, the kind of the target, and its JSON files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irtools.ir.reading import read_file
from irtools.lint.model import Context

__all__ = [
    "KNOWN_PARTS",
    "RUNTIME_FAMILIES",
    "is_draft",
    "json_line",
    "needs_embeddings",
    "parts_by_config",
    "read_json",
    "reads_tokens",
]

_EVERY_WRAPPER = ("text_embeddings", "vision_embeddings")
_EXTRA_PARTS: Mapping[str, tuple[str, ...]] = {
    "deepseek_ocr2": ("vision_embeddings_tiles",),
    "gemma3n": ("text_embeddings_per_layer",),
    "llava_next_video": ("vision_resampler", "multi_modal_projector"),
    "minicpmo": ("resampler",),
    "minicpmv": ("resampler",),
    "mistral3": ("multi_modal_projector",),
    "phi3_v": ("vision_projection",),
    "phi4_multimodal": ("vision_projection",),
    "phi4mm": ("vision_projection",),
    "qwen2_5_vl": ("vision_embeddings_merger",),
    "qwen2_vl": ("vision_embeddings_merger",),
    "qwen3_5": ("vision_embeddings_merger", "vision_embeddings_pos"),
    "qwen3_5_moe": ("vision_embeddings_merger", "vision_embeddings_pos"),
    "qwen3_vl": ("vision_embeddings_merger", "vision_embeddings_pos"),
    "videochat_flash_qwen": ("vision_projection",),
}
"""Parts in addition to those of every vision-language export, by ``model_type`` of config.json."""

RUNTIME_FAMILIES = frozenset(
    (
        *("gemma3", "gemma3n", "gemma4", "gemma4_unified", "internvl_chat", "llava", "llava-qwen2", "llava_next"),
        *("llava_next_video", "minicpmo", "minicpmv", "muse_glimmer", "phi3_v", "phi4mm", "qwen2_5_vl", "qwen2_vl"),
        *("qwen3_5", "qwen3_5_moe", "qwen3_omni", "qwen3_omni_moe", "qwen3_vl", "videochat_flash_qwen"),
    )
)
"""``model_type`` of the vision-language models that OpenVINO GenAI 2026.4 supports."""

KNOWN_PARTS = frozenset(
    (
        *("model", "language", "mtp", "tokenizer", "detokenizer", "text_embeddings", "text_embeddings_per_layer"),
        *("vision_embeddings", "vision_embeddings_merger", "vision_embeddings_pos", "vision_embeddings_tiles"),
        *("vision_projection", "vision_resampler", "resampler", "multi_modal_projector", "vision_encoder"),
        *("audio_embeddings", "audio_forward_embeddings", "audio_encoder", "audio_vision_projection"),
        *("audio_speech_projection", "talker", "talker_text_embeddings", "talker_projections", "code_predictor"),
        *("code2wav", "encoder", "decoder", "decoder_with_past", "postnet", "vocoder", "model_text", "model_vision"),
        *("prompt_encoder_mask_decoder", "tokenizer_2", "tokenizer_3", "detokenizer_2", "detokenizer_3"),
    )
)
"""Names of the parts that exporters write or runtimes read."""


def parts_by_config(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Parts of a vision-language export of this family, except its language model; empty for an unknown family."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in RUNTIME_FAMILIES | _EXTRA_PARTS.keys():
        return ()
    extra = _EXTRA_PARTS.get(family, ())
    text = config.get("text_config")
    if family == "gemma4" and isinstance(text, Mapping):
        width = text.get("hidden_size_per_layer_input")
        extra = ("text_embeddings_per_layer",) if isinstance(width, int) and width > 0 else ()
    return _EVERY_WRAPPER + extra


def _input_names(context: Context) -> set[str]:
    if context.target is None:
        return set()
    return {name for port in context.part(context.target).inputs for name in (*port.names, port.friendly)}


def reads_tokens(context: Context) -> bool:
    """True if the target is a language model of any kind, or cannot be read."""
    names = _input_names(context)
    return context.target is None or not names.isdisjoint({"input_ids", "inputs_embeds", "decoder_input_ids"})


def is_draft(context: Context) -> bool:
    """True if the model is a draft that reads hidden states of a target in another directory."""
    return "hidden_states" in _input_names(context)


def needs_embeddings(context: Context) -> bool:
    """True if the target takes embeddings instead of tokens, because the text embeddings are a separate part."""
    names = _input_names(context)
    if "hidden_states" in names:
        return False
    if context.target is None:
        return [document.part for document in context.export.target_candidates] == ["language"]
    return "inputs_embeds" in names and "input_ids" not in names


def read_json(path: Path) -> Any:
    """Content of a JSON file; None if the file does not exist.

    Raises
    ------
    ValueError
        The file is not valid JSON in UTF-8.
    OSError
        The file cannot be read.
    """
    try:
        return json.loads(read_file(path))
    except FileNotFoundError:
        return None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_line(path: Path, key: str, value: object) -> int | None:
    """Line of a key in a JSON file; an occurrence with the given value comes first."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except (OSError, ValueError):
        return None
    exact = re.search(rf'"{re.escape(key)}"\s*:\s*{re.escape(json.dumps(value))}(?![\w.])', text)
    match = exact or re.search(rf'"{re.escape(key)}"\s*:', text)
    return text.count("\n", 0, match.start()) + 1 if match else None
