"""What lies between the taps, judged by patterns and names: not by what `locate` believes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import irtools
from irtools.decoder.head import find_head
from irtools.decoder.stack import DecoderStack
from irtools.graph.view import GraphView
from irtools.prove.annotated import Tap
from irtools.prove.between import Between, read_between


def between(view: GraphView, stack: DecoderStack) -> Between:
    """Of the annotation that this stack would get."""
    taps = [Tap(layer.index, layer.locator, layer.source, view.unreshaped(layer.source)) for layer in stack.layers]
    return read_between(view, taps, find_head(view), stack, shares=False)


@pytest.mark.parametrize("name", ["falcon", "llama", "qwen3"])
def test_two_layers_that_locate_takes_for_one_are_no_layer(name: str, fixtures: Path) -> None:
    export = irtools.open_export(fixtures / name)
    stack, view = export.locate(), export.target.graph
    assert not between(view, stack).problems
    first, second, *rest = stack.layers
    one = replace(second, sums=first.sums + second.sums, ops=first.ops | second.ops)
    merged = replace(stack, layers=tuple(replace(layer, index=i) for i, layer in enumerate([one, *rest])))
    found = between(view, merged)
    (problem,) = found.problems
    assert "between the embeddings and the tap of layer 0 there is more than one token mixer" in problem
    # Where names say nothing, an annotation like what was located is no failure, but doubtful.
    nameless = replace(found, named=(None,) * len(found.named))
    assert (nameless.problems, nameless.doubts) == ([], [problem])


def test_unusual_layers_are_layers_if_their_names_say_so(fixtures: Path) -> None:
    export = irtools.open_export(fixtures / "zoo" / "hand_macaron")  # a feed-forward block on both sides of attention
    found = between(export.target.graph, export.locate())
    assert found.doubts == found.problems == []
    nameless = replace(found, named=(None,) * len(found.named))
    assert len(nameless.doubts) == len(found.taps)
