"""Take the hidden-state annotation out of an IR."""

from __future__ import annotations

from irtools.ir.document import Document
from irtools.surgery.patch import Patch

__all__ = ["strip"]


def strip(document: Document) -> Patch:
    """Work out the file without annotation; nothing is written.

    Returns
    -------
    Patch
        ``status`` is ``unchanged`` when there was none.
    """
    raise NotImplementedError
