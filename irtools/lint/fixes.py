"""Changes that remove findings."""

from __future__ import annotations

from irtools.ir.document import Document
from irtools.lint.model import Context, Fix
from irtools.surgery.patch import Patch

__all__ = ["write_annotation"]


def write_annotation(context: Context, *, force: bool = False) -> Fix:
    """Write the annotation of the located stack.

    Parameters
    ----------
    context : Context
    force : bool
        Replace an annotation that says something else: for a person to look at.
    """
    config = context.config

    def patch(document: Document) -> Patch:
        from irtools.decoder import locate
        from irtools.surgery.annotate import annotate

        return annotate(document, locate(document, config=config), force=force)

    return Fix("Replace the annotation" if force else "Write the annotation", patch, safe=not force)
