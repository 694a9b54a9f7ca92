"""MTP head profiles: the ports and structure of each family's head."""

from __future__ import annotations

from irtools.authoring import MtpProfile, Port

_QWEN_INPUTS = (
    Port("hidden_states", "f32", ("?", "?", "H")),
    Port("inputs_embeds", "f32", ("?", "?", "H"), friendly_matters=True),
    Port("attention_mask", "i64", ("?", "?"), needed=False, type_matters=False),
    Port("position_ids", "i64", ("?", "?"), friendly_matters=True),
    Port("beam_idx", "i32", ("?",), needed=False, type_matters=False),
)
_QWEN_OUTPUTS = (Port("last_hidden_state", "f32", ("?", "?", "H")),)

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
        Port("inputs_embeds", "f32", ("?", "?", "2H")),
        Port("position_ids", "i64", ("?", "?")),
        Port("attention_mask", "i64", ("?", "?")),
        *(Port(kind, "f32", ("?", "*", "?", "*")) for kind in _GEMMA_KINDS),
    ),
    outputs=(Port("logits", "f32", ("?", "?", "V")), Port("last_hidden_state", "f32", ("?", "?", "H"))),
    target_outputs=(
        Port("mtp_last_hidden_state", "f32", ("?", "?", "H")),
        *(Port(f"mtp_{kind}", "f32", ("?", "*", "?", "*")) for kind in _GEMMA_KINDS),
    ),
    model_types=("gemma4", "gemma4_text", "gemma4_assistant"),
    states=0,
    attentions=None,
    fusion=False,
    usable=False,
    own_directory=True,
    remark="GenAI runs it as openvino_model.xml in a separate directory, with the SDPA backend",
)

COMMUNITY = MtpProfile(
    name="self-contained",
    title="self-contained MTP head",
    inputs=(
        Port("inputs_embeds", "f32", ("?", "?", "2H")),
        Port("attention_mask", "i64", ("?", "?"), needed=False, type_matters=False),
        Port("position_ids", "i64", ("?", "?")),
        Port("beam_idx", "i32", ("?",), needed=False, type_matters=False),
    ),
    outputs=(Port("logits", "f32", ("?", "?", "V")),),
    fusion=False,
    usable=False,
    remark="GenAI does not run this form, which lacks the input hidden_states and the output last_hidden_state",
)
