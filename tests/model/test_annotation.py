"""Layer numbers and locators of an annotation, as the runtime's parser reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import irtools
from irtools.model.annotation import is_layer_key, parse_annotation


@given(st.integers(min_value=0, max_value=10**15))
def test_a_number_as_the_runtime_writes_it_is_a_layer(number: int) -> None:
    assert is_layer_key(str(number))
    assert not is_layer_key(f"0{number}")


@pytest.mark.parametrize("key", ["", "-1", "+1", "1 ", "1.0", "\u0661", "\u00b2", "9" * 5000])
def test_other_keys_are_no_layers(key: str) -> None:
    assert not is_layer_key(key)


@pytest.mark.parametrize("index", ["-0", "-1", "0.0", "1e0", "true", "null", '"0"', str(2**64)])
def test_an_output_index_is_an_unsigned_integer_of_64_bits(index: str) -> None:
    parsed = parse_annotation(f'{{"layers":{{"0":{{"producer":"a","output_index":{index}}}}}}}')
    assert parsed.fault
    assert parsed.locators == {}


def test_a_key_of_5000_digits_is_a_finding_and_no_crash(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("falcon")
    export = irtools.open_export(directory)
    value = json.loads(export.locate().annotation())
    value["layers"]["9" * 5000] = value["layers"]["0"]
    with export.edit() as editor:
        editor.set_rt_info("hidden_states_decoder_layers", json.dumps(value))
    export.save(check=False)

    findings = irtools.open_export(directory).verify(select=["HID"]).findings

    assert "HID007" in [finding.code for finding in findings]


def test_a_draft_with_a_broken_config_is_a_draft_all_the_same(export_copy: Callable[..., Path]) -> None:
    """GenAI reads the config.json of the target, not that of the draft."""
    directory = export_copy("qwen3_dflash")
    (directory / "config.json").write_text("[{}]")

    verification = irtools.open_export(directory).verify()

    assert "EXP010" in [finding.code for finding in verification.findings]
    assert [one.name for one in verification.strategies if one.available] == ["dflash"]
