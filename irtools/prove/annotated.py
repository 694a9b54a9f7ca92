"""The annotation in a target's file, resolved to values of its graph."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.decoder.locator import Namer
from irtools.graph.view import GraphView, Source
from irtools.ir.rt_info import ANNOTATION_KEY, entries
from irtools.model.annotation import Locator, MalformedAnnotationError, parse_annotation
from irtools.model.document import Document

__all__ = ["Tap", "TapError", "read_taps"]


class TapError(ValueError):
    """The annotation cannot be resolved to values; the message is a clause with the reason."""


@dataclass(frozen=True, slots=True)
class Tap:
    """The annotation entry of one layer.

    Attributes
    ----------
    source : Source
        The annotated value.
    origin : Source
        The annotated value before any reshape; usually the same value.
    """

    layer: int
    locator: Locator
    source: Source
    origin: Source


def read_taps(document: Document) -> tuple[Tap, ...] | None:
    """Annotated values by layer; None without annotation.

    Raises
    ------
    TapError
        The annotation is malformed or names a value that the graph does not have.
    """
    annotations = entries(document.scan, ANNOTATION_KEY)
    if not annotations:
        return None
    try:
        annotation = parse_annotation(annotations[-1].value)
    except MalformedAnnotationError as error:
        raise TapError(f"the annotation {error}") from None
    if annotation.early:
        raise TapError(
            "the annotation is in an early form, which the runtime cannot read; `irtools annotate` upgrades it"
        )
    if not annotation.layers:
        raise TapError("the annotation names no layers")
    view = document.graph
    namer = Namer(view)
    taps = [_tap(view, namer, layer, locator) for layer, locator in annotation.layers.items()]
    taps.sort(key=lambda tap: tap.layer)
    first: dict[Source, Tap] = {}
    for tap in taps:
        other = first.setdefault(tap.source, tap)
        if other is not tap:  # the runtime refuses a value that stands for two layers
            raise TapError(
                f"layers {other.layer} and {tap.layer} are annotated with the same value {tap.locator.producer!r}"
            )
    return tuple(taps)


def _tap(view: GraphView, namer: Namer, layer: str, locator: Locator) -> Tap:
    if not layer.isdecimal() or str(int(layer)) != layer:
        raise TapError(f"the annotation has a layer {layer!r}, which is not a layer number")
    ops = namer.named(locator.producer)
    if len(ops) != 1:
        problem = f"{len(ops)} ops have that name" if ops else "no op has that name"
    else:
        outputs = view.op(ops[0]).outputs
        if locator.output_index < len(outputs):
            source = Source(ops[0], outputs[locator.output_index].id)
            return Tap(int(layer), locator, source, view.unreshaped(source))
        problem = f"the op has no output {locator.output_index}"
    raise TapError(f"layer {layer} is annotated with {locator.producer!r} output {locator.output_index}: {problem}")
