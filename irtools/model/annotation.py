"""The hidden-state annotation of a target: the one parser and the one resolver of its locators."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from irtools.graph.view import GraphView, Source
from irtools.ir.rt_info import ANNOTATION_KEY, effective_entry
from irtools.ir.scan import Scan, line_of

__all__ = [
    "Annotation",
    "Locator",
    "Tap",
    "UnresolvedLocatorError",
    "is_layer_key",
    "json_text",
    "parse_annotation",
    "read_annotation",
    "resolve",
    "resolve_or_none",
    "stray_line",
]


@dataclass(frozen=True, slots=True)
class Locator:
    """Place of a hidden state: one entry of the annotation.

    Attributes
    ----------
    producer : str
        Friendly name of the op.
    output_index : int
        Position among the outputs of the op, from 0.
    """

    producer: str
    output_index: int = 0

    def __str__(self) -> str:
        return f"{self.producer}[{self.output_index}]"


@dataclass(frozen=True, slots=True)
class Tap:
    """Locator of one layer."""

    layer: int
    locator: Locator

    def __str__(self) -> str:
        return str(self.locator)


@dataclass(frozen=True)
class Annotation:
    """Value of ``hidden_states_decoder_layers``, parsed as strictly as by the runtime.

    Attributes
    ----------
    text : str or None
        None for an rt_info entry without a value.
    problem : str
        Predicate such as ``has no value`` if the text is not a JSON object with an object ``layers``; else empty.
    layers : mapping of str to object
        Entries by layer number as decoded from JSON. If a number is repeated, its last entry.
    repeated : tuple of str
        Layer numbers that occur more than once.
    line : int
        Line of the effective entry in the file; 0 for a text alone.
    """

    text: str | None
    problem: str = ""
    layers: Mapping[str, Any] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    line: int = 0

    @property
    def early(self) -> bool:
        """True for the early form ``{"version":1,"layers":{"0":"name"}}``, which the runtime does not read."""
        return bool(self.layers) and all(isinstance(value, str) for value in self.layers.values())

    def entry_problem(self, key: str) -> str:
        """Predicate that says why a layer's entry is not a locator; empty if it is one."""
        value = self.layers[key]
        if not isinstance(value, Mapping):
            return f"is {json_text(value)}, not an object with `producer` and `output_index`"
        if "producer" not in value:
            return "has no `producer`"
        if not isinstance(value["producer"], str):
            return f"has the `producer` {json_text(value['producer'])}, which is not a string"
        if "output_index" not in value:
            return "has no `output_index`"
        index = value["output_index"]
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 2**64:
            return f"has the `output_index` {json_text(index)}, which is not an unsigned integer"
        return ""

    @cached_property
    def fault(self) -> str:
        """The first problem of the text or of an entry, as a predicate; empty if every entry is a locator."""
        if self.problem or self.early:
            return self.problem
        faults = ((key, self.entry_problem(key)) for key in self.layers)
        return next((f"has an entry for layer {key!r} that {problem}" for key, problem in faults if problem), "")

    @property
    def locators(self) -> Mapping[str, Locator]:
        """Locators by layer number, also of the early form; empty if there is a :attr:`fault`."""
        if self.early:
            return {key: Locator(name) for key, name in self.layers.items()}
        if self.fault:
            return {}
        return {key: Locator(value["producer"], value["output_index"]) for key, value in self.layers.items()}

    def taps(self) -> Iterator[Tap]:
        """Entries with a valid layer number and valid types, by layer."""
        for layer in sorted(int(key) for key in self.layers if is_layer_key(key)):
            if not self.entry_problem(str(layer)):
                value = self.layers[str(layer)]
                yield Tap(layer, Locator(value["producer"], value["output_index"]))


class _SignedZero:
    """Value for ``-0``: the runtime's parser reads a signed number, and refuses those."""

    def __repr__(self) -> str:
        return "-0"


def parse_annotation(text: str | None, line: int = 0) -> Annotation:
    """Parse the value of ``hidden_states_decoder_layers``.

    Examples
    --------
    >>> parse_annotation('{"layers": {"0": {"producer": "a/Add", "output_index": 0}}}').locators
    {'0': Locator(producer='a/Add', output_index=0)}
    >>> parse_annotation("[]").problem
    'is not a JSON object'
    """
    if text is None:
        return Annotation(text, "has no value", line=line)
    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend(key for key, count in Counter(key for key, _ in items).items() if count > 1)
        return dict(items)

    try:
        content = json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=pairs, parse_constant=_refuse, parse_int=_integer
        )
        json.dumps(content, ensure_ascii=False, default=repr).encode()  # refuses lone surrogates
    except (ValueError, RecursionError) as error:
        return Annotation(text, f"is not valid JSON ({error})", line=line)
    if not isinstance(content, dict):
        return Annotation(text, "is not a JSON object", line=line)
    layers = content.get("layers")
    if not isinstance(layers, dict):
        problem = "has a `layers` that is not an object" if "layers" in content else "has no `layers`"
        return Annotation(text, problem, line=line)
    return Annotation(text, "", layers, tuple(key for key in repeated if key in layers), line)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")


def _integer(digits: str) -> Any:
    return _SignedZero() if digits == "-0" else int(digits)


def json_text(value: object) -> str:
    """Spell a value of an entry as JSON."""
    return repr(value) if isinstance(value, _SignedZero) else json.dumps(value, default=repr)


def is_layer_key(key: str) -> bool:
    """True if a key has the form in which the runtime writes a layer number."""
    return key.isascii() and key.isdecimal() and (key == "0" or not key.startswith("0")) and len(key) <= 18


def read_annotation(scan: Scan) -> Annotation | None:
    """The effective annotation of a file: the last entry with its key; None if there is none."""
    entry = effective_entry(scan, ANNOTATION_KEY)
    return parse_annotation(entry.value, entry.line) if entry is not None else None


_STRAY = re.compile(
    rb"""<(?:%(key)s(?=[\s/>])|[^\s<>/]+\s[^<>]*\bname\s*=\s*["']%(key)s["'])""" % {b"key": ANNOTATION_KEY.encode()}
)


def stray_line(scan: Scan) -> int | None:
    """Line of the first tag with the annotation key, anywhere in the file."""
    match = _STRAY.search(scan.data, scan.net_tag.end) if ANNOTATION_KEY.encode() in scan.data else None
    return line_of(scan.data, match.start()) if match else None


class UnresolvedLocatorError(ValueError):
    """A locator that names no value of the graph; the message is a clause with the reason."""


def resolve(view: GraphView, locator: Locator) -> Source:
    """The value that a locator names, as the runtime looks it up: the output of the only live op of that name.

    Raises
    ------
    UnresolvedLocatorError
        The graph has no such op or output, or several such ops.
    """
    ops = view.live_named(locator.producer)
    if len(ops) != 1:
        raise UnresolvedLocatorError(f"{len(ops)} ops have that name" if ops else "no op has that name")
    outputs = view.op(ops[0]).outputs
    if locator.output_index >= len(outputs):
        raise UnresolvedLocatorError(f"the op has no output {locator.output_index}")
    return Source(ops[0], outputs[locator.output_index].id)


def resolve_or_none(view: GraphView, locator: Locator) -> Source | None:
    """The value that a locator names; None unless the runtime finds exactly one."""
    try:
        return resolve(view, locator)
    except UnresolvedLocatorError:
        return None
