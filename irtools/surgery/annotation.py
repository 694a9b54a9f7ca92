"""The annotation as text: what it says, whatever way it is spelled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from irtools.decoder.stack import Locator

__all__ = ["Annotation", "MalformedAnnotationError", "parse_annotation"]


class MalformedAnnotationError(ValueError):
    """The text is no annotation; the message says why, without full stop."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """What an annotation says.

    Attributes
    ----------
    layers : mapping of str to Locator
        By layer id, as written.
    early : bool
        Whether it is in the early form, ``{"version":1,"layers":{"0":"name"}}``, which the
        runtime does not read.
    """

    layers: Mapping[str, Locator]
    early: bool = False


def parse_annotation(text: str | None) -> Annotation:
    """Read the value of ``hidden_states_decoder_layers`` as strictly as the runtime does.

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
    if text is None:
        raise MalformedAnnotationError("it has no value")
    try:
        content = json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse, parse_int=_integer)
        json.dumps(content, ensure_ascii=False).encode()  # a lone surrogate is no text
    except (ValueError, RecursionError) as error:
        raise MalformedAnnotationError(f"it is not valid JSON ({error})") from None
    layers = content.get("layers") if isinstance(content, dict) else None
    if not isinstance(layers, dict):
        raise MalformedAnnotationError('it has no object "layers"')
    early = bool(layers) and all(isinstance(value, str) for value in layers.values())
    if early:
        return Annotation({key: Locator(value) for key, value in layers.items()}, early=True)
    return Annotation({key: _locator(key, value) for key, value in layers.items()})


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not in JSON")


def _integer(digits: str) -> int | float:
    # The runtime's parser takes -0 for a signed number, and refuses those.
    return -0.0 if digits == "-0" else int(digits)


def _locator(layer: str, value: object) -> Locator:
    producer = value.get("producer") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(producer, str):
        raise MalformedAnnotationError(f"layer {layer!r} has no string producer")
    index = value.get("output_index")
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < 2**64:
        raise MalformedAnnotationError(f"layer {layer!r} has the output index {index!r}, not a non-negative integer")
    return Locator(producer, index)
