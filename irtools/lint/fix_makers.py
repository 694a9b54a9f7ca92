"""Fixes that several rules offer."""

from __future__ import annotations

from dataclasses import replace

from irtools.lint.context import Context
from irtools.lint.finding import Finding, Fix, Severity
from irtools.lint.pair import dflash_draft
from irtools.model.document import Document
from irtools.surgery.patch import Patch

__all__ = ["REPLACE", "make_names_unique", "replaceable", "write_annotation"]

REPLACE = "run `irtools annotate --force` to replace the annotation"


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


def replaceable(
    context: Context,
    message: str,
    hint: str = REPLACE,
    op: str | None = None,
    severity: Severity | None = None,
    *,
    read: bool = True,
) -> Finding:
    """Finding about the annotation of the target, with the fix that replaces it.

    Parameters
    ----------
    read : bool
        False if the draft of ``--draft`` does not read what is at fault (see `reads_annotation`). The finding is then
        a warning, and rules out DFlash only if another draft is meant by it.
    """
    assert context.target is not None
    annotation, fix = context.facts(context.target).annotation, write_annotation(context, force=True)
    line = annotation.line if annotation is not None else None
    finding = Finding(message, hint, context.target.path, line, op, severity, fix=fix)
    if read:
        return finding
    rules_out = () if dflash_draft(context) is not None else ("dflash",)
    message = f"{message}; the draft does not read this"
    return replace(finding, message=message, severity=Severity.WARNING, rules_out=rules_out)
