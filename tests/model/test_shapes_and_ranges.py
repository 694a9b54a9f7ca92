"""Shapes and byte ranges that no fixture has."""

from __future__ import annotations

from pathlib import Path

import pytest

from irtools.ir.constants import Constant
from irtools.ir.pread import Allowance, WeightsReader
from irtools.ir.scan import Span
from irtools.model.directory import ModelDirectory
from irtools.model.part import State
from irtools.model.weights import covered_bytes


@pytest.mark.parametrize(
    ("shape", "grows"),
    [
        ((-1, 2, -1, 8), True),
        ((1, -1, 2, 8), True),
        ((-1, 2, 16, 8), False),  # the batch alone
        ((1, 2, 16, -1), False),  # the head size
        ((-1, -1, 8), False),
        ((-1, 2, -1, 8, 8), False),
        ((), False),
    ],
)
def test_a_cache_has_rank_4_and_a_dynamic_length(shape: tuple[int, ...], grows: bool) -> None:
    assert State("v", "f32", shape, (1,), (2,)).grows is grows


@pytest.mark.parametrize(
    ("ranges", "covered"),
    [
        ([(0, 100), (10, 20)], 100),  # one inside another
        ([(0, 100), (10, 20), (50, 100)], 150),
        ([(0, 10), (10, 5)], 15),
        ([(0, 10), (5, 10)], 15),
        ([(20, 5), (0, 10)], 15),  # a gap, and not in order
        ([(0, 10), (0, 10)], 10),
        ([(0, 10), (3, 0)], 10),
        ([], 0),
    ],
)
def test_shared_bytes_count_once(ranges: list[tuple[int, int]], covered: int) -> None:
    nowhere = Span(0, 0)
    constants = [Constant(1, "c", "u8", (size,), offset, size, nowhere, False) for offset, size in ranges]
    assert (
        covered_bytes(constants) == covered == len({at for start, size in ranges for at in range(start, start + size)})
    )


@pytest.mark.parametrize(
    ("text", "content"),
    [('{"eos_token_id": 2}', {"eos_token_id": 2}), ("[1]", {}), ("null", {}), ("7", {}), ("{", {}), (None, {})],
)
def test_a_generation_config_that_is_no_object_counts_as_none(
    text: str | None, content: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "openvino_model.xml").write_text("<net/>")
    if text is not None:
        (tmp_path / "generation_config.json").write_text(text)

    assert ModelDirectory.open(tmp_path).generation_config == content


@pytest.mark.parametrize(("most", "values"), [(4, (1, 2, 3, 4)), (5, (1, 2, 3, 4)), (3, None)])
def test_a_constant_of_as_many_integers_as_allowed_is_read(
    most: int, values: tuple[int, ...] | None, tmp_path: Path
) -> None:
    path = tmp_path / "openvino_model.bin"
    path.write_bytes(bytes([9, 9, 1, 2, 3, 4]))
    constant = Constant(1, "c", "u8", (2, 2), 2, 4, Span(0, 0))

    assert WeightsReader(path, Allowance(100)).integers(constant, most) == values
