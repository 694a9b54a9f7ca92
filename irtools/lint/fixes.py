"""Changes that remove findings."""

from __future__ import annotations

from irtools.lint.model import Context, Fix
from irtools.model.document import Document
from irtools.surgery.patch import Patch

__all__ = ["make_names_unique", "write_annotation"]


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


def make_names_unique() -> Fix:
    """Add numbers to friendly names that several ops have: for a person to look at."""

    def patch(document: Document) -> Patch:
        from irtools.surgery.rename import unique_names

        return unique_names(document)

    return Fix("Make the names unique", patch, safe=False)
