"""Write the hidden-state annotation into an IR."""

from __future__ import annotations

from collections.abc import Callable

from irtools.decoder.stack import DecoderStack, Locator
from irtools.ir.document import Document
from irtools.surgery.patch import Patch

__all__ = ["annotate"]


def annotate(
    document: Document,
    stack: DecoderStack,
    *,
    force: bool = False,
    equivalent: Callable[[int, Locator], bool] | None = None,
) -> Patch:
    """Work out the file with the annotation of ``stack``; nothing is written.

    Parameters
    ----------
    document : Document
    stack : DecoderStack
        From :func:`irtools.decoder.locate`.
    force : bool
        Replace an annotation that says something else.
    equivalent : callable, optional
        ``equivalent(layer, locator)`` says whether an existing locator, other than that of
        ``stack``, provably carries the same value. The default follows reshapes and other ops
        that hand their input on.

    Returns
    -------
    Patch
        ``status`` is ``unchanged`` when the file already says it, else ``would-write``.

    Raises
    ------
    AnnotationDiffersError
        There is another annotation, and no ``force``; it carries ``old`` and ``new``.
    """
    raise NotImplementedError
