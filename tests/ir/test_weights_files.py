"""Files of weights as the reader of samples sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from irtools.ir.pread import Allowance, WeightsReader
from irtools.ir.reading import is_lfs_pointer

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize 1234\n" % (b"0" * 64)


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (POINTER, True),
        (POINTER[:-1], True),
        (POINTER + bytes(4096), False),  # Git LFS takes only short files for pointers
        (b"other" + POINTER, False),
        (bytes(64), False),
        (b"", False),
    ],
)
def test_only_a_short_file_is_a_pointer(content: bytes, pointer: bool, tmp_path: Path) -> None:
    path = tmp_path / "openvino_model.bin"
    path.write_bytes(content)
    assert is_lfs_pointer(path) is pointer
    assert WeightsReader(path, Allowance(10_000)).size == (0 if pointer else len(content))


@pytest.mark.parametrize("name", ["falcon", "qwen3_5_vl_int4"])
def test_every_file_of_an_export_is_read(name: str, fixtures: Path) -> None:
    for path in (fixtures / name).glob("*.bin"):
        size = path.stat().st_size
        reader = WeightsReader(path, Allowance(100))
        assert reader.size == size
        assert reader.read(size - 10, 10) == path.read_bytes()[-10:]
