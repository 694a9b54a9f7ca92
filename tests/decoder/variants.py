"""Variants of an export that carry the same hidden states: other names, other files around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from irtools.export import open_export
from irtools.model.document import Document

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
ZOO = FIXTURES / "zoo"


def exports_with_truth() -> dict[str, Path]:
    """Every fixture with a truth file, by name; those of the zoo as ``zoo/<name>``."""
    exports = {path.stem: FIXTURES / path.stem for path in sorted((FIXTURES / "truth").glob("*.json"))}
    return exports | {f"zoo/{path.parent.name}": path.parent for path in sorted(ZOO.glob("*/truth.json"))}


def read_truth(directory: Path) -> dict[int, set[tuple[str, int]]]:
    """By layer, every (producer, output index) that carries the hidden state; empty if none was found."""
    path = directory / "truth.json"
    content = json.loads((path if path.exists() else FIXTURES / "truth" / f"{directory.name}.json").read_text())
    return {int(layer): {(name, index) for name, index in places} for layer, places in content["layers"].items()}


@dataclass(frozen=True)
class Variant:
    """A document with its config, and the original names of its ops."""

    document: Document
    config: Mapping[str, Any]
    original: Mapping[str, str]

    def producer(self, name: str) -> str:
        return self.original.get(name, name)


def as_exported(directory: Path) -> Variant:
    export = open_export(directory)
    return Variant(export.target, export.config, {})


def without_config(directory: Path) -> Variant:
    return Variant(open_export(directory).target, {}, {})


def with_meaningless_names(directory: Path) -> Variant:
    """Rename every top-level op except Parameters and Results to ``op_<id>``."""
    export = open_export(directory)
    tree = etree.fromstring(export.target.data)
    original = {}
    for layer in tree.iterfind("layers/layer"):
        if layer.get("type") not in ("Parameter", "Result"):
            name = f"op_{layer.get('id')}"
            original[name] = layer.get("name")
            layer.set("name", name)
    return Variant(Document(export.target.path, etree.tostring(tree)), export.config, original)


def with_neither(directory: Path) -> Variant:
    named = with_meaningless_names(directory)
    return Variant(named.document, {}, named.original)


def shuffled(directory: Path) -> Variant:
    """Reverse and renumber the layers, so that position and id have no meaning."""
    export = open_export(directory)
    tree = etree.fromstring(export.target.data)
    layers = tree.find("layers")
    numbers = {layer.get("id"): str(7 * (len(layers) - position)) for position, layer in enumerate(layers)}
    for layer in list(layers):
        layer.set("id", numbers[layer.get("id")])
        layers.insert(0, layer)
    for edge in tree.iterfind("edges/edge"):
        edge.set("from-layer", numbers[edge.get("from-layer")])
        edge.set("to-layer", numbers[edge.get("to-layer")])
    return Variant(Document(export.target.path, etree.tostring(tree)), export.config, {})


VARIANTS: dict[str, Callable[[Path], Variant]] = {
    "as exported": as_exported,
    "no config.json": without_config,
    "meaningless names": with_meaningless_names,
    "neither": with_neither,
    "shuffled": shuffled,
}


def rename(data: bytes, old: str, new: str) -> bytes:
    """Give one top-level op another friendly name."""
    return re.sub(
        rb'(<layer id="\d+" name=")' + re.escape(old.encode()) + rb'"', rb"\1" + new.encode() + b'"', data, count=1
    )
