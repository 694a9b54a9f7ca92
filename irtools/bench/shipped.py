"""The shipped texts: code, prose and chat, and prompts made of their beginnings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

__all__ = ["KINDS", "ShippedPrompt", "passages", "prompts", "text_file"]

KINDS = ("code", "prose", "chat")
_LINES, _CHARACTERS = 6, 280


@dataclass(frozen=True, slots=True)
class ShippedPrompt:
    """A prompt of one kind; a ``chat`` prompt is a question for the chat template."""

    kind: str
    text: str


def text_file(kind: str) -> Path:
    """Path of a shipped text. Its passages are separated by two empty lines."""
    return Path(str(files("irtools.bench").joinpath("corpus", f"{kind}.txt")))


def passages(kind: str) -> list[str]:
    """Passages of a shipped text."""
    return [passage.strip("\n") for passage in text_file(kind).read_text(encoding="utf-8").split("\n\n\n")]


def prompts() -> tuple[ShippedPrompt, ...]:
    """Beginnings of the passages, the kinds in turn: the first prompts already are of every kind."""
    texts = {kind: passages(kind) for kind in KINDS}
    most = max(map(len, texts.values()))
    return tuple(
        ShippedPrompt(kind, _beginning(kind, texts[kind][number]))
        for number in range(most)
        for kind in KINDS
        if number < len(texts[kind])
    )


def _beginning(kind: str, passage: str) -> str:
    if kind == "chat":
        return passage.split("\n\n", 1)[0]
    if kind == "code":
        return "\n".join(passage.splitlines()[:_LINES])
    return passage[:_CHARACTERS].rsplit(" ", 1)[0]
