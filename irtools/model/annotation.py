"""Parser of the hidden-state annotation, as strict as the runtime.

``annotate`` parses the annotation as a whole. The rules and the tables of the command line read it
entry by entry.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Annotation",
    "Entries",
    "Locator",
    "MalformedAnnotationError",
    "locator_problem",
    "parse_annotation",
    "read_entries",
    "shown",
]


@dataclass(frozen=True, slots=True)
class Locator:
    """Where a hidden state is: the entry of the annotation.

    Attributes
    ----------
    producer : str
        Friendly name of the op.
    output_index : int
        Position among its outputs.
    """

    producer: str
    output_index: int = 0


class MalformedAnnotationError(ValueError):
    """Text that is not an annotation. The message is a predicate such as ``has no value``."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The object ``layers`` of an annotation, as decoded from JSON.

    Attributes
    ----------
    layers : mapping of str to object
        Entries by layer id as written. If an id is repeated, its last entry.
    repeated : tuple of str
        Layer ids that occur more than once.
    """

    layers: Mapping[str, Any]
    repeated: tuple[str, ...] = ()

    @property
    def early(self) -> bool:
        """True for the early form ``{"version":1,"layers":{"0":"name"}}``, which the runtime does not read."""
        return bool(self.layers) and all(isinstance(value, str) for value in self.layers.values())


@dataclass(frozen=True, slots=True)
class Annotation:
    """Locators of an annotation.

    Attributes
    ----------
    layers : mapping of str to Locator
        Locators by layer id as written.
    early : bool
        True if the text is in the early form, see :attr:`Entries.early`.
    """

    layers: Mapping[str, Locator]
    early: bool = False


class _NoNumber:
    """Value for ``-0``: the runtime's parser reads a signed number, and refuses those."""

    def __repr__(self) -> str:
        return "-0"


def read_entries(text: str | None) -> Entries:
    """Read the value of ``hidden_states_decoder_layers`` without checking its entries.

    Parameters
    ----------
    text : str or None
        None for an rt_info entry without a value.

    Raises
    ------
    MalformedAnnotationError
        The text is not a JSON object with an object ``layers``.
    """
    if text is None:
        raise MalformedAnnotationError("has no value")
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
        raise MalformedAnnotationError(f"is not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise MalformedAnnotationError("is not a JSON object")
    if "layers" not in content:
        raise MalformedAnnotationError("has no `layers`")
    layers = content["layers"]
    if not isinstance(layers, dict):
        raise MalformedAnnotationError("has a `layers` that is not an object")
    return Entries(layers, tuple(key for key in repeated if key in layers))


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")


def _integer(digits: str) -> Any:
    return _NoNumber() if digits == "-0" else int(digits)


def locator_problem(value: object) -> str:
    """Describe as a predicate how a layer's entry is not a valid locator; empty if it is valid."""
    if not isinstance(value, Mapping):
        return f"is {shown(value)}, not an object with `producer` and `output_index`"
    if "producer" not in value:
        return "has no `producer`"
    if not isinstance(value["producer"], str):
        return f"has the `producer` {shown(value['producer'])}, which is not a string"
    if "output_index" not in value:
        return "has no `output_index`"
    index = value["output_index"]
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 2**64:
        return f"has the `output_index` {shown(index)}, which is not an unsigned integer"
    return ""


def shown(value: object) -> str:
    """Spell a value of an entry as JSON."""
    return repr(value) if isinstance(value, _NoNumber) else json.dumps(value, default=repr)


def parse_annotation(text: str | None) -> Annotation:
    """Read the value of ``hidden_states_decoder_layers`` and check every entry.

    Parameters
    ----------
    text : str or None
        None for an rt_info entry without a value.

    Raises
    ------
    MalformedAnnotationError
        The text is neither a JSON object with an object ``layers`` whose entries have a producer and
        a non-negative integer output index, nor in the early form.

    Examples
    --------
    >>> parse_annotation('{"layers": {"0": {"producer": "a/Add", "output_index": 0}}}').layers
    {'0': Locator(producer='a/Add', output_index=0)}
    """
    entries = read_entries(text)
    if entries.early:
        return Annotation({key: Locator(value) for key, value in entries.layers.items()}, early=True)
    for key, value in entries.layers.items():
        if problem := locator_problem(value):
            raise MalformedAnnotationError(f"has an entry for layer {key!r} that {problem}")
    return Annotation({key: Locator(value["producer"], value["output_index"]) for key, value in entries.layers.items()})
