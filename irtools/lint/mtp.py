"""The MTP head of the export that is verified, and findings about it."""

from __future__ import annotations

from irtools.lint.context import Context
from irtools.lint.finding import Severity
from irtools.model.document import Document
from irtools.model.mtp import MtpHead, MtpProfile, nearest_profile
from irtools.model.part import PartFacts
from irtools.model.target import head_width
from irtools.registry import collect

__all__ = ["expected", "head", "is_head", "own_target", "runnable_form", "runnable_head"]

_CERTAIN = 0.8
"""Likeness above which a draft counts as an MTP head instead of a language model."""


def head(context: Context) -> MtpHead | None:
    """The MTP head of the export with its best profile, or None.

    The head is ``openvino_mtp_model.xml``, or the model of ``--draft`` if that has the ports of a head with
    a directory of its own. With ``--no-mtp`` the result is None, because an unwanted head need not be valid.
    """
    if context.expect_mtp is False:
        return None
    if context.mtp is not None:
        return _nearest(context, context.mtp)
    if context.export.mtp is None and context.draft is not None and len(context.draft.target_candidates) == 1:
        document = context.readable(context.draft.target_candidates[0])
        candidate = _nearest(context, document) if document is not None else None
        return candidate if _has_own_directory(candidate) else None
    return None


def is_head(context: Context) -> bool:
    """True if the directory is that of an MTP head, which GenAI runs as a draft for a target elsewhere."""
    if context.target is None:
        return False
    model_type = str(context.config.get("model_type", ""))
    return _has_own_directory(nearest_profile(context.facts(context.target), collect(MtpProfile), model_type))


def _has_own_directory(head: MtpHead | None) -> bool:
    return head is not None and head.profile.own_directory and head.likeness > _CERTAIN


def runnable_form(part: PartFacts) -> MtpProfile | None:
    """The form that GenAI runs from ``openvino_mtp_model.xml`` whose ports are nearest to those of a part."""
    near = nearest_profile(part, [profile for profile in collect(MtpProfile) if profile.usable])
    return near.profile if near is not None else None


def _nearest(context: Context, document: Document) -> MtpHead | None:
    width = head_width(context.facts(context.target)) if context.target is not None else None
    model_type = str(context.config.get("model_type", ""))
    return nearest_profile(context.facts(document), collect(MtpProfile), model_type, width)


def own_target(context: Context) -> PartFacts | None:
    """The target to which a head can belong: it takes embeddings and is not itself a draft.

    In a text-only export or in the directory of a draft, the head is out of place. That is a finding of its own, to
    which a comparison would add nothing.
    """
    part = context.target_facts
    return part if part is not None and part.input("input_ids") is None else None


def runnable_head(context: Context) -> MtpHead | None:
    """The head if it resembles a form that GenAI runs closely enough for checks of its ops, else None."""
    candidate = head(context)
    return candidate if candidate is not None and candidate.comparable and candidate.profile.usable else None


def expected(context: Context, otherwise: Severity | None = None) -> Severity | None:
    """Severity error with ``--expect-mtp``, else ``otherwise``."""
    return Severity.ERROR if context.expect_mtp else otherwise
