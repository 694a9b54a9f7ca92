"""Take the hidden-state annotation out of an IR."""

from __future__ import annotations

from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.document import Document
from irtools.surgery.edits import SetRtInfo
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply

__all__ = ["strip"]


def strip(document: Document) -> Patch:
    """Work out the file without annotation; nothing is written.

    The inverse of :func:`irtools.surgery.annotate` for a file that had none.

    Returns
    -------
    Patch
        ``status`` is ``unchanged`` when there was none.
    """
    return apply(document, [SetRtInfo(ANNOTATION_KEY, None)])
