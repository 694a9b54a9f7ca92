"""Witness: config.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["TextConfig", "read_config"]

_NESTED = ("text_config", "language_config", "llm_config", "thinker_config", "decoder", "language_model", "text_model")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_decoder_layers")
_KINDS = ("layer_types", "layers_block_type", "hybrid_override_pattern")  # one entry, or letter, per layer
_WIDTH = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")


@dataclass(frozen=True, slots=True)
class TextConfig:
    """Facts of config.json about the language model; None if they are not given."""

    num_layers: int | None
    hidden_size: int | None
    layer_types: tuple[str, ...]


def _candidates(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in _NESTED:
        inner = config.get(key)
        if isinstance(inner, Mapping):
            yield from _candidates(inner)
    yield config


def _integer(config: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def read_config(config: Mapping[str, Any] | None) -> TextConfig:
    """Read the language model's part of a config, which may be nested."""
    for candidate in _candidates(config or {}):
        kinds = next((value for key in _KINDS if isinstance(value := candidate.get(key), list | str)), ())
        layers = _integer(candidate, _LAYERS) or len(kinds) or None
        if layers is not None:
            return TextConfig(layers, _integer(candidate, _WIDTH), tuple(map(str, kinds)))
    return TextConfig(None, _integer(config or {}, _WIDTH), ())
