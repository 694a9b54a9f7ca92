"""Draft models in a directory of their own: what their rt_info says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from irtools.model.part import PartFacts

__all__ = ["Draft", "draft", "is_draft", "layer_ids", "truthy"]

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0", ""}
_NUMBERS = re.compile(r"-?[0-9]{1,9}")
_LAYER_ID = re.compile(r"[ \t\n\r\v\f]*([+-]?[0-9]{1,10})[ \t\n\r\v\f]*")


def truthy(value: object) -> bool | None:
    """A boolean as OpenVINO reads it from rt_info; None for a value that it refuses."""
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def layer_ids(text: str) -> list[int] | None:
    """Parse layer ids as the runtime does: numbers separated by commas, empty items skipped.

    The result is None for a value that the runtime refuses, such as brackets or numbers separated only by spaces.
    """
    layers = []
    for item in filter(None, text.split(",")):
        match = _LAYER_ID.fullmatch(item)
        if match is None or abs(int(match[1])) >= 2**31:
            return None
        layers.append(int(match[1]))
    return layers


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft and the content of its rt_info.

    Attributes
    ----------
    kind : str
        ``dflash``, ``eagle3`` or ``plain``.
    mode : str or None
        Value of ``dflash_mode``.
    eagle3_layers : tuple of int
        Layers in ``hidden_layers_list``, which an EAGLE-3 draft may have.
    """

    part: PartFacts
    kind: str
    mode: str | None
    mask_token_id: str | None
    target_layer_ids: str | None
    eagle3_layers: tuple[int, ...] = ()

    @property
    def layers(self) -> list[int] | None:
        """Layers of the target that the draft reads; None if the list cannot be parsed."""
        return layer_ids(self.target_layer_ids) if self.target_layer_ids is not None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _kind_by_ports(part: PartFacts) -> str:
    """Kind of a draft without rt_info: one that reads hidden states has ``last_hidden_state``, or logits (EAGLE-3)."""
    if part.input("hidden_states") is None:
        return "plain"
    if part.output("last_hidden_state") is not None:
        return "dflash"
    return "eagle3" if part.output("logits") is not None else "plain"


def draft(part: PartFacts) -> Draft:
    """Classify a part as a draft by its rt_info, else by its ports."""
    info = part.rt_info
    nested = info.get("dflash")
    nested = nested if isinstance(nested, Mapping) else {}
    mode = _text(info.get("dflash_mode"))
    if truthy(mode) or nested or (mode is not None and truthy(mode) is None):
        kind = "dflash"
    elif truthy(info.get("eagle3_mode")):
        kind = "eagle3"
    else:
        kind = _kind_by_ports(part)
    eagle3 = tuple(int(digits) for digits in _NUMBERS.findall(_text(info.get("hidden_layers_list")) or ""))
    return Draft(part, kind, mode, _text(nested.get("mask_token_id")), _text(nested.get("target_layer_ids")), eagle3)


def is_draft(part: PartFacts) -> bool:
    """True if a part is a draft that reads the hidden states of another model."""
    return draft(part).kind != "plain"
