"""The prompts that a proof uses when none are given."""

from __future__ import annotations

from irtools.ir.export import Export

__all__ = ["default_prompts"]

_PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea, there lived an old woman who",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 5, 8, 13,",
    "Question: Why is the sky blue?\nAnswer:",
    '{"name": "Ada", "born": 1815, "languages": ["en",',
    "Il était une fois",
    "The river rises in the hills and runs past three small towns before it reaches the sea. In spring it often "
    "floods the meadows, and the farmers have learnt to keep their cattle on higher ground. In summer it is so low "
    "that children can walk across it. The oldest of the bridges was built of stone, and",
)
"""Prose, code, numbers, data, another language; from four words to sixty. Enough, and different enough, for
figures that a single short prompt does not give: a draft can be right about that one by luck."""


def default_prompts(export: Export) -> tuple[str, ...]:
    """Prompts that suit an export."""
    return _PROMPTS
