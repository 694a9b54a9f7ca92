"""The runtime's own heuristic for hidden states. EAGLE-3 uses it, and so does DFlash without an annotation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from irtools.model.part import PartFacts

__all__ = ["default_layers", "guess", "midlayer"]


def guess(part: PartFacts, layers: Iterable[int]) -> Mapping[int, int]:
    """Ops that GenAI 2026.4 treats as the hidden states, by decoder layer; layers without a match are missing.

    For each layer, that is the first Add in topological order whose friendly name contains ``layers.<id>/``
    and whose second operand is a MatMul that reads a Multiply.
    """
    graph = part.graph
    patterns = {layer: f"layers.{layer}/" for layer in layers}
    ops: dict[int, int] = {}
    for key in sorted(part.live_ops("Add"), key=graph.rank.__getitem__):
        if len(ops) == len(patterns):
            break
        if not _residual(part, key):
            continue
        name = graph.op_name(key)
        layer = next((layer for layer, text in patterns.items() if layer not in ops and text in name), None)
        if layer is not None:
            ops[layer] = key
    return ops


def midlayer(part: PartFacts) -> int | None:
    """The op whose value GenAI 2026.4 takes as the hidden state of an EAGLE-3 draft, or None.

    The form is that of `guess`, in a scope that is called ``midlayer``.
    """
    graph = part.graph
    found = (key for key in part.live_ops("Add") if "midlayer" in graph.op_name(key) and _residual(part, key))
    return min(found, key=graph.rank.__getitem__, default=None)


def _residual(part: PartFacts, key: int) -> bool:
    graph = part.graph
    product = graph.producers(key)[1]
    return graph.op_type(product) == "MatMul" and graph.op_type(graph.producers(product)[0]) == "Multiply"


def default_layers(count: int) -> tuple[int, ...]:
    """Layers that EAGLE-3 reads by default; empty if the target has fewer than 10 layers."""
    return (2, count // 2, count - 3) if count >= 10 else ()
