"""Default prompts of a proof, and the tokens that the numeric steps run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from irtools.errors import OptionError, os_reason
from irtools.ir.reading import read_file

__all__ = ["DEFAULT_PROMPTS", "few", "others", "prompts_text"]

_FEWEST, _MOST = 6, 12
"""Limits of the number of tokens that a numeric step runs."""
DEFAULT_PROMPTS = (
    "The capital of France is",
    "def add(a, b):\n    return ",
    "1, 2, 3, 5, 8, 13,",
    "Dear all,\n\nthank you for",
    '{"name": "Ada", "born": 1815, "city": ',
    "Il était une fois",
    "To make a good soup, first",
    "The river rises in the hills and runs past three small towns before it reaches the sea. In spring it often "
    "floods the meadows, and the farmers have learnt to keep their cattle on higher ground. In summer it is so low "
    "that children can walk across it. The oldest of the bridges was built of stone, and",
)
"""Prose, code, numbers, data and another language, from four words to sixty. A single short prompt is not enough:
a draft can predict it by luck."""


def prompts_text(path: Path) -> str:
    """Text of a file of prompts.

    Raises
    ------
    OptionError
        The file cannot be read, or is not in UTF-8.
    """
    try:
        return read_file(path, "prompts").decode("utf-8-sig")
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {os_reason(error)}") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: the prompts are not in UTF-8") from error


def few(tokens: Sequence[int]) -> list[int]:
    """First tokens of a prompt; a very short prompt is repeated."""
    first = list(tokens[:_MOST]) or [0]
    return (first * _FEWEST)[: max(len(first), _FEWEST)]


def others(tokens: Sequence[int], vocabulary: int) -> list[int]:
    """Tokens that differ from ``tokens`` at every position.

    Most of them are ``tokens`` rotated by one position, so they are valid token ids.
    """
    rotated = [tokens[-1], *tokens[:-1]]
    size = vocabulary if vocabulary > 1 else max(tokens) + 2
    return [(new + 1) % size if new == old else new for new, old in zip(rotated, tokens, strict=True)]
