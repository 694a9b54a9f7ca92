"""Tokens and inputs that the proof of a head feeds for comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irtools.prove.measure_head import Text, _scaled
from irtools.prove.prompts import others


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(10, 12))
def test_other_tokens_differ_everywhere_and_exist(tokens: list[int], vocabulary: int) -> None:
    other = others(tokens, vocabulary)
    assert len(other) == len(tokens)
    assert all(new != old and 0 <= new < vocabulary for new, old in zip(other, tokens, strict=True))


@pytest.mark.parametrize("tokens", [[5, 5, 5], [0], [9, 9], [1, 2, 2, 1]])
def test_equal_neighbours_become_others(tokens: list[int]) -> None:
    assert all(new != old for new, old in zip(others(tokens, 10), tokens, strict=True))
    assert all(new != old for new, old in zip(others(tokens, 0), tokens, strict=True))


class Adding:
    """A head whose output is one of its inputs, four times as large when that input is."""

    def __init__(self, reads: str) -> None:
        self.reads = reads

    def run(self, _tokens: Any, hidden: Any, embeddings: Any, **_: Any) -> Any:
        return (hidden if self.reads == "hidden_states" else embeddings,)


@pytest.mark.parametrize("reads", ["hidden_states", "inputs_embeds"])
def test_an_input_without_a_norm_moves_the_output_as_it_grows(reads: str) -> None:
    generator = np.random.default_rng(0)
    values = [generator.standard_normal((1, 6, 8)).astype(np.float32) for _ in range(2)]
    text = Text(np.arange(7)[None], 2, values[0], None, None, values[1], None, None)

    moved = _scaled(Adding(reads), [text])

    other = {"hidden_states": "inputs_embeds", "inputs_embeds": "hidden_states"}[reads]
    assert moved[other] == 0
    assert moved[reads] == pytest.approx(3)  # 4x - x, over x
