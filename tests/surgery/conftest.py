"""Stacks that say what a test wants: surgery is tested against the truth, not the locating."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import openvino as ov
import pytest

from irtools import open_export
from irtools.decoder.stack import DecoderStack
from irtools.model.annotation import Locator
from irtools.model.document import Document

MakeStack = Callable[[Sequence[tuple[str, int]]], DecoderStack]


@pytest.fixture(scope="session")
def make_stack(fixtures: Path) -> MakeStack:
    """A stack with the given (producer, output index) per layer; the rest of it is falcon's."""
    falcon = open_export(fixtures / "falcon").locate()

    def make(locators: Sequence[tuple[str, int]]) -> DecoderStack:
        layers = tuple(
            replace(falcon.layers[0], index=index, locator=Locator(producer, output))
            for index, (producer, output) in enumerate(locators)
        )
        return replace(falcon, layers=layers)

    return make


@pytest.fixture(scope="session")
def true_stack(make_stack: MakeStack, truth: Callable[[str], dict[str, Any]]) -> Callable[[str], DecoderStack]:
    """The stack that the truth file of an export says; of several true names the first."""

    def make(name: str) -> DecoderStack:
        layers = truth(name)["layers"]
        return make_stack([tuple(layers[str(index)][0]) for index in range(len(layers))])

    return make


@pytest.fixture(scope="session")
def target_of(fixtures: Path) -> Callable[[str], Path]:
    """The target's ``.xml`` of a fixture."""

    def find(name: str) -> Path:
        names = ("openvino_model.xml", "openvino_language_model.xml")
        return next(path for file in names if (path := fixtures / name / file).is_file())

    return find


@pytest.fixture(scope="session")
def falcon(fixtures: Path) -> Document:
    return Document(fixtures / "falcon" / "openvino_model.xml")


@pytest.fixture
def read(tmp_path: Path, falcon: Document) -> Callable[[bytes], ov.Model]:
    """Read a version of falcon's graph with OpenVINO."""

    def reader(data: bytes) -> ov.Model:
        (tmp_path / "m.xml").write_bytes(data)
        return ov.Core().read_model(tmp_path / "m.xml", falcon.weights_path)

    return reader


@pytest.fixture(scope="session")
def template(fixtures: Path) -> DecoderStack:
    return open_export(fixtures / "falcon").locate()
