"""Fixtures of the surgery tests. Stacks come from truth files, so that a locating error does not matter here."""

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
def template(fixtures: Path) -> DecoderStack:
    """The stack of falcon."""
    return open_export(fixtures / "falcon").locate()


@pytest.fixture(scope="session")
def make_stack(template: DecoderStack) -> MakeStack:
    """A stack with the given (producer, output index) per layer; everything else is falcon's."""

    def make(locators: Sequence[tuple[str, int]]) -> DecoderStack:
        layers = tuple(
            replace(template.layers[0], index=index, locator=Locator(*locator))
            for index, locator in enumerate(locators)
        )
        return replace(template, layers=layers)

    return make


@pytest.fixture(scope="session")
def true_stack(make_stack: MakeStack, truth: Callable[[str], dict[str, Any]]) -> Callable[[str], DecoderStack]:
    """The stack of an export's truth file, with the first of several true names."""

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
