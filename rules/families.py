"""Model families: their MTP heads, and the parts of their vision-language exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from irtools.authoring import MtpProfile, ProfilePort
from irtools.model.config import integers, text_section

# -- MTP heads ---------------------------------------------------------------------------

_QWEN_INPUTS = (
    ProfilePort("hidden_states", "f32", ("?", "?", "H")),
    ProfilePort("inputs_embeds", "f32", ("?", "?", "H"), friendly_matters=True),
    ProfilePort("attention_mask", "i64", ("?", "?"), needed=False, type_matters=False),
    ProfilePort("position_ids", "i64", ("?", "?"), friendly_matters=True),
    ProfilePort("beam_idx", "i32", ("?",), needed=False, type_matters=False),
)
_QWEN_OUTPUTS = (ProfilePort("last_hidden_state", "f32", ("?", "?", "H")),)

QWEN3_5 = MtpProfile(
    name="qwen3_5",
    title="Qwen3.5 MTP head",
    inputs=_QWEN_INPUTS,
    outputs=_QWEN_OUTPUTS,
    model_types=("qwen3_5", "qwen3_5_text", "qwen3_6"),
    experts=False,
)

QWEN3_5_MOE = MtpProfile(
    name="qwen3_5_moe",
    title="Qwen3.5 MoE MTP head",
    inputs=_QWEN_INPUTS,
    outputs=_QWEN_OUTPUTS,
    model_types=("qwen3_5_moe", "qwen3_5_moe_text", "qwen3_6_moe"),
    experts=True,
)

_GEMMA_KINDS = ("full_attention_key", "full_attention_value", "sliding_attention_key", "sliding_attention_value")

GEMMA4 = MtpProfile(
    name="gemma4",
    title="Gemma 4 MTP assistant",
    inputs=(
        ProfilePort("inputs_embeds", "f32", ("?", "?", "2H")),
        ProfilePort("position_ids", "i64", ("?", "?")),
        ProfilePort("attention_mask", "i64", ("?", "?")),
        *(ProfilePort(kind, "f32", ("?", "*", "?", "*")) for kind in _GEMMA_KINDS),
    ),
    outputs=(ProfilePort("logits", "f32", ("?", "?", "V")), ProfilePort("last_hidden_state", "f32", ("?", "?", "H"))),
    target_outputs=(
        ProfilePort("mtp_last_hidden_state", "f32", ("?", "?", "H")),
        *(ProfilePort(f"mtp_{kind}", "f32", ("?", "*", "?", "*")) for kind in _GEMMA_KINDS),
    ),
    model_types=("gemma4", "gemma4_text", "gemma4_assistant"),
    states=0,
    attentions=None,
    fusion=False,
    usable=False,
    own_directory=True,
    since="2026.3",  # libopenvino_genai.so of 2026.2.1 does not contain Gemma4MTP
    remark="GenAI runs it as openvino_model.xml in a separate directory, with the SDPA backend",
)

COMMUNITY = MtpProfile(
    name="self-contained",
    title="self-contained MTP head",
    inputs=(
        ProfilePort("inputs_embeds", "f32", ("?", "?", "2H")),
        ProfilePort("attention_mask", "i64", ("?", "?"), needed=False, type_matters=False),
        ProfilePort("position_ids", "i64", ("?", "?")),
        ProfilePort("beam_idx", "i32", ("?",), needed=False, type_matters=False),
    ),
    outputs=(ProfilePort("logits", "f32", ("?", "?", "V")),),
    fusion=False,
    usable=False,
)

EXPORTED_HEADS = (*QWEN3_5.model_types, *QWEN3_5_MOE.model_types)
"""``model_type`` of the families whose MTP head the exporter supports."""

# -- vision-language exports -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Vision-language exports with one ``model_type`` in config.json.

    Attributes
    ----------
    parts : tuple of str
        Parts in addition to those of every vision-language export.
    parts_if : mapping of str to str
        Further parts, each with the key of the text section that is a positive number in exports that have it.
    runs : bool
        True if OpenVINO GenAI 2026.4 supports the family.
    """

    model_type: str
    parts: tuple[str, ...] = ()
    parts_if: Mapping[str, str] = field(default_factory=dict)
    runs: bool = True


_MERGER, _POSITIONS, _PROJECTION = "vision_embeddings_merger", "vision_embeddings_pos", "vision_projection"
_PER_LAYER = "text_embeddings_per_layer"

FAMILIES = {
    family.model_type: family
    for family in (
        ModelFamily("deepseek_ocr2", ("vision_embeddings_tiles",), runs=False),
        ModelFamily("gemma3"),
        ModelFamily("gemma3n", (_PER_LAYER,)),
        ModelFamily("gemma4", parts_if={_PER_LAYER: "hidden_size_per_layer_input"}),
        ModelFamily("gemma4_unified"),
        ModelFamily("internvl_chat"),
        ModelFamily("llava"),
        ModelFamily("llava-qwen2"),
        ModelFamily("llava_next"),
        ModelFamily("llava_next_video", ("vision_resampler", "multi_modal_projector")),
        ModelFamily("minicpmo", ("resampler",)),
        ModelFamily("minicpmv", ("resampler",)),
        ModelFamily("mistral3", ("multi_modal_projector",), runs=False),
        ModelFamily("muse_glimmer"),
        ModelFamily("phi3_v", (_PROJECTION,)),
        ModelFamily("phi4_multimodal", (_PROJECTION,), runs=False),
        ModelFamily("phi4mm", (_PROJECTION,)),
        ModelFamily("qwen2_5_vl", (_MERGER,)),
        ModelFamily("qwen2_vl", (_MERGER,)),
        ModelFamily("qwen3_5", (_MERGER, _POSITIONS)),
        ModelFamily("qwen3_5_moe", (_MERGER, _POSITIONS)),
        ModelFamily("qwen3_omni"),
        ModelFamily("qwen3_omni_moe"),
        ModelFamily("qwen3_vl", (_MERGER, _POSITIONS)),
        ModelFamily("videochat_flash_qwen", (_PROJECTION,)),
    )
}
"""The known vision-language families, by ``model_type``."""

_EVERY_WRAPPER = ("text_embeddings", "vision_embeddings")
_OTHER_PARTS = (
    *("model", "language", "mtp", "tokenizer", "detokenizer", "vision_encoder"),
    *("audio_embeddings", "audio_forward_embeddings", "audio_encoder", "audio_vision_projection"),
    *("audio_speech_projection", "talker", "talker_text_embeddings", "talker_projections", "code_predictor"),
    *("code2wav", "encoder", "decoder", "decoder_with_past", "postnet", "vocoder", "model_text", "model_vision"),
    *("prompt_encoder_mask_decoder", "tokenizer_2", "tokenizer_3", "detokenizer_2", "detokenizer_3"),
)
KNOWN_PARTS = frozenset(
    (*_EVERY_WRAPPER, *_OTHER_PARTS, *(part for one in FAMILIES.values() for part in (*one.parts, *one.parts_if)))
)
"""Names of the parts that exporters write or runtimes read."""


def family_of(config: Mapping[str, Any]) -> ModelFamily | None:
    """The family of a config.json; None if it is not known."""
    model_type = config.get("model_type")
    return FAMILIES.get(model_type) if isinstance(model_type, str) else None


def parts_by_config(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Parts of a vision-language export of this family, except its language model; empty for an unknown family."""
    family = family_of(config)
    if family is None:
        return ()
    sizes = integers(text_section(config), family.parts_if.values())
    present = (part for part, key in family.parts_if.items() if sizes.get(key, 0) > 0)
    return (*_EVERY_WRAPPER, *family.parts, *present)
