"""Two IRs with their ops paired region by region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from irtools.compare.align import Alignment
from irtools.compare.blob import Blob
from irtools.compare.differences import RegionPair
from irtools.compare.identical import identical_ops
from irtools.compare.labels import Graph, Palette
from irtools.compare.regions import INPUTS, Regions, find_regions, pair_layers
from irtools.decoder import DecoderStack, locate
from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView
from irtools.ir.constants import iter_graphs, read_constants
from irtools.ir.scan import same_graph, same_layout
from irtools.model.document import Document

__all__ = ["PartPair", "Side", "pair_up"]

Configs = tuple[Mapping[str, Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Side:
    """One of two compared IRs, with labels and regions for its ops."""

    document: Document
    graph: Graph
    regions: Regions
    stack: DecoderStack | None

    @property
    def view(self) -> GraphView:
        """The graph without labels."""
        return self.graph.view

    def roles(self) -> dict[int, str]:
        """Ops whose weights have a special role."""
        return {self.stack.embedding: "embedding", self.stack.head: "head"} if self.stack is not None else {}

    def ops(self, region: RegionPair, layer: int | None) -> tuple[int, ...]:
        """Ops of a region in topological order; none if ``layer``, the position on this side, is None."""
        if region.kind == "layer" and layer is None:
            return ()
        other = len(self.regions.layers) if region.kind == "head" else INPUTS
        return self.regions.ops.get(other if layer is None else layer, ())


@dataclass(frozen=True)
class PartPair:
    """Two aligned IRs.

    Attributes
    ----------
    regions : tuple of RegionPair
        In topological order.
    same : bool
        True if the layers and edges are the same bytes in both files.
    notes : tuple of str
        Descriptions of content that could not be compared, with reasons.
    unread : tuple of str
        Reasons why the weights and small constants were not compared.
    """

    a: Side
    b: Side
    alignment: Alignment
    regions: tuple[RegionPair, ...]
    same: bool
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def pair_up(a: Document, b: Document, configs: Configs | None) -> PartPair:
    """Read two IRs and pair their ops.

    Parameters
    ----------
    configs : tuple of mapping, optional
        Content of config.json on both sides, if the IRs have a decoder stack to locate.

    Raises
    ------
    InvalidIRError
        A file is not an IR, or its edges are invalid.
    ExportError
        A file cannot be read.
    """
    notes: list[str] = []
    b.read_like(a)
    stacks = _stacks((a, b), configs, notes)
    palette = Palette()
    one, other = (_side(document, stack, palette) for document, stack in zip((a, b), stacks, strict=True))
    faults = tuple(fault for side in (one, other) if (fault := side.graph.blob.fault))
    for side in (one, other) if faults else ():
        side.graph.blob.ignore()  # a constant of one side would count as a difference
    alignment = Alignment(one.graph, other.graph, palette)
    regions = _regions(one, other)
    same = same_graph(a.scan, b.scan)
    if same:
        for op in one.regions.of:
            alignment.pair(op, op)
    else:
        _align(alignment, one, other, regions)
    return PartPair(one, other, alignment, tuple(regions), same, tuple(notes), faults)


def _stacks(
    documents: tuple[Document, Document], configs: Configs | None, notes: list[str]
) -> tuple[DecoderStack | None, DecoderStack | None]:
    """Both decoder stacks or none, because the layers of one stack have no counterpart without the other."""
    if configs is None:
        return None, None
    a, b = documents
    try:
        first = locate(a, configs[0])
        same = configs[0] == configs[1] and same_layout(b.scan, a.scan)
        return first, first if same else locate(b, configs[1])
    except LocateRefusedError as error:
        notes.append(f"compared as a whole, not layer by layer: {error}")
        return None, None


def _side(document: Document, stack: DecoderStack | None, palette: Palette) -> Side:
    blob = Blob(document.weights_path, read_constants(iter_graphs(document.scan)))
    graph = Graph(document.graph, blob, palette)
    return Side(document, graph, find_regions(graph.view, stack), stack)


def _regions(one: Side, other: Side) -> list[RegionPair]:
    if one.stack is None:
        return [RegionPair("graph")]
    layers = pair_layers((one.view, one.regions), (other.view, other.regions))
    return [RegionPair("inputs"), *layers, RegionPair("head")]


def _align(alignment: Alignment, one: Side, other: Side, regions: list[RegionPair]) -> None:
    _align_inputs(alignment, one, other)
    shared = [region for region in regions if not region.one_sided]
    alignment.identical = identical_ops(one.view, other.view)
    for region in shared:
        alignment.same(one.ops(region, region.a), other.ops(region, region.b))
    for region in shared:
        alignment.names(one.ops(region, region.a), other.ops(region, region.b))
    for certain in (True, False):
        for region in shared:
            ops = one.ops(region, region.a), other.ops(region, region.b)
            alignment.region(*ops, anchors=_anchors(region, one, other), certain=certain)
    # An edit may have moved an op from one region to another.
    alone_a = {region.a for region in regions if region.b is None}
    alone_b = {region.b for region in regions if region.a is None}
    shared_a, shared_b = (
        sorted((op for op, region in side.regions.of.items() if region not in alone), key=side.view.rank.__getitem__)
        for side, alone in ((one, alone_a), (other, alone_b))
    )
    alignment.region(shared_a, shared_b)


def _align_inputs(alignment: Alignment, one: Side, other: Side) -> None:
    """Pair model inputs by their tensor names."""
    by_name = {name: key for key in other.view.parameters for name in _tensor_names(other.view, key)}
    for key in filter(one.regions.of.__contains__, one.view.parameters):
        matches = {by_name[name] for name in _tensor_names(one.view, key) if name in by_name}
        if len(matches) == 1 and not matches & alignment.to_a.keys() and matches <= other.regions.of.keys():
            alignment.pair(key, matches.pop())


def _tensor_names(view: GraphView, op: int) -> tuple[str, ...]:
    return tuple(name for port in view.op(op).outputs for name in port.names)


def _anchors(region: RegionPair, one: Side, other: Side) -> list[tuple[int, int]]:
    """Pairs of ops with the same role: residual sums of a layer, lm_head or embedding."""
    if one.stack is None or other.stack is None:
        return []
    if region.a is not None and region.b is not None:
        first, second = one.stack.layers[region.a].sums, other.stack.layers[region.b].sums
        return list(zip(first, second, strict=True)) if len(first) == len(second) else []
    if region.kind == "head":
        return [(one.stack.head, other.stack.head)]
    return [(one.stack.embedding, other.stack.embedding)]
