"""The prompts that a proof uses when none are given."""

from __future__ import annotations

__all__ = ["default_prompts"]

_PROMPTS = (
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
"""Prose, code, numbers, data, another language; from four words to sixty. Enough, and different enough, for
figures that a single short prompt does not give: a draft can be right about that one by luck."""


def default_prompts() -> tuple[str, ...]:
    """Prompts for any export."""
    return _PROMPTS
