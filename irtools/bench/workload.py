"""Prompts of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Prompt"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a workload class.

    Attributes
    ----------
    kind : str
        Workload class.
    system : str
        System message; with it, or in the class ``chat``, the chat template is applied.
    image : str
        Path of an image; ``""`` for none.
    """

    kind: str
    text: str
    system: str = ""
    image: str = ""

    @property
    def chat_template(self) -> bool:
        """True if the chat template of the export is applied."""
        return bool(self.system) or self.kind in ("chat", "reasoning")

    def to_json(self, length: int) -> dict[str, Any]:
        """The prompt as in a record; ``length`` in tokens, 0 if it did not run."""
        return {
            "class": self.kind,
            "text": self.text,
            "system": self.system or None,
            "image": self.image or None,
            "chat_template": self.chat_template,
            "length": length,
        }
