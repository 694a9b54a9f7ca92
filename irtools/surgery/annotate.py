"""Write the hidden-state annotation into an IR."""

from __future__ import annotations

from irtools.decoder.stack import DecoderStack
from irtools.errors import AnnotationDiffersError, IrtoolsError, about
from irtools.graph.view import GraphView, Source
from irtools.ir.rt_info import ANNOTATION_KEY
from irtools.model.annotation import Annotation, Locator, read_annotation, resolve_or_none
from irtools.model.document import Document
from irtools.surgery.edits import Edit, SetRtInfo
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply
from irtools.text import plural

__all__ = ["SameValue", "annotate", "annotating", "annotation_status"]


class SameValue:
    """Test for locators that carry a hidden state of a stack under another name.

    A locator passes if the runtime accepts it (one live op of that name, rank 3, known width) and
    only reshapes lie between the two values.
    """

    def __init__(self, graph: GraphView, stack: DecoderStack) -> None:
        self._graph = graph
        self._stack = stack

    def __call__(self, layer: int, locator: Locator) -> bool:
        """True if the locator carries the hidden state of the layer."""
        origin = self._origin(locator)
        return origin is not None and origin == self._origin(self._stack.layers[layer].locator)

    def _origin(self, locator: Locator) -> tuple[Source, int] | None:
        """Return a locator's value before any reshape, and its width; None if the runtime refuses the locator."""
        source = resolve_or_none(self._graph, locator)
        port = None if source is None else self._graph.port(source)
        if source is None or port is None or len(port.shape) != 3 or port.shape[-1] < 0:
            return None
        return self._graph.unreshaped(source), port.shape[-1]


def annotate(document: Document, stack: DecoderStack, *, force: bool = False) -> Patch:
    """Work out the file with the annotation of ``stack``; write nothing.

    An existing locator that carries the :class:`SameValue` is no difference. ``force`` replaces an annotation that
    differs.

    Returns
    -------
    Patch
        ``status`` is ``unchanged`` if the file has an equal annotation in any spelling, else
        ``would-write``. An early form that agrees is upgraded.

    Raises
    ------
    AnnotationDiffersError
        The file has a different annotation, or one that the runtime cannot read, and ``force`` is off.
    LocateRefusedError
        No annotation can name the stack's hidden states; see :attr:`DecoderStack.obstacle`.
    """
    edits, notes = annotating(document, stack, force=force)
    return apply(document, edits, notes=notes)


def annotating(
    document: Document, stack: DecoderStack, *, force: bool = False
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """Return the edits that :func:`annotate` makes, and its notes."""
    with about(document.path):
        new = stack.annotation()
    existing = read_annotation(document.scan)
    if existing is None:
        return (SetRtInfo(ANNOTATION_KEY, new),), ()
    difference = _difference(existing, document, stack)
    if difference is None and not existing.early:
        return (), _notes(existing, stack)
    if difference is not None and not force:
        raise AnnotationDiffersError(
            f"line {existing.line}: the file has a different {ANNOTATION_KEY}: {difference}; "
            "nothing was changed, use --force to replace it",
            old=existing.text or "",
            new=new,
            path=document.path,
        )
    note = f"a different annotation was replaced: {difference}"
    if difference is None:
        note = "the early form of the annotation was upgraded"
    return (SetRtInfo(ANNOTATION_KEY, new, force=True),), (note,)


def _difference(existing: Annotation, document: Document, stack: DecoderStack) -> str | None:
    """Return the first difference between an annotation and the stack, as a clause."""
    if existing.fault:
        return f"it {existing.fault}"
    same_value = SameValue(document.graph, stack)
    wanted = {str(layer.index): layer for layer in stack.layers}
    for key, layer in wanted.items():
        annotated = existing.locators.get(key)
        if annotated is None:
            return f"it has no entry for layer {key}"
        if annotated != layer.locator and not same_value(layer.index, annotated):
            return f"for layer {key} it names {_spell(annotated)}, but {_spell(layer.locator)} was located"
    surplus = next((key for key in existing.layers if key not in wanted), None)
    return (
        None
        if surplus is None
        else f"it has an entry for layer {surplus!r}, but the model has {plural(len(wanted), 'layer')}"
    )


def _notes(existing: Annotation, stack: DecoderStack) -> tuple[str, ...]:
    """List the locators that differ in name only."""
    return tuple(
        f"layer {layer.index}: {_spell(annotated)} carries the same value as {_spell(layer.locator)}"
        for layer in stack.layers
        if (annotated := existing.locators[str(layer.index)]) != layer.locator
    )


def _spell(locator: Locator) -> str:
    return f"{locator.producer!r} output {locator.output_index}"


def annotation_status(document: Document, stack: DecoderStack | None) -> tuple[str, str]:
    """State of the annotation of a part compared with the located stack.

    Returns
    -------
    status : str
        ``absent``, ``present`` (agrees with the stack), ``early`` (agrees, in the form that the runtime does
        not read), ``differs`` or ``unknown`` (nothing to compare it with).
    text : str
        The same as a clause.
    """
    existing = read_annotation(document.scan)
    if existing is None:
        obstacle = stack.obstacle if stack is not None else ""
        return "absent", f"not annotated: {obstacle}" if obstacle else "not annotated"
    if stack is None:
        return "unknown", "annotated, but no decoder stack was located to compare it with"
    if stack.obstacle:
        return "differs", f"annotated, but {stack.obstacle}"
    try:
        difference = _difference(existing, document, stack)
    except IrtoolsError as error:
        return "unknown", str(error)
    if difference is not None:
        return "differs", difference
    if existing.early:
        return "early", "annotated in the early form, which the runtime does not read"
    return "present", f"annotated, {plural(len(stack.layers), 'layer')}, as located"
