"""The decoder of the benchmark, in a size that a test can wait for."""

from __future__ import annotations

import pytest

from irtools.export import open_export
from tests.benchmarks.large import write_large

LAYERS = 64


@pytest.mark.slow
def test_every_hidden_state_of_a_deep_decoder_with_unrolled_experts_is_exact(tmp_path):
    stack = open_export(write_large(tmp_path, layers=LAYERS, experts=24)).locate()
    # The names are those that the builder gave to its layer outputs.
    expected = [f"__module.model.layers.{layer}/aten::add/Add_1" for layer in range(LAYERS - 1)]
    assert [locator.producer for locator in stack.locators] == [*expected, "__module.model.norm/aten::mul/Multiply"]
    assert {(layer.mixer, layer.feed_forward) for layer in stack.layers} == {("full_attention", "experts")}
    assert all(len(layer.states) == 2 for layer in stack.layers)
    rejected = {rejection.producer for rejection in stack.rejections}
    assert {f"__module.model.layers.{layer}/aten::add/Add" for layer in range(LAYERS)} <= rejected
    assert not rejected & {locator.producer for locator in stack.locators}
