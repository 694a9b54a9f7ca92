"""Keys of config.json in nested sections."""

from __future__ import annotations

from typing import Any

import pytest
from irtools.rules.families import parts_by_config

from irtools.model.config import MtpDeclaration, declared_mtp, read_config

LAYERS: dict[str, Any] = {"num_hidden_layers": 4, "mtp_num_hidden_layers": 1}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (LAYERS, "mtp_num_hidden_layers"),
        ({"text_config": LAYERS}, "text_config.mtp_num_hidden_layers"),
        ({"thinker_config": {"text_config": LAYERS}}, "thinker_config.text_config.mtp_num_hidden_layers"),
    ],
)
def test_layers_and_mtp_layers_are_read_from_the_same_section(config: dict[str, Any], key: str) -> None:
    assert read_config(config).num_layers == 4
    assert declared_mtp(config) == MtpDeclaration(key, 1)


def test_a_vision_tower_declares_nothing_about_the_language_model() -> None:
    config = {"vision_config": {"num_hidden_layers": 12, "num_mtp_layers": 3}}
    assert read_config(config).num_layers is None
    assert declared_mtp(config) is None


@pytest.mark.parametrize("section", ["text_config", "language_config"])
def test_a_part_that_depends_on_the_language_model_is_found_in_its_section(section: str) -> None:
    config = {"model_type": "gemma4", section: {"num_hidden_layers": 4, "hidden_size_per_layer_input": 256}}
    assert "text_embeddings_per_layer" in parts_by_config(config)
    config[section]["hidden_size_per_layer_input"] = 0
    assert "text_embeddings_per_layer" not in parts_by_config(config)
