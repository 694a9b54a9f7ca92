"""The hidden-state annotation of a file, read as the runtime reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from irtools.decoder.stack import DecoderStack
from irtools.graph.view import Source
from irtools.ir.rt_info import ANNOTATION_KEY, Entry
from irtools.ir.scan import Scan, line_of
from irtools.lint.model import Context
from irtools.model.annotation import Entries, MalformedAnnotationError, locator_problem, read_entries
from irtools.model.part import Part

__all__ = [
    "Annotation",
    "Tap",
    "annotation",
    "layer_count",
    "layer_id",
    "resolve",
    "stray_line",
    "usable",
]


@dataclass(frozen=True, slots=True)
class Tap:
    """A layer's entry whose types are right."""

    layer: int
    producer: str
    output_index: int

    def __str__(self) -> str:
        return f"{self.producer}[{self.output_index}]"


@dataclass(frozen=True, slots=True)
class Annotation:
    """Content of the effective annotation entry.

    Attributes
    ----------
    problem : str
        Error text if the value is not a JSON object with an object ``layers``; empty otherwise.
    repeated : tuple of str
        Layer keys that occur more than once.
    """

    entry: Entry
    problem: str = ""
    layers: Mapping[str, Any] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()

    @property
    def early(self) -> bool:
        """True if the annotation has the early form, with names in place of locators."""
        return Entries(self.layers).early

    def locator_problem(self, key: str) -> str:
        """Error text if a layer's entry is not a locator; empty otherwise."""
        return locator_problem(self.layers[key])

    def taps(self) -> Iterator[Tap]:
        """Entries with a valid layer id and valid types, by layer."""
        for layer in sorted(int(key) for key in self.layers if layer_id(key)):
            if not self.locator_problem(str(layer)):
                value = self.layers[str(layer)]
                yield Tap(layer, value["producer"], value["output_index"])


def layer_id(key: str) -> bool:
    """True if a key has the form in which the runtime writes a layer number."""
    return key.isascii() and key.isdecimal() and str(int(key)) == key


def annotation(part: Part) -> Annotation | None:
    """The effective annotation; None if the runtime finds no such key."""
    entry = part.entry(ANNOTATION_KEY)
    if entry is None:
        return None
    try:
        entries = read_entries(entry.value)
    except MalformedAnnotationError as error:
        return Annotation(entry, str(error))
    return Annotation(entry, layers=entries.layers, repeated=entries.repeated)


_STRAY = re.compile(
    rb"""<(?:%(key)s(?=[\s/>])|[^\s<>/]+\s[^<>]*\bname\s*=\s*["']%(key)s["'])""" % {b"key": ANNOTATION_KEY.encode()}
)


def stray_line(scan: Scan) -> int | None:
    """Line of the first tag with the annotation key, anywhere in the file."""
    match = _STRAY.search(scan.data, scan.net_tag.end) if ANNOTATION_KEY.encode() in scan.data else None
    return line_of(scan.data, match.start()) if match else None


def resolve(part: Part, tap: Tap) -> Source | None:
    """The output of a tap; None unless its producer is exactly one live op with that output."""
    ops = [key for key in part.named(tap.producer) if key in part.live]
    if len(ops) != 1:
        return None
    outputs = part.graph.op(ops[0]).outputs
    return Source(ops[0], outputs[tap.output_index].id) if tap.output_index < len(outputs) else None


def usable(context: Context) -> tuple[Part, Annotation] | None:
    """The target and its annotation; None unless both are readable and the annotation has locators to check."""
    if context.target is None:
        return None
    part = context.part(context.target)
    entry = annotation(part)
    return (part, entry) if entry is not None and not entry.problem and not entry.early else None


def layer_count(context: Context, stack: DecoderStack | None) -> int | None:
    """Number of layers that the annotation must have: from the located stack, else from config.json."""
    if stack is not None:
        return len(stack.layers)
    for key in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
        value = context.text_config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
