"""Which layers are to be exposed, and under which names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from irtools.errors import EditError
from irtools.ir.markup import unprintable
from irtools.ir.op import split_names

__all__ = ["RESERVED", "distinct_layers", "names_of", "parse_layer_list", "require_names"]

RESERVED = "last_hidden_state"
"""An output that the runtime takes for what the head reads, whatever it is."""
_RANGE = re.compile(r"(\d{1,9}|last)(?:-(\d{1,9}|last))?", re.ASCII)


def parse_layer_list(text: str, count: int | None = None, *, like: str = "1,8,15 or 3-5") -> tuple[int, ...]:
    """Layers as the command line takes them.

    Parameters
    ----------
    text : str
        ``1,8,15``, also with ranges such as ``3-5`` and with ``last``; or ``all``.
    count : int, optional
        Number of layers; needed for ``all`` and ``last``.
    like : str
        How the message tells to write them.

    Raises
    ------
    EditError
        It is no such list, or names a layer twice or one that there is not.

    Examples
    --------
    >>> parse_layer_list("1,3-5", 8), parse_layer_list("last", 8)
    ((1, 3, 4, 5), (7,))
    """
    if text.strip().lower() == "all":
        return tuple(range(_count(count, "all")))
    layers: list[int] = []
    for item in text.split(","):
        found = _RANGE.fullmatch(item.strip().lower())
        if found is None:
            raise EditError(f"{text!r} is no list of layers; write them like {like}, or give `all` or `last`")
        ends = [_count(count, end) - 1 if end == "last" else int(end) for end in (found[1], found[2] or found[1])]
        if ends[0] > ends[1]:
            raise EditError(f"the layers {item.strip()} run backwards; give the first one first")
        _require_layer(ends[1], count)
        layers += range(ends[0], ends[1] + 1)
    return distinct_layers(layers, count)


def _count(count: int | None, word: str) -> int:
    if count is None:
        raise EditError(f"which layers {word!r} stands for has to be located; give their numbers")
    return count


def _require_layer(layer: int, count: int | None) -> None:
    if layer < 0 or (count is not None and layer >= count):
        there = f"the decoder stack has the layers 0 to {count - 1}" if count is not None else "they count from 0"
        raise EditError(f"there is no layer {layer}; {there}")
    if layer > 10**6:
        raise EditError(f"there is no layer {layer}; no model has so many")


def distinct_layers(layers: Sequence[int], count: int | None) -> tuple[int, ...]:
    """Layers as they are, if each is one and given once.

    Raises
    ------
    EditError
        Not so.
    """
    seen = set()
    for layer in layers:
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise EditError(f"{layer!r} is no number of a layer; they count from 0")
        _require_layer(layer, count)
        if layer in seen:
            raise EditError(f"layer {layer} is given twice; give each layer once")
        seen.add(layer)
    if not layers:
        raise EditError("no layer is given; give one at least")
    return tuple(layers)


def names_of(names: str | Sequence[str], layers: Sequence[int]) -> tuple[str, ...]:
    """One name per layer.

    Parameters
    ----------
    names : str or sequence of str
        Names, in text with commas between them, or one for all; ``{layer}`` in it is the number of the layer.
    layers : sequence of int

    Raises
    ------
    EditError
        There are more or fewer names than layers.
    """
    if isinstance(names, str):
        names = split_names(names) or ("",)
        if len(names) == 1 and "{layer}" in names[0]:
            names *= len(layers)
    if len(names) != len(layers):
        plural = f"{len(layers)} layers" if len(layers) > 1 else "1 layer"
        given = "1 name is" if len(names) == 1 else f"{len(names)} names are"
        raise EditError(
            f"{given} given for {plural}; give one for each, or one with {{layer}} in it such as h{{layer}}"
        )
    return tuple(name.replace("{layer}", str(layer)) for name, layer in zip(names, layers, strict=True))


def require_names(asked: Sequence[tuple[str, tuple[int, ...], bool]], count: int) -> None:
    """Refuse names that no output can have, two outputs of one name, and a name that the runtime would misread.

    Parameters
    ----------
    asked : sequence of (str, tuple of int, bool)
        Name, layers, and whether it is their concatenation.
    count : int
        Number of layers in all.

    Raises
    ------
    EditError
    """
    names = [name for name, _, _ in asked]
    for name, layers, concat in asked:
        bad = unprintable(name) or next((mark for mark in "\\\t\n\r" if mark in name), None)
        if not name or bad is not None:
            why = f"holds the character {bad!r}" if name else "is empty"
            raise EditError(f"the name {name!r} {why}; give the output another one")
        if names.count(name) > 1:
            raise EditError(f"the name {name!r} would be that of {names.count(name)} outputs; give each another one")
        if name.strip() == RESERVED and (concat or layers != (count - 1,)):
            raise EditError(
                f"the runtime takes an output named {RESERVED!r} for the hidden state that the head reads, without "
                f"asking: only that of the last layer ({count - 1}) may have this name; give the output another one"
            )
