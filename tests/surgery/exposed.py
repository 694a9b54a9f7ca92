"""Helpers for tests of exposed hidden states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openvino as ov

from irtools.decoder.stack import DecoderStack
from irtools.model.document import Document
from irtools.surgery.expose import exposing
from irtools.surgery.transaction import apply


def read(document: Document, data: bytes, scratch: Path) -> ov.Model:
    (scratch / "m.xml").write_bytes(data)
    return ov.Core().read_model(scratch / "m.xml", document.weights_path)


def steps(document: Document, *exposures: dict[str, Any], template: DecoderStack) -> Document:
    for one in exposures:
        document = Document(document.path, apply(document, exposing(document, template, **one).edits).data)
    return document


def outputs(document: Document) -> list[tuple[str, ...]]:
    return [document.graph.result_names(key) for key in document.graph.results]
