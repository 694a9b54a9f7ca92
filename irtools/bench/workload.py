"""Prompts of a benchmark: the shipped workload classes, those of a file, and padding to a length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from irtools.bench.shipped import passages, prompts, text_file
from irtools.errors import OptionError
from irtools.ir.reading import parse_json
from irtools.prove.prompts import prompts_text

__all__ = ["CLASSES", "Prompt", "filler", "of_classes", "padded", "read_prompts", "shipped"]

CLASSES = ("code", "prose", "reasoning", "chat", "long")
"""Names of the shipped workload classes."""
_EACH = 2
"""Shipped prompts of a class."""
_LONG = 6000
"""Characters of the long input."""
_KEYS = {"class", "text", "prompt", "system", "image"}
_MARGIN = 1.05


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a workload class.

    Attributes
    ----------
    kind : str
        Workload class.
    system : str
        System message; with it, or in the classes ``chat`` and ``reasoning``, the chat template is applied.
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


def shipped() -> tuple[Prompt, ...]:
    """The shipped prompts of all classes."""
    texts = {kind: [one.text for one in prompts() if one.kind == kind][:_EACH] for kind in ("code", "prose", "chat")}
    texts["reasoning"] = passages("reasoning")[:_EACH]
    texts["long"] = [f"{filler()[:_LONG]}\n\nThe text above, in one sentence:"]
    return tuple(Prompt(kind, text) for kind in CLASSES for text in texts[kind])


def of_classes(given: Sequence[Prompt], classes: Sequence[str]) -> tuple[Prompt, ...]:
    """The prompts of some classes; all without ``classes``.

    Raises
    ------
    OptionError
        No prompt is of a class.
    """
    known = dict.fromkeys(prompt.kind for prompt in given)
    if unknown := [name for name in classes if name not in known]:
        raise OptionError(f"there is no workload class {unknown[0]!r}; the classes are {', '.join(known)}")
    return tuple(prompt for prompt in given if prompt.kind in (classes or known))


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Prompts of a file: JSON Lines with the keys class, text, system and image, else one prompt per line.

    Raises
    ------
    OptionError
        The file cannot be read or contains no prompts, or a line is invalid.
    """
    text = prompts_text(path)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise OptionError(f"{path}: contains no prompts; write one per line, or JSON Lines with the key text")
    if path.suffix == ".jsonl" or lines[0][1].lstrip().startswith("{"):
        return tuple(_entry(path, number, line) for number, line in lines)
    return tuple(Prompt("prompts", line) for _, line in lines)


def _entry(path: Path, number: int, line: str) -> Prompt:
    """Prompt of one line of JSON."""
    try:
        entry = parse_json(line)
    except ValueError as error:
        raise OptionError(f"{path}, line {number}: is not valid JSON ({error})") from error
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise OptionError(f"{path}, line {number}: must be an object whose values are texts")
    if unknown := sorted(entry.keys() - _KEYS):
        raise OptionError(
            f"{path}, line {number}: there is no key {unknown[0]!r}; the keys are class, text, system and image"
        )
    text = entry.get("text") or entry.get("prompt") or ""
    if not text:
        raise OptionError(f"{path}, line {number}: has no text; give the prompt as the key text")
    image = str(path.parent / entry["image"]) if entry.get("image") else ""
    if image and not Path(image).is_file():
        raise OptionError(f"{path}, line {number}: there is no image {image}")
    return Prompt(entry.get("class") or "prompts", text, entry.get("system", ""), image)


def padded(given: Sequence[Prompt], context: int, lengths: Sequence[int]) -> tuple[Prompt, ...]:
    """Prompts with a text before each, so that they have at least ``context`` tokens.

    Parameters
    ----------
    lengths : sequence of int
        Numbers of tokens of the prompts, and last of :func:`filler`.
    """
    text = filler()
    *lengths, size = lengths
    per_token = len(text) / max(size, 1)
    results = []
    for prompt, length in zip(given, lengths, strict=True):
        characters = int(max(context - length, 0) * per_token * _MARGIN)
        before = (text * (characters // len(text) + 1))[:characters]
        results.append(replace(prompt, text=f"{before}\n\n{prompt.text}") if characters else prompt)
    return tuple(results)


def filler() -> str:
    """The text that pads prompts."""
    return text_file("prose").read_text(encoding="utf-8").replace("\n\n\n", "\n\n").strip()
