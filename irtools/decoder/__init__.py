"""Locate the decoder stack of a language model from its IR alone."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any
from weakref import WeakKeyDictionary

from irtools.decoder.resolve import locate_stack
from irtools.decoder.stack import DecoderLayer, DecoderStack, Rejection, Verdict
from irtools.errors import about
from irtools.model.annotation import Locator
from irtools.model.document import Document
from irtools.timing import step

__all__ = ["DecoderLayer", "DecoderStack", "Locator", "Rejection", "Verdict", "locate"]


def locate(document: Document, config: Mapping[str, Any] | None = None) -> DecoderStack:
    """Locate the decoder stack of one IR.

    Parameters
    ----------
    document : Document
        The target, or any other part with an output named ``logits``.
    config : mapping, optional
        Content of config.json. It is one witness among others, never required.

    Raises
    ------
    LocateRefusedError
        The graph is not a decoder-only language model, or the witnesses contradict each other.
    InvalidIRError
        The file is not an IR, or its edges are inconsistent.

    Examples
    --------
    >>> import irtools
    >>> stack = irtools.open_export("fixtures/falcon").locate()
    >>> len(stack.layers), stack.hidden_size, stack.layers[0].locator.producer
    (4, 32, '__module.transformer.h.0/aten::add/Add')
    """
    with about(document.path):
        graph = document.graph
        for known, stack in _LOCATED.get(document, ()):
            if known == config:
                return stack
        with step(f"Locating the decoder stack in the graph of {document.path}"):
            stack = locate_stack(graph, config)
        known = deepcopy(config and dict(config))  # the caller may change its own
        _LOCATED.setdefault(document, []).append((known, stack))
        return stack


_LOCATED: WeakKeyDictionary[Document, list[tuple[Mapping[str, Any] | None, DecoderStack]]] = WeakKeyDictionary()
"""The stacks of each document, by content of config.json: rules, tables and pictures of one command share them."""
