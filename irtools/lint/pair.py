"""The draft that is checked, and its target."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.lint.context import Context
from irtools.model.draft import Draft, draft, is_draft
from irtools.model.part import PartFacts

__all__ = ["DraftPair", "dflash_draft", "pair"]


@dataclass(frozen=True, slots=True)
class DraftPair:
    """A draft and its target.

    Attributes
    ----------
    target : PartFacts or None
        None if MODEL_DIR itself is the draft; then only the draft can be checked.
    """

    draft: Draft
    target: PartFacts | None


def pair(context: Context) -> DraftPair | None:
    """The draft to check: the one of ``--draft``, else MODEL_DIR itself if it is a draft."""
    target = context.facts(context.target) if context.target is not None else None
    if context.draft is not None:
        candidates = context.draft.target_candidates
        document = context.readable(candidates[0]) if len(candidates) == 1 else None
        return DraftPair(draft(context.facts(document)), target) if document is not None else None
    if target is not None and is_draft(target):
        return DraftPair(draft(target), None)
    return None


def dflash_draft(context: Context) -> Draft | None:
    """The draft to check, if it is a DFlash draft."""
    paired = pair(context)
    return paired.draft if paired is not None and paired.draft.kind == "dflash" else None
