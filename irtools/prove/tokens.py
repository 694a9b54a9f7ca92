"""The few tokens that the numeric steps run."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["few", "others"]

_FEWEST, _MOST = 6, 12


def few(tokens: Sequence[int]) -> list[int]:
    """The first of a prompt's tokens; those of a very short one again and again."""
    found = list(tokens[:_MOST]) or [0]
    return (found * _FEWEST)[: max(len(found), _FEWEST)]


def others(tokens: Sequence[int], vocabulary: int) -> list[int]:
    """As many other tokens, another one at each position.

    Mostly the same ones turned by a place: what is a token id in the prompt is one here.
    """
    turned = [tokens[-1], *tokens[:-1]]
    size = vocabulary if vocabulary > 1 else max(tokens) + 2
    return [(new + 1) % size if new == old else new for new, old in zip(turned, tokens, strict=True)]
