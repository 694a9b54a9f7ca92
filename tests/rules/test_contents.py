"""A ``.bin`` of the right size with other content is reported, and OpenVINO agrees; little of it is read."""

from __future__ import annotations

import builtins
import os
import shutil
from collections import Counter
from collections.abc import Callable
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

import eagle3
import numpy as np
import openvino as ov
import pytest
from defects_contents import HEAD, B, filled, of_another, shuffled, zeros
from irtools.rules import ir_contents, ir_shapes

from irtools.authoring import Context
from irtools.export import open_export
from irtools.ir.reading import LFS_POINTER
from irtools.lint.context import READ_AT_MOST
from irtools.model.directory import ModelDirectory

Make = Callable[[Path, Path, str], tuple[Path, dict[str, Any]]]
RULES = (
    *(ir_shapes.impossible_index, ir_shapes.impossible_shape),
    *(ir_contents.blank_weights, ir_contents.non_finite_weights),
    *(ir_contents.implausible_weights, ir_contents.damaged_vocabulary),
)


def errors(directory: Path) -> set[str]:
    context = Context(ModelDirectory.open(directory))
    return {rule.code for rule in RULES for f in rule.check(context) if (f.severity or rule.severity) == 3}


def loads(directory: Path) -> bool:
    try:
        ov.Core().compile_model(directory / "openvino_model.xml", "CPU")
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    "change",
    [shuffled, zeros(0), zeros(0, 0.1), lambda data: bytes(4) + data[:-4], lambda data: b"\xff" * len(data)],
    ids=["shuffled", "zeros", "zeros-at-the-beginning", "shifted", "ones"],
)
def test_what_openvino_refuses_is_an_error(export_copy: Callable[..., Path], change: Callable[[bytes], bytes]) -> None:
    directory = export_copy("llama")
    assert loads(directory)
    assert not errors(directory)
    (directory / B).write_bytes(change((directory / B).read_bytes()))

    assert not loads(directory)
    assert errors(directory) & {"IR024", "IR025"}


def test_another_models_weights_are_an_error(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    of_another("gpt2")(directory)

    assert not loads(directory)
    assert errors(directory) & {"IR024", "IR025"}


def test_a_blank_head_loads_and_is_an_error_all_the_same(export_copy: Callable[..., Path]) -> None:
    directory = export_copy("llama")
    filled(B, HEAD, b"\0")(directory)

    model = ov.Core().compile_model(directory / "openvino_model.xml", "CPU")
    request = model.create_infer_request()
    inputs = {"input_ids": [[5, 6]], "attention_mask": [[1, 1]], "position_ids": [[0, 1]]}
    logits = request.infer({**inputs, "beam_idx": np.zeros(1, np.int32)})
    assert not logits["logits"].any()  # every token is as likely as any other
    assert errors(directory) == {"IR026"}
    strategies = {strategy.name: strategy for strategy in open_export(directory).verify().strategies}
    assert not strategies["plain"].available


def test_a_skeleton_is_no_error(fixtures: Path) -> None:
    found = [(f.code, str(f.severity)) for f in open_export(fixtures / "scale").verify(select=["IR"]).findings]

    assert found == [("IR026", "note")]


class CountedFile(BufferedReader):
    """A file that records how many bytes each call reads."""

    sizes: list[int]

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.sizes.append(len(data))
        return data

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer)
        self.sizes.append(count)
        return count


def plain_model(fixtures: Path, directory: Path, name: str) -> tuple[Path, dict[str, Any]]:
    return fixtures / name, {}


def eagle3_pair(fixtures: Path, directory: Path, name: str) -> tuple[Path, dict[str, Any]]:
    shutil.copytree(fixtures / name, directory)
    eagle3.write(directory)
    return fixtures / name, {"draft": directory}


def grafted(fixtures: Path, directory: Path, name: str) -> tuple[Path, dict[str, Any]]:
    shutil.copytree(fixtures / name, directory)
    export = open_export(directory)
    export.graft(128)
    export.save(check=False)
    return directory, {}


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((plain_model, name) for name in ("scale", "qwen3_5_vl_int4")),
        *((eagle3_pair, "llama"), (grafted, "qwen3_5_vl_trained")),
    ],
)
def test_at_most_500_kb_are_read(
    monkeypatch: pytest.MonkeyPatch, fixtures: Path, tmp_path: Path, make: Make, name: str
) -> None:
    """Count the bytes that are read; otherwise files are only tested for a Git-LFS pointer."""
    directory, options = make(fixtures, tmp_path / "made", name)
    real_read, real_open, real_file, read = os.pread, os.open, builtins.open, Counter[str]()
    names: dict[int, str] = {}
    sizes: list[int] = []

    def opened(path: str | Path, *more: int, **others: int) -> int:
        descriptor = real_open(path, *more, **others)
        names[descriptor] = str(path)
        return descriptor

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        read[names[descriptor]] += size
        return real_read(descriptor, size, offset)

    def file_opened(which: Any, *more: Any, **others: Any) -> Any:
        if not names.get(which, "").endswith(".bin"):
            return real_file(which, *more, **others)
        file = CountedFile(FileIO(which))
        file.sizes = sizes
        return file

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "pread", counted)
    monkeypatch.setattr(builtins, "open", file_opened)
    open_export(directory).verify(**options)

    assert max(sizes, default=0) <= len(LFS_POINTER)  # a file that is too large for a pointer is not read
    assert read
    assert all(path.endswith(".bin") for path in read)
    for parent in {Path(path).parent for path in read}:
        assert sum(size for path, size in read.items() if Path(path).parent == parent) <= READ_AT_MOST == 500_000


def test_the_limit_holds_for_all_parts_together(fixtures: Path) -> None:
    context = Context(ModelDirectory.open(fixtures / "qwen3_5_vl_int4"))
    readers = [context.weights_reader(document) for document in context.all_documents]
    assert len({id(reader.allowance) for reader in readers}) == 1
    readers[0].allowance.left = 10

    assert readers[0].read(0, 8) is not None
    assert readers[1].read(0, 8) is None
    assert readers[0].read(0, 8) is not None  # once read, it costs nothing


@pytest.mark.parametrize("name", ["bloom", "falcon_mamba", "gemma3n_text", "llama_int4", "qwen3_next", "whisper"])
def test_skeletons_of_other_families_have_no_false_alarm(fixtures: Path, name: str) -> None:
    assert not errors(fixtures / "zoo" / name)
