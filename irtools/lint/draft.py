"""Facts about a draft model in a directory of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from irtools.lint.model import Context
from irtools.model.part import Part

__all__ = ["Draft", "Pair", "draft", "is_draft", "layer_ids", "pair", "truthy"]

_TRUE = {"true", "yes", "on", "1"}
_NUMBERS = re.compile(r"-?[0-9]{1,9}")
_FALSE = {"false", "no", "off", "0", ""}


def truthy(value: object) -> bool | None:
    """A boolean as OpenVINO reads it from rt_info; None for what it refuses."""
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def layer_ids(text: str) -> list[int] | None:
    """A list of layer ids as the runtime reads it: numbers between commas, empty items skipped.

    Returns
    -------
    list of int or None
        None for what it refuses, such as brackets or numbers that only spaces separate.
    """
    found = []
    for item in text.split(","):
        if not item:
            continue
        digits = item.strip(" \t\n\r\v\f")
        sign = digits[1:] if digits[:1] in ("-", "+") else digits
        if not (sign.isascii() and sign.isdecimal()) or len(sign) > 10 or abs(int(digits)) >= 2**31:
            return None
        found.append(int(digits))
    return found


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft and what its rt_info says.

    Attributes
    ----------
    part : Part
    kind : str
        ``dflash``, ``eagle3`` or ``plain``.
    mode : str or None
        Value of ``dflash_mode``.
    mask_token_id, target_layer_ids : str or None
        As written.
    eagle3_layers : tuple of int
        Of ``hidden_layers_list``, which an EAGLE-3 draft may have.
    """

    part: Part
    kind: str
    mode: str | None
    mask_token_id: str | None
    target_layer_ids: str | None
    eagle3_layers: tuple[int, ...] = ()

    @property
    def layers(self) -> list[int] | None:
        """The target's layers that it reads; None when they cannot be read."""
        return layer_ids(self.target_layer_ids) if self.target_layer_ids is not None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def draft(part: Part) -> Draft:
    """Tell what kind of draft a part is: by its rt_info, else by its ports."""
    info = part.rt_info
    nested = info.get("dflash")
    nested = nested if isinstance(nested, Mapping) else {}
    mode = _text(info.get("dflash_mode"))
    takes_hidden = part.input("hidden_states") is not None
    if truthy(mode) or nested or (mode is not None and truthy(mode) is None):
        kind = "dflash"
    elif truthy(info.get("eagle3_mode")):
        kind = "eagle3"
    else:
        kind = "dflash" if takes_hidden and part.output("last_hidden_state") is not None else "plain"
    eagle3 = tuple(int(digits) for digits in _NUMBERS.findall(_text(info.get("hidden_layers_list")) or ""))
    return Draft(part, kind, mode, _text(nested.get("mask_token_id")), _text(nested.get("target_layer_ids")), eagle3)


def is_draft(part: Part) -> bool:
    """Whether a part is a draft that reads another model's hidden states, not a target."""
    return draft(part).kind != "plain"


@dataclass(frozen=True, slots=True)
class Pair:
    """A draft, and the target it is to be used with.

    Attributes
    ----------
    draft : Draft
    target : Part or None
        None when MODEL_DIR itself is the draft: then only the draft can be judged.
    """

    draft: Draft
    target: Part | None


def pair(context: Context) -> Pair | None:
    """The draft to judge: that of ``--draft``, else MODEL_DIR itself when it is one."""
    target = context.part(context.target) if context.target is not None else None
    if context.draft is not None:
        candidates = context.draft.target_candidates
        document = context.readable(candidates[0]) if len(candidates) == 1 else None
        if document is None:
            return None
        return Pair(draft(context.part(document)), target)
    if target is not None and is_draft(target):
        return Pair(draft(target), None)
    return None
