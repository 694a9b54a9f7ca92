"""The prompts that a proof uses when none are given."""

from __future__ import annotations

from irtools.ir.export import Export

__all__ = ["default_prompts"]


def default_prompts(export: Export) -> tuple[str, ...]:
    """Prompts that suit an export."""
    return ("zqab", "The quick brown fox jumps over the lazy dog, and then")
