"""Decoding strategies that the target runtime does not have."""

from __future__ import annotations

from irtools.lint.context import Context
from irtools.lint.mtp import head
from irtools.model.decoding import DECODING

__all__ = ["too_new"]


def too_new(context: Context, strategy: str) -> str:
    """Statement that the target runtime does not have a decoding strategy yet; ``""`` if it has it."""
    drafting = head(context) if strategy == "mtp" else None
    return DECODING[strategy].missing(context.target_runtime, drafting.profile.since if drafting is not None else "")
