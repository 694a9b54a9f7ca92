"""The annotation as text: what it says, whatever way it is spelled.

Everything that reads an annotation reads it here, as strictly as the runtime does: ``annotate``
takes it as a whole, the rules and the tables of the command line entry by entry.
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
    """The text is no annotation; the message is a predicate such as ``has no value``."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The object ``layers`` of an annotation, as decoded from JSON.

    Attributes
    ----------
    layers : mapping of str to object
        By layer id, as written; the last one of those that are repeated.
    repeated : tuple of str
        Layer ids that are written more than once.
    """

    layers: Mapping[str, Any]
    repeated: tuple[str, ...] = ()

    @property
    def early(self) -> bool:
        """Whether it is the early form, ``{"version":1,"layers":{"0":"name"}}``, which the runtime does not read."""
        return bool(self.layers) and all(isinstance(value, str) for value in self.layers.values())


@dataclass(frozen=True, slots=True)
class Annotation:
    """What an annotation says.

    Attributes
    ----------
    layers : mapping of str to Locator
        By layer id, as written.
    early : bool
        Whether it is in the early form.
    """

    layers: Mapping[str, Locator]
    early: bool = False


class _NoNumber:
    """What ``-0`` is read as: the runtime's parser takes it for a signed number, and refuses those."""

    def __repr__(self) -> str:
        return "-0"


def read_entries(text: str | None) -> Entries:
    """Read the value of ``hidden_states_decoder_layers`` down to its entries, which may be anything.

    Parameters
    ----------
    text : str or None
        None for an entry that has no value.

    Raises
    ------
    MalformedAnnotationError
        It is no JSON object with an object ``layers``.
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
        json.dumps(content, ensure_ascii=False, default=repr).encode()  # a lone surrogate is no text
    except (ValueError, RecursionError) as error:
        raise MalformedAnnotationError(f"is not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise MalformedAnnotationError("is no JSON object")
    if "layers" not in content:
        raise MalformedAnnotationError("has no `layers`")
    layers = content["layers"]
    if not isinstance(layers, dict):
        raise MalformedAnnotationError("has `layers` that are no object")
    return Entries(layers, tuple(key for key in repeated if key in layers))


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not in JSON")


def _integer(digits: str) -> Any:
    return _NoNumber() if digits == "-0" else int(digits)


def locator_problem(value: object) -> str:
    """Why a layer's entry is no locator, as a predicate; empty if it is one."""
    if not isinstance(value, Mapping):
        return f"is {shown(value)}, not an object with `producer` and `output_index`"
    if "producer" not in value:
        return "has no `producer`"
    if not isinstance(value["producer"], str):
        return f"has the `producer` {shown(value['producer'])}, which is no string"
    if "output_index" not in value:
        return "has no `output_index`"
    index = value["output_index"]
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 2**64:
        return f"has the `output_index` {shown(index)}, which is no unsigned integer"
    return ""


def shown(value: object) -> str:
    """A value of an entry as it was written."""
    return repr(value) if isinstance(value, _NoNumber) else json.dumps(value, default=repr)


def parse_annotation(text: str | None) -> Annotation:
    """Read the value of ``hidden_states_decoder_layers`` as a whole.

    Parameters
    ----------
    text : str or None
        None for an entry that has no value.

    Returns
    -------
    Annotation

    Raises
    ------
    MalformedAnnotationError
        It is no JSON object with an object ``layers`` whose entries say a producer and a
        non-negative integer output index, nor one in the early form.

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
            raise MalformedAnnotationError(f"has a layer {key!r} that {problem}")
    return Annotation({key: Locator(value["producer"], value["output_index"]) for key, value in entries.layers.items()})
