"""The runtime's own guess for hidden states, which EAGLE-3 uses, and DFlash without an annotation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from irtools.model.part import Part

__all__ = ["default_layers", "guess"]


def guess(part: Part, layers: Iterable[int]) -> Mapping[int, int]:
    """What GenAI 2026.4 would take for the hidden state of each layer.

    The first Add in topological order whose friendly name contains ``layers.<id>/`` and whose
    second operand is a MatMul that reads a Multiply.

    Returns
    -------
    mapping of int to int
        Layer ids of ops by layer; layers for which it finds nothing are missing.
    """
    graph = part.graph
    patterns = {layer: f"layers.{layer}/" for layer in layers}
    found: dict[int, int] = {}
    for key in sorted(part.live_ops("Add"), key=graph.rank.__getitem__):
        if len(found) == len(patterns):
            break
        if not _residual(part, key):
            continue
        name = graph.op_name(key)
        layer = next((layer for layer, text in patterns.items() if layer not in found and text in name), None)
        if layer is not None:
            found[layer] = key
    return found


def _residual(part: Part, key: int) -> bool:
    graph = part.graph
    producers = graph.producers(key)
    if len(producers) < 2 or graph.op_type(producers[1]) != "MatMul":
        return False
    product = graph.producers(producers[1])
    return bool(product) and graph.op_type(product[0]) == "Multiply"


def default_layers(count: int) -> tuple[int, ...]:
    """The layers that EAGLE-3 reads when the draft does not say; empty when the target has too few."""
    return (2, count // 2, count - 3) if count >= 10 else ()
