"""Decoder stack as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from irtools.decoder.stack import DecoderLayer, DecoderStack, Verdict
from irtools.graph.view import GraphView
from irtools.model.annotation import json_text, parse_annotation
from irtools.report.terminal import Column, Style, table
from irtools.text import plural, shape_text, visible

__all__ = [
    "agreeing",
    "comparison_table",
    "layer_rows",
    "layers_table",
    "stack_details",
    "stack_text",
    "summary_line",
]


def layer_rows(stack: DecoderStack) -> list[dict[str, object]]:
    """JSON form of the layers: locator, shape and agreeing witnesses."""
    return [
        {
            "layer": layer.index,
            "producer": layer.locator.producer,
            "output_index": layer.locator.output_index,
            "shape": list(layer.shape),
            "witnesses": agreeing(layer),
            "obstacle": layer.obstacle,
        }
        for layer in stack.layers
    ]


def summary_line(path: Path, stack: DecoderStack, style: Style) -> str:
    """Path of the file, number of layers and hidden size."""
    size = f"{plural(len(stack.layers), 'decoder layer')}, hidden size {stack.hidden_size}"
    return f"{style.paint(visible(str(path)), 'bold')}: {size}"


def layers_table(stack: DecoderStack, style: Style) -> str:
    """Table of the layers: producer, output index, shape and agreeing witnesses."""
    columns = (
        Column("layer", right=True),
        Column("producer", fold="anywhere", effects=("cyan",)),
        Column("output", right=True),
        Column("shape"),
        Column("witnesses", fold="words"),
    )
    rows = [
        (
            layer.index,
            layer.locator.producer,
            layer.locator.output_index,
            shape_text(layer.shape),
            " ".join(agreeing(layer)),
        )
        for layer in stack.layers
    ]
    return table(columns, rows, style)


def comparison_table(old: str, new: str, style: Style) -> str:
    """Table of the layers on which two annotations differ: ``old`` in the file, and ``new`` as located."""
    sides = [_locators(old), _locators(new)]
    if not all(sides):
        return _plain([("in the file", old), ("located", new)], style)
    layers = sorted({layer for side in sides for layer in side}, key=lambda layer: (len(layer), layer))
    rows = [
        (layer if which == "in the file" else "", which, *side.get(layer, ("-", "-")))
        for layer in layers
        if sides[0].get(layer) != sides[1].get(layer)
        for which, side in zip(("in the file", "located"), sides, strict=True)
    ]
    columns = (
        Column("layer", right=True),
        Column("annotation"),
        Column("producer", fold="anywhere", effects=("cyan",)),
        Column("output", right=True),
    )
    return table(columns, rows, style)


def _locators(annotation: str) -> dict[str, tuple[str, str]]:
    """Producer and output index by layer; empty for a malformed annotation."""
    return {layer: _locator(entry) for layer, entry in parse_annotation(annotation).layers.items()}


def _locator(entry: object) -> tuple[str, str]:
    """Producer and output index of an entry, malformed values as written; ``-`` for a missing value."""
    if not isinstance(entry, Mapping):
        return entry if isinstance(entry, str) else json_text(entry), "-"
    producer = entry.get("producer", "-")
    index = json_text(entry["output_index"]) if "output_index" in entry else "-"
    return producer if isinstance(producer, str) else json_text(producer), index


def stack_details(path: Path, graph: GraphView, stack: DecoderStack, *, explain: bool = False) -> dict[str, object]:
    """JSON form of a decoder stack.

    ``path`` is the IR and ``graph`` its graph. ``explain`` adds the rejected values.
    """
    details: dict[str, object] = {
        "file": str(path),
        "scope": stack.scope,
        "hidden_size": stack.hidden_size,
        "embedding": _op(graph, stack.embedding),
        "head": _op(graph, stack.head),
        "head_input": {
            "producer": graph.op_name(stack.head_input.op),
            "output_index": graph.output_index(stack.head_input),
        },
        "logits_tail": [_op(graph, key) for key in stack.logits_tail],
        "verdicts": [asdict(verdict) for verdict in stack.verdicts],
        "layers": [
            {
                **row,
                "scope": layer.scope,
                "residual_sums": [graph.op_name(key) for key in layer.sums],
                "mixer": layer.mixer,
                "feed_forward": layer.feed_forward,
                "states": list(layer.states),
                "verdicts": [asdict(verdict) for verdict in layer.verdicts],
            }
            for row, layer in zip(layer_rows(stack), stack.layers, strict=True)
        ],
    }
    if explain:
        details["rejections"] = [asdict(rejection) for rejection in stack.rejections]
    return details


def stack_text(path: Path, graph: GraphView, stack: DecoderStack, style: Style, *, explain: bool = False) -> str:
    """Decoder stack as text; parameters as of :func:`stack_details`."""
    tail = " -> ".join(f"{graph.op_type(key)} {graph.op_name(key)}" for key in stack.logits_tail)
    facts = [
        ("scope", stack.scope or "none: the layer names share no scope"),
        ("layers", len(stack.layers)),
        ("hidden size", stack.hidden_size),
        *([("no annotation", stack.obstacle)] if stack.obstacle else []),
        ("embedding", f"{graph.op_type(stack.embedding)} {graph.op_name(stack.embedding)}"),
        ("head", f"{graph.op_type(stack.head)} {graph.op_name(stack.head)}"),
        ("logits tail", tail or "none: the head is the output"),
        *_verdict_rows(stack.verdicts),
    ]
    parts = [
        style.paint(visible(str(path)), "bold"),
        _plain(facts, style),
        *(_layer_text(graph, layer, style) for layer in stack.layers),
        *([_rejections_text(stack, style)] if explain else []),
    ]
    return "\n".join(filter(None, parts))


def _layer_text(graph: GraphView, layer: DecoderLayer, style: Style) -> str:
    title = "\n" + style.paint(f"layer {layer.index}", "bold")
    facts = [
        ("hidden state", layer.locator.producer),
        *([("no annotation", layer.obstacle)] if layer.obstacle else []),
        ("output", f"{layer.locator.output_index}, {shape_text(layer.shape)}"),
        ("mixer", layer.mixer.replace("_", " ")),
        ("feed-forward", layer.feed_forward.replace("_", " ")),
        *(("residual sum", graph.op_name(key)) for key in layer.sums),
        *(("state", state) for state in layer.states),
        *_verdict_rows(layer.verdicts),
    ]
    return f"{title}\n{_plain(facts, style)}"


def _rejections_text(stack: DecoderStack, style: Style) -> str:
    title = "\n" + style.paint(plural(len(stack.rejections), "rejected value"), "bold")
    columns = (Column("layer", right=True), Column("producer", fold="anywhere"), Column("reason", fold="words"))
    rows = [
        ("-" if rejection.layer is None else rejection.layer, rejection.producer, rejection.reason)
        for rejection in stack.rejections
    ]
    return f"{title}\n{table(columns, rows, style, indent=2)}" if rows else title


def _verdict_rows(verdicts: tuple[Verdict, ...]) -> list[tuple[str, str]]:
    words = {True: "agrees", False: "disagrees", None: "silent"}
    return [(verdict.witness, f"{words[verdict.agrees]}: {verdict.reason}") for verdict in verdicts]


def _plain(rows: Sequence[Sequence[object]], style: Style) -> str:
    """Indented table without titles; only the last column may be folded."""
    columns = [*(Column("") for _ in rows[0][1:]), Column("", fold="words")] if rows else []
    return table(columns, rows, style, indent=2) if rows else ""


def _op(graph: GraphView, key: int) -> dict[str, object]:
    return {"name": graph.op_name(key), "type": graph.op_type(key)}


def agreeing(layer: DecoderLayer) -> list[str]:
    """Names of the witnesses that agree on the hidden state of a layer."""
    return [verdict.witness for verdict in layer.verdicts if verdict.agrees]
