"""Remove the hidden-state annotation of an IR."""

from __future__ import annotations

from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.document import Document
from irtools.surgery.edits import SetRtInfo
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply

__all__ = ["strip"]


def strip(document: Document) -> Patch:
    """Work out the file without annotation; write nothing.

    The inverse of :func:`irtools.surgery.annotate` for a file that had no annotation. ``status`` of the patch is
    ``unchanged`` if the file has no annotation.
    """
    return apply(document, [SetRtInfo(ANNOTATION_KEY, None)])
