"""The annotation of a target as values of its graph: what is judged is what the file says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from irtools.decoder.locator import Namer
from irtools.graph.view import GraphView, Source
from irtools.ir.rt_info import ANNOTATION_KEY, entries
from irtools.model.annotation import Locator, MalformedAnnotationError, parse_annotation
from irtools.model.document import Document

__all__ = ["Tap", "TapError", "read_taps"]


class TapError(ValueError):
    """The annotation names no values; the message says why, as a clause."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One layer's entry of the annotation.

    Attributes
    ----------
    layer : int
    locator : Locator
    source : Source
        The value.
    origin : Source
        What it is a reshaped form of; the value itself mostly.
    """

    layer: int
    locator: Locator
    source: Source
    origin: Source


def read_taps(document: Document) -> tuple[Tap, ...] | None:
    """The annotated values by layer; None when there is no annotation.

    Raises
    ------
    TapError
        It is malformed, or names something that the graph does not have.
    """
    found = entries(document.scan, ANNOTATION_KEY)
    if not found:
        return None
    try:
        annotation = parse_annotation(found[-1].value)
    except MalformedAnnotationError as error:
        raise TapError(f"the annotation {error}") from None
    if annotation.early:
        raise TapError(
            "the annotation is in an early form, which the runtime does not read; `irtools annotate` upgrades it"
        )
    if not annotation.layers:
        raise TapError("the annotation names no layers")
    view = document.graph
    namer = Namer(view)
    taps = [_tap(view, namer, layer, locator) for layer, locator in annotation.layers.items()]
    taps.sort(key=lambda tap: tap.layer)
    _require_apart(taps)
    return tuple(taps)


def _tap(view: GraphView, namer: Namer, layer: str, locator: Locator) -> Tap:
    if not layer.isdecimal() or str(int(layer)) != layer:
        raise TapError(f"the annotation has a layer {layer!r}, which is no layer's number")
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


def _require_apart(taps: Sequence[Tap]) -> None:
    """The runtime refuses a value that stands for two layers."""
    first: dict[Source, Tap] = {}
    for tap in taps:
        other = first.setdefault(tap.source, tap)
        if other is not tap:
            raise TapError(
                f"layers {other.layer} and {tap.layer} are annotated with the same value {tap.locator.producer!r}"
            )
