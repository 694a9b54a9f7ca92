"""Draft heads as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irtools.report.terminal import Style
from irtools.text import size_text, visible

if TYPE_CHECKING:
    from irtools.surgery.graft.own import DraftHead

__all__ = ["grafting_entries", "grafting_text"]


def grafting_entries(head: DraftHead, *, removed: bool) -> dict[str, object]:
    """JSON form of a draft head."""
    return {
        "draft_head": {
            "removed": removed,
            "tokens": head.rows,
            "vocabulary": head.vocabulary,
            "lm_head_bytes": head.head_bytes,
            "draft_head_bytes": head.graft_bytes,
            "xml_bytes": len(head.patch.data) - len(head.patch.original),
        }
    }


def grafting_text(head: DraftHead, style: Style) -> str:
    """The file, the tokens that the draft head covers, and the bytes that it saves."""
    path = style.paint(visible(str(head.patch.path)), "bold")
    share = head.graft_bytes / head.head_bytes if head.head_bytes else 1.0
    return (
        f"{path}: draft head over {head.rows:,} of {head.vocabulary:,} tokens\n"
        f"For each drafted token it reads {size_text(head.graft_bytes)} of weights instead of "
        f"{size_text(head.head_bytes)} ({share:.0%})."
    )
