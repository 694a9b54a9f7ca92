"""The files of a model directory beside its IRs: which belong there, and where a key stands in them."""

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
"""Parts beside the ones every vision-language export has, by ``model_type`` of config.json."""

RUNTIME_FAMILIES = frozenset(
    (
        *("gemma3", "gemma3n", "gemma4", "gemma4_unified", "internvl_chat", "llava", "llava-qwen2", "llava_next"),
        *("llava_next_video", "minicpmo", "minicpmv", "muse_glimmer", "phi3_v", "phi4mm", "qwen2_5_vl", "qwen2_vl"),
        *("qwen3_5", "qwen3_5_moe", "qwen3_omni", "qwen3_omni_moe", "qwen3_vl", "videochat_flash_qwen"),
    )
)
"""``model_type`` of the vision-language models that OpenVINO GenAI 2026.4 knows."""

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
"""Names of parts that an exporter writes or a runtime reads."""


def parts_by_config(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Parts that a vision-language export of this family consists of, besides its language model.

    Parameters
    ----------
    config : mapping
        Content of config.json.

    Returns
    -------
    tuple of str
        Empty for a family that is not known.
    """
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
    """Whether the target is a language model of some kind; a target that cannot be read is taken for one."""
    names = _input_names(context)
    return context.target is None or not names.isdisjoint({"input_ids", "inputs_embeds", "decoder_input_ids"})


def is_draft(context: Context) -> bool:
    """Whether the model is a draft that gets hidden states from a target in another directory."""
    return "hidden_states" in _input_names(context)


def needs_embeddings(context: Context) -> bool:
    """Whether the target takes embeddings instead of tokens: the export is decomposed."""
    names = _input_names(context)
    if "hidden_states" in names:
        return False
    if context.target is None:
        return [document.part for document in context.export.target_candidates] == ["language"]
    return "inputs_embeds" in names and "input_ids" not in names


def read_json(path: Path) -> Any:
    """Content of a JSON file, None when there is none.

    Raises
    ------
    ValueError
        It is not valid JSON in UTF-8.
    OSError
        It cannot be read.
    """
    try:
        return json.loads(read_file(path))
    except FileNotFoundError:
        return None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_line(path: Path, key: str, value: object) -> int | None:
    """Line of a key in a JSON file, preferably where it has that value."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except (OSError, ValueError):
        return None
    exact = re.search(rf'"{re.escape(key)}"\s*:\s*{re.escape(json.dumps(value))}(?![\w.])', text)
    match = exact or re.search(rf'"{re.escape(key)}"\s*:', text)
    return text.count("\n", 0, match.start()) + 1 if match else None
