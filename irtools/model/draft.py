"""Draft models in a directory of their own: what their rt_info says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from irtools.errors import ExportError, UsageError
from irtools.ir.op import DYNAMIC
from irtools.model.directory import ModelDirectory
from irtools.model.document import Document
from irtools.model.part import PartFacts
from irtools.text import whole_number

__all__ = [
    "Draft",
    "block_size",
    "draft",
    "hidden_layers",
    "is_draft",
    "layer_ids",
    "most_assistant_tokens",
    "require_target",
    "truthy",
]

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0", ""}
_LEADING_NUMBER = re.compile(r"[+-]?[0-9]+")
_SPACES = " \t\n\r\v\f"
_LAYER_ID = re.compile(r"[ \t\n\r\v\f]*([+-]?[0-9]+)[ \t\n\r\v\f]*")


def truthy(value: object) -> bool | None:
    """A boolean as OpenVINO reads it from rt_info; None for a value that it refuses."""
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _int32(text: str) -> int | None:
    """A number with a sign as ``std::stoi`` reads it: any number of zeros first; None beyond 32 bits."""
    sign, digits = ("-" if text[0] == "-" else ""), text.lstrip("+-").lstrip("0") or "0"
    number = whole_number(sign + digits)
    return number if number is not None and -(2**31) <= number < 2**31 else None


def layer_ids(text: str) -> list[int] | None:
    """Parse layer ids as the runtime does: numbers separated by commas, empty items skipped.

    The result is None for a value that the runtime refuses, such as brackets or numbers separated only by spaces.
    """
    layers = []
    for item in filter(None, text.split(",")):
        match = _LAYER_ID.fullmatch(item)
        number = _int32(match[1]) if match is not None else None
        if number is None:
            return None
        layers.append(number)
    return layers


def hidden_layers(text: str) -> list[int] | None:
    """Parse ``hidden_layers_list`` as the runtime does: words between spaces, of which the leading number counts.

    So ``0, 1, 2`` is three layers, ``0,1,2`` is only layer 0, and a space at the end is refused like ``[0, 1, 2]``.
    The result is None for a value that the runtime refuses. Source: OpenVINO reads a vector from a stream with
    ``std::stoi`` for each word (``openvino/core/any.hpp``, ``Read<std::vector>``); tried with GenAI 2026.4.1.
    """
    if text.endswith(tuple(_SPACES)):
        return None
    layers = []
    for word in filter(None, re.split(f"[{_SPACES}]", text)):
        match = _LEADING_NUMBER.match(word)
        number = _int32(match[0]) if match is not None else None
        if number is None:
            return None
        layers.append(number)
    return layers


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft and the content of its rt_info.

    Attributes
    ----------
    kind : str
        ``dflash``, ``eagle3`` or ``plain``.
    mode, eagle3_mode : str or None
        Values of ``dflash_mode`` and ``eagle3_mode``.
    hidden_layers_list : str or None
        Layers of the target that an EAGLE-3 draft reads, if it names them.
    """

    part: PartFacts
    kind: str
    mode: str | None
    mask_token_id: str | None
    target_layer_ids: str | None
    eagle3_mode: str | None = None
    hidden_layers_list: str | None = None

    @property
    def layers(self) -> list[int] | None:
        """Layers of the target that the draft names; None if it names none, or the list cannot be parsed."""
        if self.kind == "eagle3":
            return hidden_layers(self.hidden_layers_list) if self.hidden_layers_list is not None else None
        return layer_ids(self.target_layer_ids) if self.target_layer_ids is not None else None


def block_size(draft: Draft, config: Mapping[str, Any]) -> int | None:
    """Tokens in a block of a DFlash draft, from its rt_info, else from its config.json; None if unknown or invalid."""
    nested, training = draft.part.rt_info.get("dflash"), config.get("dflash_config")
    tables = (nested, config, training)
    given = (table["block_size"] for table in tables if isinstance(table, Mapping) and "block_size" in table)
    text = str(next(given, ""))
    number = whole_number(text, digits=9)
    return number if number is not None and number > 1 else None


def most_assistant_tokens(draft: Draft, export: ModelDirectory) -> int | None:
    """Most tokens that a DFlash draft was trained to draft at a time; None if there is no bound.

    A block begins with the last token of the text. GenAI 2026.4 accepts any larger number without a message.
    """
    try:
        config = export.config
    except ExportError:
        config = {}
    size = block_size(draft, config) if draft.kind == "dflash" else None
    return size - 1 if size is not None else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _kind_by_ports(part: PartFacts) -> str:
    """Kind of a draft without rt_info.

    One with ``d2t`` is an EAGLE-3 draft, also if it has lost its input. Of those that read hidden states, one for
    DFlash has ``last_hidden_state``. If it has logits of its own instead, its hidden states have a fixed width, and
    those of an EAGLE-3 draft have not.
    """
    if part.output("d2t") is not None:
        return "eagle3"
    states = part.input("hidden_states")
    if states is None:
        return "plain"
    if part.output("last_hidden_state") is not None:
        return "dflash"
    if part.output("logits") is None:
        return "plain"
    return "eagle3" if states.shape[-1:] == (DYNAMIC,) else "dflash"


def draft(part: PartFacts) -> Draft:
    """Classify a part as a draft by its rt_info, else by its ports."""
    info = part.rt_info
    nested = info.get("dflash")
    nested = nested if isinstance(nested, Mapping) else {}
    mode, eagle3_mode = _text(info.get("dflash_mode")), _text(info.get("eagle3_mode"))
    if truthy(mode) or nested or (mode is not None and truthy(mode) is None):
        kind = "dflash"
    elif truthy(eagle3_mode) or (eagle3_mode is not None and truthy(eagle3_mode) is None):
        kind = "eagle3"
    else:
        kind = _kind_by_ports(part)
    return Draft(
        part,
        kind,
        mode,
        _text(nested.get("mask_token_id")),
        _text(nested.get("target_layer_ids")),
        eagle3_mode,
        _text(info.get("hidden_layers_list")),
    )


def is_draft(part: PartFacts) -> bool:
    """True if a part is a draft that reads the hidden states of another model."""
    return draft(part).kind != "plain"


def require_target(document: Document) -> None:
    """Refuse a draft, in which the annotation means nothing: the runtime reads it in a target only.

    Raises
    ------
    UsageError
        The part is a draft.
    """
    if is_draft(PartFacts(document)):
        raise UsageError(
            "this is a draft, which reads the hidden states of a target; annotate the target", path=document.path
        )
