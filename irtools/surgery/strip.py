"""Take the hidden-state annotation out of an IR."""

from __future__ import annotations

from irtools.ir.document import Document
from irtools.ir.rt_info import ANNOTATION_KEY, entries, remove_entry
from irtools.surgery.patch import Patch, patch

__all__ = ["strip"]


def strip(document: Document) -> Patch:
    """Work out the file without annotation; nothing is written.

    The inverse of :func:`irtools.surgery.annotate` for a file that had none.

    Returns
    -------
    Patch
        ``status`` is ``unchanged`` when there was none.
    """
    found = entries(document.scan, ANNOTATION_KEY)
    if not found:
        return patch(document, None, None, document.data)
    return patch(document, found[-1].value or "", None, remove_entry(document.scan, ANNOTATION_KEY))
