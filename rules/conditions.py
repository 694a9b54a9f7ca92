"""Conditions of the decoding strategies of OpenVINO GenAI 2026.4; each was violated with GenAI 2026.4.1 on CPU.

The conditions of a Gemma 4 pair are the exception: they were read in the library of that release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from irtools.authoring import Condition, Context, Requirement
from irtools.lint.mtp import head
from irtools.model.target import fixed_states

# -- exports that need a condition --------------------------------------------------------


def _gemma4(context: Context) -> bool:
    """True for an MTP head in a directory of its own, for which GenAI has another pipeline."""
    found = head(context) if context.export.mtp is None else None
    return found is not None and found.profile.own_directory


def _usual(context: Context) -> bool:
    return not _gemma4(context)


def _linear(context: Context) -> bool:
    part = context.target_facts
    return part is not None and bool(part.attentions and fixed_states(part))


def _attention_only(context: Context) -> bool:
    return not _gemma4(context) and not _linear(context)


# -- values of generation_config.json that violate one ------------------------------------


def _not_positive(value: object) -> bool:
    return not isinstance(value, int) or value < 1


def _not_one(value: object) -> bool:
    return value != 1


def _not_zero(value: object) -> bool:
    return bool(value)


# -- the table ----------------------------------------------------------------------------

_FILES = {
    "mtp": "mtp_strategy.cpp",
    "dflash": "dflash_strategy.cpp",
    "eagle3": "eagle3_strategy.cpp",
    "draft": "fast_draft_strategy.cpp",
}


def _each(
    name: str,
    setting: str,
    value: str,
    effects: Mapping[str, tuple[str, str]],
    *,
    default: str = "",
    met: bool = True,
    applies: Callable[[Context], bool] = _usual,
    refuses: Callable[[object], bool] | None = None,
    source: str = "",
    rules: tuple[str, ...] = (),
) -> tuple[Requirement, ...]:
    """Make a requirement for each strategy, with the stage of the refusal and the message, or ``""`` and the effect.

    ``refuses`` counts only for DFlash: a pipeline with another draft does not read generation_config.json (reproduced
    with GenAI 2026.4.1).
    """

    def one(strategy: str, stage: str, otherwise: str) -> Requirement:
        origin = source or f"openvino.genai, {_FILES[strategy]}; reproduced with GenAI 2026.4.1"
        made = Condition(name, setting, value, otherwise, stage, origin, default, met)
        return Requirement(strategy, made, applies, refuses if strategy == "dflash" else None, rules)

    return tuple(one(strategy, *effect) for strategy, effect in effects.items())


_OTHERS = ("dflash", "eagle3", "draft")
_NO_DRAFT = ("", "GenAI decodes without a draft, and no message says so")
DRAFT = (
    *_each("draft-directory", "draft_model", "the model directory itself", {"mtp": _NO_DRAFT}, met=False),
    *_each(
        "draft-directory", "draft_model", "the directory of the draft", dict.fromkeys(_OTHERS, _NO_DRAFT), met=False
    ),
)

_FIVE = ("", "GenAI drafts 5 tokens at a time, as if the number were not set")
ASSISTANT_TOKENS = _each(
    "assistant-tokens",
    "GenerationConfig.num_assistant_tokens",
    "> 0",
    {
        "mtp": ("generate", "MTP speculative decoding requires num_assistant_tokens > 0."),
        "dflash": _FIVE,
        "eagle3": (
            "",
            "GenAI drafts nothing, and no message says so; if the number is not set, it drafts 5 tokens at a time",
        ),
        "draft": _FIVE,
    },
    default="unset",
    met=False,
    refuses=_not_positive,
)

GREEDY = (
    *_each(
        "greedy",
        "GenerationConfig.do_sample",
        "False",
        {
            "mtp": ("generate", "MTP speculative decoding supports greedy decoding only."),
            "dflash": ("generate", "DFlash CB/PA currently supports greedy decoding only."),
        },
        default="False",
        refuses=bool,
    ),
    *_each(
        "greedy",
        "GenerationConfig.do_sample",
        "False, if a streamer is given",
        {"eagle3": ("generate", "Eagle3 streaming only supports batch size=1 with greedy or tree search")},
        default="False",
        refuses=bool,
    ),
)

_NO_BEAMS = ("generate", "Beam search and parallel sampling are not compatible with assistant generation")
BEAMS = _each(
    "no-beam-search",
    "GenerationConfig.num_beams",
    "1",
    {
        "mtp": ("generate", "MTP speculative decoding supports greedy decoding only."),
        "dflash": ("generate", "DFlash CB/PA currently supports greedy decoding only."),
        "eagle3": _NO_BEAMS,
        "draft": _NO_BEAMS,
    },
    default="1",
    refuses=_not_one,
)

_SEVERAL = ("generate", "'num_return_sequences' can be more than 1 only in case of beam search or multinomial sampling")
ONE_SEQUENCE = _each(
    "one-sequence",
    "GenerationConfig.num_return_sequences",
    "1",
    {
        "mtp": (
            "generate",
            "MTP speculative decoding does not support parallel sampling; num_return_sequences must be 1.",
        ),
        "dflash": ("generate", "DFlash CB/PA supports one sequence per request."),
        "eagle3": _SEVERAL,
        "draft": _SEVERAL,
    },
    default="1",
    refuses=_not_one,
)

CONFIDENCE = _each(
    "confidence-threshold",
    "GenerationConfig.assistant_confidence_threshold",
    "0",
    {
        "mtp": (
            "generate",
            "MTP speculative decoding supports static candidate counts only; assistant_confidence_threshold must be 0",
        ),
        "dflash": (
            "generate",
            "DFlash CB/PA only supports num_assistant_tokens; assistant_confidence_threshold must be 0.f.",
        ),
        "eagle3": (
            "generate",
            "Eagle3 only supports num_assistant_tokens (assistant_confidence_threshold must be 0.f)",
        ),
        "draft": (
            "generate",
            "Parameters `assistant_confidence_threshold` and `num_assistant_tokens` are mutually exclusive",
        ),
    },
    default="0",
    refuses=_not_zero,
)

_CACHING = "SchedulerConfig.enable_prefix_caching"
_CACHED = "True in LLMPipeline and VLMPipeline without a scheduler_config, else False"
_NO_CACHING = ("generate", "Linear-attention verifier speculative decoding requires enable_prefix_caching=false")
PREFIX_CACHING = (
    *_each(
        "prefix-caching",
        _CACHING,
        "False",
        {"dflash": ("load", "DFlash CB/PA does not support scheduler_config.enable_prefix_caching.")},
        default=_CACHED,
        met=False,
        rules=("RUN009",),
    ),
    *_each(
        "prefix-caching",
        _CACHING,
        "False",
        dict.fromkeys(("mtp", "eagle3", "draft"), _NO_CACHING),
        default=_CACHED,
        met=False,
        applies=_linear,
        source="openvino.genai, continuous_batching/pipeline_impl.cpp; reproduced with GenAI 2026.4.1, not for eagle3",
        rules=("RUN009",),
    ),
)

_BATCH = ("batched-tokens", "SchedulerConfig.max_num_batched_tokens", ">= num_assistant_tokens + 1")
_UNLIMITED = "no limit in LLMPipeline and VLMPipeline without a scheduler_config, else 256"
_NARROW = (
    "generate",
    "max_num_batched_tokens (...) is too small to ever schedule the speculative linear-attention validation window",
)
BATCHED_TOKENS = (
    *_each(
        *_BATCH,
        {"dflash": ("load", "DFlash CB/PA requires max_num_batched_tokens >= num_assistant_tokens + 1")},
        default=_UNLIMITED,
    ),
    *_each(
        *_BATCH,
        dict.fromkeys(("mtp", "eagle3", "draft"), _NARROW),
        default=_UNLIMITED,
        applies=_linear,
        source="openvino.genai, continuous_batching/scheduler.hpp; reproduced with GenAI 2026.4.1, not for eagle3",
    ),
    *_each(
        *_BATCH,
        {
            "mtp": ("generate", "Cannot remove ... draft tokens with ... main-model hidden states."),
            "eagle3": ("generate", "Cannot remove ... tokens from hidden state with length"),
            "draft": ("", "GenAI writes a different, shorter text, and no message says so"),
        },
        default=_UNLIMITED,
        applies=_attention_only,
    ),
)

_NO_SDPA = (
    "load",
    "Speculative decoding with the SDPA attention backend on non-NPU devices is only supported for Gemma4",
)
ATTENTION = _each(
    "paged-attention",
    "ATTENTION_BACKEND",
    "PA",
    {"mtp": ("load", "Unsupported property draft_model by ... plugin"), **dict.fromkeys(_OTHERS, _NO_SDPA)},
    default="PA",
)

PROMPT = _each(
    "prompt-length",
    "prompt",
    ">= 2 tokens",
    {
        "mtp": ("generate", "MTP draft input embeds expect shape [1, seq_len>1, hidden_size]"),
        "eagle3": ("generate", "input_ids shape is invalid for creating eagle3 draft input_ids"),
    },
)

STREAMING = (
    *_each(
        "one-prompt",
        "prompts in a call",
        "1",
        {"dflash": ("generate", "DFlash CB/PA POC supports batch size 1 only.")},
    ),
    *_each(
        "one-prompt",
        "prompts in a call",
        "1, if a streamer is given",
        {
            "mtp": ("generate", "MTP streaming only supports batch size=1 with greedy decoding."),
            "eagle3": ("generate", "Eagle3 streaming only supports batch size=1 with greedy or tree search"),
            "draft": ("generate", "Streaming only supports batch size=1 with greedy/multinomial"),
        },
    ),
)

PROMPT_LOOKUP = _each(
    "no-prompt-lookup",
    "GenerationConfig.max_ngram_size",
    "0",
    {"dflash": ("generate", "DFlash CB/PA does not support prompt lookup decoding; max_ngram_size must be 0.")},
    default="0",
    refuses=_not_zero,
)

ADAPTERS = _each(
    "no-adapters",
    "GenerationConfig.adapters",
    "None",
    {"dflash": ("generate", "DFlash CB/PA does not support adapters until target and draft adapter parity")},
    default="None",
)

_GEMMA4_SOURCE = "openvino.genai 2026.4.1, gemma4_mtp_strategy.cpp and llm/pipeline.cpp; read, not run"
GEMMA4 = (
    *_each(
        "draft-directory",
        "draft_model",
        "the directory of the MTP head",
        {"mtp": _NO_DRAFT},
        met=False,
        applies=_gemma4,
        source=_GEMMA4_SOURCE,
    ),
    *_each(
        "attention-backend",
        "ATTENTION_BACKEND",
        "SDPA",
        {"mtp": ("", "GenAI takes the pair as a target and an ordinary draft")},
        default="PA",
        met=False,
        applies=_gemma4,
        source=_GEMMA4_SOURCE,
    ),
    *_each(
        "greedy",
        "GenerationConfig.do_sample",
        "False",
        {"mtp": ("generate", "Gemma4 MTP stateful speculative decoding supports greedy decoding only.")},
        default="False",
        applies=_gemma4,
        source=_GEMMA4_SOURCE,
    ),
    *_each(
        "one-sequence",
        "GenerationConfig.num_return_sequences",
        "1",
        {"mtp": ("generate", "Gemma4 MTP stateful speculative decoding supports num_return_sequences=1 only.")},
        default="1",
        applies=_gemma4,
        source=_GEMMA4_SOURCE,
    ),
    *_each(
        "confidence-threshold",
        "GenerationConfig.assistant_confidence_threshold",
        "0",
        {
            "mtp": (
                "generate",
                "Speculative Decoding pipeline only supports num_assistant_tokens, not assistant_confidence_threshold.",
            )
        },
        default="0",
        applies=_gemma4,
        source=_GEMMA4_SOURCE,
    ),
    *_each(
        "one-prompt",
        "prompts in a call",
        "1",
        {"mtp": ("generate", "Gemma4 MTP supports batch size 1 and non-empty prompts only.")},
        applies=_gemma4,
        source=_GEMMA4_SOURCE,
    ),
)
