"""Ids of the special tokens of an export, as OpenVINO GenAI reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from irtools.errors import ExportError
from irtools.ir.reading import read_json
from irtools.model.directory import ModelDirectory

__all__ = ["UNSET", "SpecialToken", "UnreadableTokensError", "special_tokens"]

UNSET = -1
"""Id of a special token that no file defines."""
_NAMES = ("bos", "eos", "pad")
_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(?=[0-9])0*([0-9]{0,20})")
_CONFIG, _MAP, _TOKENIZER = "config.json", "special_tokens_map.json", "tokenizer_config.json"
_IR = "openvino_tokenizer.xml"


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A special token.

    Attributes
    ----------
    name : str
        ``bos``, ``eos`` or ``pad``.
    id : int
        ``UNSET`` if no file defines it.
    file : str
        Name of the file that defines the id; ``""`` without one.
    """

    name: str
    id: int = UNSET
    file: str = ""


class UnreadableTokensError(ValueError):
    """A value at which GenAI stops when it loads a tokenizer. ``args`` are the file's name, the key and a clause."""


@dataclass
class _Reader:
    """The state of GenAI's ``Tokenizer`` while it reads one file after the other."""

    directory: Path
    ids: dict[str, SpecialToken] = field(default_factory=lambda: {name: SpecialToken(name) for name in _NAMES})
    texts: dict[str, str] = field(default_factory=lambda: dict.fromkeys(_NAMES, ""))

    def set_id(self, name: str, number: int, file: str) -> None:
        self.ids[name] = SpecialToken(name, number, file)

    @property
    def unset(self) -> list[str]:
        return [name for name in _NAMES if self.ids[name].id == UNSET]

    def read_config(self) -> None:
        """Numbers in config.json. A list, as of several end tokens, is ignored; any other type is refused."""
        content = self._json(_CONFIG)
        for name in _NAMES:
            key = f"{name}_token_id"
            value = content.get(key)
            if isinstance(value, bool | str | Mapping) or (isinstance(value, float) and not isfinite(value)):
                raise UnreadableTokensError(_CONFIG, key, f"is {_kind(value)}, which is not a number")
            if isinstance(value, int | float):
                self.set_id(name, int(value), _CONFIG)

    def read_map(self) -> None:
        content = self._json(_MAP)
        for name in _NAMES:
            entry = content.get(f"{name}_token")
            if isinstance(entry, Mapping):
                self._set_text(name, entry.get("content"), _MAP)

    def read_tokenizer_config(self) -> None:
        """The texts of the tokens, and the ids that ``added_tokens_decoder`` gives them."""
        if not self.unset and all(self.texts.values()):
            return
        content = self._json(_TOKENIZER)
        for name in _NAMES:
            if not self.texts[name]:
                self._set_text(name, content.get(f"{name}_token"), _TOKENIZER)
        self.texts["pad"] = self.texts["pad"] or self.texts["eos"]
        added = content.get("added_tokens_decoder")
        if not self.unset or not isinstance(added, Mapping):
            return
        for key, value in sorted(added.items()):
            text = value.get("content") if isinstance(value, Mapping) else None
            for name in self.unset:
                if text is not None and text == self.texts[name]:
                    self.set_id(name, _number(key, _TOKENIZER, "added_tokens_decoder"), _TOKENIZER)
        if "pad" in self.unset and "eos" not in self.unset:
            self.set_id("pad", self.ids["eos"].id, _TOKENIZER)

    def read_rt_info(self, rt_info: Mapping[str, Any]) -> None:
        """Entries of the tokenizer IR, which replace all others. An empty text is 0, no value at all is refused."""
        for name in _NAMES:
            key = f"{name}_token_id"
            if key in rt_info:
                value = rt_info[key]
                if not isinstance(value, str):
                    raise UnreadableTokensError(_IR, key, "has no value")
                self.set_id(name, _number(value, _IR, key) if value else 0, _IR)

    def _set_text(self, name: str, value: object, file: str) -> None:
        if isinstance(value, bool | int | float | Mapping):
            raise UnreadableTokensError(file, f"{name}_token", f"is {_kind(value)}, where the runtime reads a string")
        if isinstance(value, str):
            self.texts[name] = value

    def _json(self, file: str) -> Mapping[str, Any]:
        try:
            content = read_json(self.directory / file)
        except (OSError, ValueError) as error:
            raise ExportError(f"cannot be read ({error})", path=self.directory / file) from error
        return content if isinstance(content, Mapping) else {}


def _kind(value: object) -> str:
    return "an object" if isinstance(value, Mapping) else repr(value)


def _number(text: str, file: str, key: str) -> int:
    """The integer at the start of a text; the runtime ignores what follows."""
    match = _INTEGER.match(text)
    number = int(f"{match[1]}{match[2] or 0}") if match is not None else None
    if number is None or abs(number) >= 2**63:
        raise UnreadableTokensError(file, key, f"contains {text!r}, which is not a number")
    return number


def special_tokens(export: ModelDirectory) -> tuple[SpecialToken, ...]:
    """Begin, end and padding token of an export.

    Raises
    ------
    UnreadableTokensError
        The runtime cannot load the tokenizer because of a value in one of the files.
    ExportError
        One of the files cannot be read.

    Notes
    -----
    OpenVINO GenAI 2026.4, ``tokenizer_impl.cpp``: ``read_config``, ``read_special_tokens_map``,
    ``read_tokenizer_config_if_necessary``, then the rt_info of the tokenizer IR.
    """
    reader = _Reader(export.directory)
    reader.read_config()
    reader.read_map()
    reader.read_tokenizer_config()
    document = export.find_part("tokenizer")
    if document is not None and document.path.name == _IR:
        reader.read_rt_info(document.rt_info)
    return tuple(reader.ids.values())
