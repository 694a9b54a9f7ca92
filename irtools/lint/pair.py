"""The draft that is checked, and its target."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.lint.context import Context
from irtools.lint.mtp import head
from irtools.model.decoding import DRAFTING
from irtools.model.draft import Draft, draft, is_draft
from irtools.model.part import PartFacts

__all__ = ["DraftPair", "dflash_draft", "drafted_by", "eagle3_draft", "ordinary_pair", "pair", "reads_annotation"]


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


def ordinary_pair(context: Context) -> DraftPair | None:
    """The target and the language model of ``--draft``, if that is an ordinary draft."""
    paired = pair(context)
    return paired if paired is not None and paired.target is not None and drafted_by(context) == ("draft",) else None


def drafted_by(context: Context) -> tuple[str, ...]:
    """Names of the decoding strategies that may use the model of ``--draft``: one, unless it cannot be read.

    The runtime takes a directory with an MTP head as that of an MTP draft, whatever else is in it.
    """
    paired = pair(context)
    if context.draft is None or paired is None:
        return tuple(name for name in DRAFTING if name != "mtp" or context.export.mtp is None)
    mtp = head(context)
    if context.draft.mtp is not None or (mtp is not None and mtp.part is paired.draft.part):
        return ("mtp",)
    return ("draft" if paired.draft.kind == "plain" else paired.draft.kind,)


def eagle3_draft(context: Context) -> Draft | None:
    """The draft to check, if it is an EAGLE-3 draft."""
    paired = pair(context)
    return paired.draft if paired is not None and paired.draft.kind == "eagle3" else None


def reads_annotation(context: Context, *layers: int) -> bool:
    """True if the draft of ``--draft`` reads the annotation of all these layers; without the option, a draft may.

    Only a DFlash draft reads the annotation, and only of the layers that it names.
    """
    paired = pair(context)
    if context.draft is None or paired is None:
        return True
    if paired.draft.kind != "dflash":
        return False
    return paired.draft.layers is None or set(layers) <= set(paired.draft.layers)
