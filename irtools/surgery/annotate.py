"""Write the hidden-state annotation into an IR."""

from __future__ import annotations

from collections.abc import Callable

from irtools.decoder.locator import Namer
from irtools.decoder.stack import DecoderStack
from irtools.errors import AnnotationDiffersError, IrtoolsError
from irtools.graph.view import GraphView, Source
from irtools.ir.rt_info import ANNOTATION_KEY, entries
from irtools.model.annotation import Annotation, Locator, MalformedAnnotationError, parse_annotation
from irtools.model.document import Document
from irtools.surgery.edits import Edit, SetRtInfo
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply

__all__ = ["Equivalent", "SameValue", "annotate", "annotating", "annotation_status"]

Equivalent = Callable[[int, Locator], bool]
"""``equivalent(layer, locator)``: does the locator provably carry the hidden state of the layer?"""


class SameValue:
    """Whether another locator carries the hidden state that a stack locates.

    It does if the runtime accepts it (one live op of that name, rank 3, known width) and
    nothing but reshapes lies between the two values.
    """

    def __init__(self, graph: GraphView, stack: DecoderStack) -> None:
        self._graph = graph
        self._stack = stack
        self._namer = Namer(graph)

    def __call__(self, layer: int, locator: Locator) -> bool:
        """Say so for the locator of a layer."""
        there, ours = self._origin(locator), self._origin(self._stack.layers[layer].locator)
        return there is not None and there == ours

    def _origin(self, locator: Locator) -> tuple[Source, int] | None:
        """Where a value comes from before it was reshaped, and its width."""
        ops = self._namer.named(locator.producer)
        outputs = self._graph.op(ops[0]).outputs if len(ops) == 1 else ()
        if locator.output_index >= len(outputs):
            return None
        port = outputs[locator.output_index]
        if len(port.shape) != 3 or port.shape[-1] < 0:
            return None
        return self._graph.unreshaped(Source(ops[0], port.id)), port.shape[-1]


def annotate(
    document: Document,
    stack: DecoderStack,
    *,
    force: bool = False,
    equivalent: Equivalent | None = None,
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
        ``stack``, provably carries the same value; then it is no difference. By default that is
        one that the runtime accepts too and only reshapes lie between.

    Returns
    -------
    Patch
        ``status`` is ``unchanged`` when the file already says it, however it is spelled, else
        ``would-write``. An early form that agrees is upgraded.

    Raises
    ------
    AnnotationDiffersError
        There is another annotation, or one that the runtime cannot read, and no ``force``.
    """
    edits, notes = annotating(document, stack, force=force, equivalent=equivalent)
    return apply(document, edits, notes=notes)


def annotating(
    document: Document,
    stack: DecoderStack,
    *,
    force: bool = False,
    equivalent: Equivalent | None = None,
) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """The edits that :func:`annotate` makes, and its notes."""
    new = stack.annotation()
    found = entries(document.scan, ANNOTATION_KEY)
    if not found:
        return (SetRtInfo(ANNOTATION_KEY, new),), ()
    old = found[-1].value
    try:
        existing = parse_annotation(old)
        difference = _difference(existing, stack, equivalent or SameValue(document.graph, stack))
        if difference is None and not existing.early:
            return (), _notes(existing, stack)
        note = "the early form of the annotation was upgraded"
    except MalformedAnnotationError as error:
        difference = f"it {error}"
    if difference is not None:
        if not force:
            raise AnnotationDiffersError(
                f"line {found[-1].line}: there is another {ANNOTATION_KEY} already: {difference}; "
                "nothing was changed, --force replaces it",
                old=old or "",
                new=new,
                path=document.path,
            )
        note = f"another annotation was replaced: {difference}"
    return (SetRtInfo(ANNOTATION_KEY, new),), (note,)


def _difference(existing: Annotation, stack: DecoderStack, equivalent: Equivalent) -> str | None:
    """The first thing an annotation says otherwise than the stack, as a clause."""
    wanted = {str(layer.index): layer for layer in stack.layers}
    for key, layer in wanted.items():
        there = existing.layers.get(key)
        if there is None:
            return f"it says nothing about layer {key}"
        if there != layer.locator and not equivalent(layer.index, there):
            return f"for layer {key} it names {_spell(there)}, located was {_spell(layer.locator)}"
    surplus = [key for key in existing.layers if key not in wanted]
    return f"it has a layer {surplus[0]!r}, the model has {len(wanted)} layers" if surplus else None


def _notes(existing: Annotation, stack: DecoderStack) -> tuple[str, ...]:
    """Locators that differ in name only."""
    return tuple(
        f"layer {layer.index}: {_spell(there)} carries the same value as {_spell(layer.locator)}"
        for layer in stack.layers
        if (there := existing.layers[str(layer.index)]) != layer.locator
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
    if ANNOTATION_KEY not in document.rt_info:
        return "absent", "not annotated"
    if stack is None:
        return "unknown", "annotated, but no decoder stack was located to compare it with"
    try:
        existing = parse_annotation(entries(document.scan, ANNOTATION_KEY)[-1].value)
        difference = _difference(existing, stack, SameValue(document.graph, stack))
    except MalformedAnnotationError as error:
        return "differs", f"it {error}"
    except IrtoolsError as error:
        return "unknown", str(error)
    if difference is not None:
        return "differs", difference
    if existing.early:
        return "early", "annotated in the early form, which the runtime does not read"
    return "present", f"annotated, {len(stack.layers)} layers, as located"
