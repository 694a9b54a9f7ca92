"""The annotation in a target's file, resolved to values of its graph."""

from __future__ import annotations

from dataclasses import dataclass

from irtools.graph.view import GraphView, Source
from irtools.model.annotation import Locator, UnresolvedLocatorError, is_layer_key, read_annotation, resolve
from irtools.model.document import Document

__all__ = ["ResolvedTap", "TapError", "read_taps"]


class TapError(ValueError):
    """The annotation cannot be resolved to values; the message is a clause with the reason."""


@dataclass(frozen=True, slots=True)
class ResolvedTap:
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


def read_taps(document: Document) -> tuple[ResolvedTap, ...] | None:
    """Annotated values by layer; None without annotation.

    Raises
    ------
    TapError
        The annotation is malformed or names a value that the graph does not have.
    """
    annotation = read_annotation(document.scan)
    if annotation is None:
        return None
    if annotation.fault:
        raise TapError(f"the annotation {annotation.fault}")
    if annotation.early:
        raise TapError(
            "the annotation is in an early form, which the runtime cannot read; `irtools annotate` upgrades it"
        )
    if not annotation.layers:
        raise TapError("the annotation names no layers")
    view = document.graph
    taps = [_tap(view, layer, locator) for layer, locator in annotation.locators.items()]
    taps.sort(key=lambda tap: tap.layer)
    first: dict[Source, ResolvedTap] = {}
    for tap in taps:
        other = first.setdefault(tap.source, tap)
        if other is not tap:  # the runtime refuses a value that stands for two layers
            raise TapError(
                f"layers {other.layer} and {tap.layer} are annotated with the same value {tap.locator.producer!r}"
            )
    return tuple(taps)


def _tap(view: GraphView, layer: str, locator: Locator) -> ResolvedTap:
    if not is_layer_key(layer):
        raise TapError(f"the annotation has a layer {layer!r}, which is not a layer number")
    try:
        source = resolve(view, locator)
    except UnresolvedLocatorError as error:
        raise TapError(
            f"layer {layer} is annotated with {locator.producer!r} output {locator.output_index}: {error}"
        ) from None
    return ResolvedTap(int(layer), locator, source, view.unreshaped(source))
