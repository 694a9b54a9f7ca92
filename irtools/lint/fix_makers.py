"""Fixes that several rules offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from irtools.errors import IrtoolsError
from irtools.lint.context import Context
from irtools.lint.finding import Finding, Fix, Severity
from irtools.lint.pair import dflash_draft
from irtools.model.document import Document
from irtools.surgery.edits import Edit
from irtools.surgery.patch import Patch

__all__ = ["REPLACE", "make_edits", "make_names_unique", "replaceable", "write_annotation"]

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


def make_edits(title: str, edits: Sequence[Edit]) -> Fix:
    """Unsafe fix that makes edits of one file, whose ops are given by layer id."""

    def patch(document: Document) -> Patch:
        from irtools.surgery.transaction import apply

        return apply(document, edits)

    return Fix(title, patch, safe=False)


def make_names_unique(context: Context) -> Fix:
    """Unsafe fix that adds numbers to friendly names that several ops share.

    The producers of the located hidden states keep their names, because an annotation or a draft refers to them.
    """
    config = context.config

    def patch(document: Document) -> Patch:
        from irtools.decoder import locate
        from irtools.surgery.rename import unique_names

        try:
            stack = locate(document, config=config)
        except IrtoolsError:
            return unique_names(document)
        return unique_names(document, keep=[layer.source.op for layer in stack.layers])

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
