"""Keys of config.json, by the names that model families use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "LAYER_COUNT_KEYS",
    "MTP_KEYS",
    "WIDTH_KEYS",
    "MtpDeclaration",
    "TextConfig",
    "declared_mtp",
    "integers",
    "mtp_place",
    "read_config",
    "text_section",
]

_NESTED = ("text_config", "language_config", "llm_config", "thinker_config", "decoder", "language_model", "text_model")
LAYER_COUNT_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers", "decoder_layers")
_KINDS = ("layer_types", "layers_block_type", "hybrid_override_pattern")  # one entry, or letter, per layer
_MOST_SECTIONS = 64
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim", "model_dim", "word_embed_proj_dim")
MTP_KEYS = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_layers")


@dataclass(frozen=True, slots=True)
class TextConfig:
    """Facts of config.json about the language model; None if they are not given."""

    num_layers: int | None
    hidden_size: int | None
    layer_types: tuple[str, ...]


def _sections(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Sections about the language model, innermost first, each with the keys that lead to it (``text_config.``)."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    pending: list[tuple[str, Mapping[str, Any]]] = [("", config)]
    while pending and len(found) < _MOST_SECTIONS:
        prefix, section = pending.pop()
        found.append((prefix, section))
        inner = ((f"{prefix}{key}.", section.get(key)) for key in _NESTED)
        pending += [(name, value) for name, value in inner if isinstance(value, Mapping)]
    return iter(found[::-1])  # the last of a section's own sections comes first in `found`


def integers(section: Mapping[str, Any], keys: Iterable[str]) -> dict[str, int]:
    """Values of the given keys that are integers of 64 bits, in the order of the keys; booleans do not count."""
    values = ((key, section.get(key)) for key in keys)
    return {
        key: value
        for key, value in values
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    }


def _positive(section: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    return next((value for value in integers(section, keys).values() if value > 0), None)


def _layer_types(section: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = next((value for key in _KINDS if isinstance(value := section.get(key), list | str)), ())
    return tuple(map(str, kinds))


def _layer_count(section: Mapping[str, Any]) -> int | None:
    return _positive(section, LAYER_COUNT_KEYS) or len(_layer_types(section)) or None


def text_section(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Section about the language model: the innermost with a number of layers, else the first nested one."""
    candidates = [section for _, section in _sections(config)]
    return next((section for section in candidates if _layer_count(section) is not None), candidates[0])


def read_config(config: Mapping[str, Any] | None) -> TextConfig:
    """Read the language model's section of a config, which may be nested."""
    section = text_section(config or {})
    layers = _layer_count(section)
    if layers is None:
        return TextConfig(None, _positive(config or {}, WIDTH_KEYS), ())
    return TextConfig(layers, _positive(section, WIDTH_KEYS), _layer_types(section))


@dataclass(frozen=True, slots=True)
class MtpDeclaration:
    """Number of MTP layers that config.json declares; the key includes its section."""

    key: str
    count: int


def declared_mtp(config: Mapping[str, Any]) -> MtpDeclaration | None:
    """The outermost key with a number of MTP layers, in the sections about the language model."""
    for prefix, section in reversed(list(_sections(config))):
        for key, count in integers(section, MTP_KEYS).items():
            return MtpDeclaration(prefix + key, count)
    return None


def mtp_place(config: Mapping[str, Any], like: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Section (the keys that lead to it) and key for the number of MTP layers in a config.

    The place is that of the number in ``config`` if there is one, else that of ``like`` if ``config`` has this section,
    else the section about the language model.
    """
    sections = dict(_sections(config))
    for declared in (declared_mtp(config), declared_mtp(like)):
        prefix, _, key = declared.key.rpartition(".") if declared is not None else ("", "", "")
        prefix = f"{prefix}." if prefix else ""
        if key and prefix in sections:
            return tuple(prefix.split(".")[:-1]), key
    text = text_section(config)
    prefix = next(prefix for prefix, section in sections.items() if section is text)
    return tuple(prefix.split(".")[:-1]), MTP_KEYS[0]
