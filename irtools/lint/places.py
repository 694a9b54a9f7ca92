"""Findings at a place in the IR of a part."""

from __future__ import annotations

from typing import Any

from irtools.ir.constants import Constant
from irtools.ir.rt_info import effective_entry
from irtools.ir.scan import Span
from irtools.lint.finding import Finding, Severity
from irtools.model.document import Document
from irtools.model.part import ModelInput, ModelOutput, PartFacts

__all__ = ["finding_at"]


def finding_at(
    part: PartFacts | Document,
    place: int | str | ModelInput | ModelOutput | Constant | Span | None,
    message: str,
    hint: str = "",
    severity: Severity | None = None,
    **others: Any,
) -> Finding:
    """Finding at a place in the IR of a part, with the file, the line and the op.

    Parameters
    ----------
    place : int, str, ModelInput, ModelOutput, Constant, Span or None
        Layer id of an op, port, constant, bytes of the file, or key of the model-level rt_info. None, and a key that
        is not there, stand for the ``<net>``.
    message, hint, severity
        Attributes of the finding.
    **others
        Further attributes by name, such as ``fix``.
    """
    document = part if isinstance(part, Document) else part.document
    return Finding(message, hint, document.path, *_line_and_op(document, place), severity, **others)


def _line_and_op(
    document: Document, place: int | str | ModelInput | ModelOutput | Constant | Span | None
) -> tuple[int, str | None]:
    if isinstance(place, int):
        return document.graph.line(place), document.graph.op_name(place)
    if isinstance(place, ModelInput | ModelOutput):
        return place.line, place.friendly
    if isinstance(place, Constant):
        return document.line(place.span), place.name
    if isinstance(place, str):
        entry = effective_entry(document.scan, place)
        place = entry.span if entry is not None else None
    return document.line(place if place is not None else document.scan.net_tag), None
