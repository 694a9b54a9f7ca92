"""Sublayers between the taps: patterns and friendly names decide, not the result of `locate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import irtools
from irtools.decoder.head import find_head
from irtools.decoder.stack import DecoderStack
from irtools.graph.view import GraphView
from irtools.prove.annotated import ResolvedTap
from irtools.prove.sublayers import Between, read_between


def between(view: GraphView, stack: DecoderStack) -> Between:
    """Sublayers between the taps of this stack's annotation."""
    taps = [
        ResolvedTap(layer.index, layer.locator, layer.source, view.unreshaped(layer.source)) for layer in stack.layers
    ]
    return read_between(view, taps, find_head(view), stack, shares=False)


@pytest.mark.parametrize("name", ["falcon", "llama", "qwen3"])
def test_two_layers_that_locate_takes_for_one_are_no_layer(name: str, fixtures: Path) -> None:
    export = irtools.open_export(fixtures / name)
    stack, view = export.locate(), export.target.graph
    assert not between(view, stack).problems
    first, second, *rest = stack.layers
    one = replace(second, sums=first.sums + second.sums, ops=first.ops | second.ops)
    merged = replace(stack, layers=tuple(replace(layer, index=i) for i, layer in enumerate([one, *rest])))
    regions = between(view, merged)
    (problem,) = regions.problems
    assert "between the embeddings and the tap of layer 0 there is more than one token mixer" in problem
    # Without layer numbers in names, an annotation that agrees with `locate` is doubtful, but no failure.
    nameless = replace(regions, named=(None,) * len(regions.named))
    assert (nameless.problems, nameless.doubts) == ([], [problem])


def test_unusual_layers_are_layers_if_their_names_say_so(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "zoo" / "hand_macaron")  # a feed-forward block on both sides of attention
    regions = between(export.target.graph, export.locate())
    assert regions.doubts == regions.problems == []
    nameless = replace(regions, named=(None,) * len(regions.named))
    assert len(nameless.doubts) == len(regions.taps)
