"""The MTP head that ``irtools attach`` puts beside a target, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from irtools.report.terminal import Column, Style, table
from irtools.surgery.attach import Attachment
from irtools.text import visible

__all__ = ["attachment_details", "attachment_text"]

_VERDICTS = {True: "same", False: "differs", None: "not compared"}


def attachment_text(attachment: Attachment, style: Style) -> str:
    """Table of what was compared; empty if nothing was."""
    if not attachment.traits:
        return ""
    title = f"{visible(str(attachment.path))}: MTP head from {visible(str(attachment.source))}"
    columns = (Column(""), Column("this export", fold="words"), Column("the other one", fold="words"), Column(""))
    rows = [(trait.name, trait.here, trait.there, _VERDICTS[trait.same]) for trait in attachment.traits]
    return f"{style.paint(title, 'bold')}\n{table(columns, rows, style, indent=2)}"


def attachment_details(attachment: Attachment) -> Mapping[str, object]:
    """JSON form of an attachment."""
    return {
        "file": str(attachment.path),
        "from": str(attachment.source) if attachment.source is not None else None,
        "compared": [asdict(trait) for trait in attachment.traits],
        "declared": attachment.declared or None,
        "written": list(map(str, attachment.written)),
        "removed": list(map(str, attachment.removed)),
        "notes": list(attachment.notes),
    }
