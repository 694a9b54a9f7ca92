"""Rows by which two tables of embeddings are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from irtools.ir.constants import Constant
from irtools.ir.scan import Span
from irtools.surgery.fit import _sampled


def table(path: Path, rows: int, width: int, offset: int) -> tuple[Path, Constant]:
    path.write_bytes(b"\xff" * offset + b"".join(bytes([row]) * width for row in range(rows)))
    return path, Constant(1, "table", "u8", (rows, width), offset, rows * width, Span(0, 0))


@pytest.mark.parametrize("rows", [1, 2, 10, 64, 65, 200])
def test_the_first_and_the_last_row_are_among_them(rows: int, tmp_path: Path) -> None:
    pairs = list(_sampled(table(tmp_path / "a", rows, 8, 0), table(tmp_path / "b", rows, 8, 24)))

    numbers = [mine[0] for mine, _ in pairs]
    assert (numbers[0], numbers[-1]) == (0, rows - 1)
    assert numbers == sorted(set(numbers))
    assert all(mine == others == bytes([mine[0]]) * 8 for mine, others in pairs)


@pytest.mark.parametrize("more", [0, 5])
def test_a_row_past_the_smaller_table_is_not(more: int, tmp_path: Path) -> None:
    pairs = list(_sampled(table(tmp_path / "a", 10, 8, 0), table(tmp_path / "b", 10 + more, 8, 0)))

    assert [mine[0] for mine, _ in pairs] == list(range(10))
