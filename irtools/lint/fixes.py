"""Fixes that several rules offer."""

from __future__ import annotations

from irtools.lint.model import Context, Fix
from irtools.model.document import Document
from irtools.surgery.patch import Patch

__all__ = ["make_names_unique", "write_annotation"]


def write_annotation(context: Context, *, force: bool = False) -> Fix:
    """Fix that writes the annotation of the located stack.

    Parameters
    ----------
    force : bool
        Replace a different annotation. The fix is then unsafe: a person must review it.
    """
    config = context.config

    def patch(document: Document) -> Patch:
        from irtools.decoder import locate
        from irtools.surgery.annotate import annotate

        return annotate(document, locate(document, config=config), force=force)

    return Fix("Replace the annotation" if force else "Write the annotation", patch, safe=not force)


def make_names_unique() -> Fix:
    """Unsafe fix that adds numbers to friendly names that several ops share."""

    def patch(document: Document) -> Patch:
        from irtools.surgery.rename import unique_names

        return unique_names(document)

    return Fix("Make the names unique", patch, safe=False)
