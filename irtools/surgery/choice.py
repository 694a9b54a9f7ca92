"""Parse and check the layers to expose and the names of their outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from irtools.errors import EditError
from irtools.ir.markup import unprintable
from irtools.ir.op import split_names
from irtools.text import plural

__all__ = ["RESERVED", "distinct_layers", "names_of", "parse_layer_list", "require_names"]

RESERVED = "last_hidden_state"
"""Output name that the runtime always treats as the value that lm_head reads."""
_RANGE = re.compile(r"(\d{1,9}|last)(?:-(\d{1,9}|last))?", re.ASCII)


def parse_layer_list(text: str, count: int | None = None, *, like: str = "1,8,15 or 3-5") -> tuple[int, ...]:
    """Parse a list of layers in the notation of the command line.

    Parameters
    ----------
    text : str
        ``1,8,15``, also with ranges such as ``3-5`` and with ``last``; or ``all``.
    count : int, optional
        Number of layers; required for ``all`` and ``last``.
    like : str
        Example of the notation for the error message.

    Raises
    ------
    EditError
        The text is not such a list, repeats a layer, or names a layer that the model does not have.

    Examples
    --------
    >>> parse_layer_list("1,3-5", 8), parse_layer_list("last", 8)
    ((1, 3, 4, 5), (7,))
    """
    if text.strip().lower() == "all":
        return tuple(range(_count(count, "all")))
    layers: list[int] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip().lower())
        if match is None:
            raise EditError(f"{text!r} is not a list of layers; write {like}, `all` or `last`")
        first, last = (
            _count(count, end) - 1 if end == "last" else int(end) for end in (match[1], match[2] or match[1])
        )
        if first > last:
            raise EditError(f"the layer range {item.strip()} runs backwards; put the lower number first")
        _require_layer(last, count)
        layers += range(first, last + 1)
    return distinct_layers(layers, count)


def _count(count: int | None, word: str) -> int:
    if count is None:
        raise EditError(f"{word!r} requires a located decoder stack; give layer numbers instead")
    return count


def _require_layer(layer: int, count: int | None) -> None:
    if layer < 0 or (count is not None and layer >= count):
        valid = f"the decoder stack has layers 0 to {count - 1}" if count is not None else "layer numbers start at 0"
        raise EditError(f"there is no layer {layer}; {valid}")
    if layer > 10**6:
        raise EditError(f"there is no layer {layer}; no model has that many layers")


def distinct_layers(layers: Sequence[int], count: int | None) -> tuple[int, ...]:
    """Check layer numbers and return them in the given order.

    Raises
    ------
    EditError
        The list is empty, or a number is repeated or not that of a layer.
    """
    seen = set()
    for layer in layers:
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise EditError(f"{layer!r} is not a layer number; give integers from 0")
        _require_layer(layer, count)
        if layer in seen:
            raise EditError(f"layer {layer} is given twice; give each layer once")
        seen.add(layer)
    if not layers:
        raise EditError("no layer is given; give at least one")
    return tuple(layers)


def names_of(names: str | Sequence[str], layers: Sequence[int]) -> tuple[str, ...]:
    """Return one name per layer.

    Parameters
    ----------
    names : str or sequence of str
        One name per layer, in text separated by commas, or one template for all. ``{layer}`` in a name
        stands for the layer number.

    Raises
    ------
    EditError
        The number of names is not the number of layers.
    """
    if isinstance(names, str):
        names = split_names(names) or ("",)
        if len(names) == 1 and "{layer}" in names[0]:
            names *= len(layers)
    if len(names) != len(layers):
        given = f"{plural(len(names), 'name')} {'is' if len(names) == 1 else 'are'} given for"
        raise EditError(
            f"{given} {plural(len(layers), 'layer')}; give one name per layer, or a template with {{layer}} such as "
            "h{layer}"
        )
    return tuple(name.replace("{layer}", str(layer)) for name, layer in zip(names, layers, strict=True))


def require_names(outputs: Sequence[tuple[str, tuple[int, ...], bool]], count: int) -> None:
    """Refuse invalid output names, repeated names, and a name that the runtime would misread.

    Parameters
    ----------
    outputs : sequence of (str, tuple of int, bool)
        Name, layers, and True for a concatenation.
    count : int
        Number of layers of the model.

    Raises
    ------
    EditError
        A name is invalid, is repeated, or is reserved for the last layer.
    """
    names = [name for name, _, _ in outputs]
    for name, layers, concat in outputs:
        bad = unprintable(name) or next((mark for mark in "\\\t\n\r" if mark in name), None)
        if not name or bad is not None:
            reason = f"contains the character {bad!r}" if name else "is empty"
            raise EditError(f"the name {name!r} {reason}; choose another name for the output")
        if names.count(name) > 1:
            raise EditError(f"{names.count(name)} outputs would be named {name!r}; give each another name")
        if name.strip() == RESERVED and (concat or layers != (count - 1,)):
            raise EditError(
                f"the runtime always treats an output named {RESERVED!r} as the hidden state that lm_head reads, so "
                f"only the last layer ({count - 1}) may have this name; choose another name for the output"
            )
