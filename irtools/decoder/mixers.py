"""Kinds of token mixers, with everything that distinguishes them outside their patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["MIXERS", "MixerKind"]


@dataclass(frozen=True, slots=True)
class MixerKind:
    """One kind of token mixer.

    Attributes
    ----------
    title : str
        Name of its blocks.
    weights : str
        Name of its weights in tables.
    attends : bool
        True if queries read keys and values.
    in_order : bool
        True if it reads the tokens in order, and so is causal without a mask.
    configured : bool
        True if ``layer_types`` of config.json names it by its key in ``MIXERS``.
    """

    title: str
    weights: str
    attends: bool = False
    in_order: bool = False
    configured: bool = False


MIXERS: Mapping[str, MixerKind] = {
    "full_attention": MixerKind("full attention", "attention", attends=True, configured=True),
    "sliding_attention": MixerKind("sliding-window attention", "attention", attends=True, configured=True),
    "cross_attention": MixerKind("cross-attention", "attention", attends=True),
    "linear_attention": MixerKind("linear attention", "linear attention", in_order=True, configured=True),
    "convolution": MixerKind("convolution", "convolution", in_order=True),
    "state_space": MixerKind("state space", "state space", in_order=True),
    "unknown": MixerKind("unrecognised token mixer", "token mixer"),
}
"""Kinds by the names that the patterns of the role ``token_mixer`` return; ``unknown`` if no pattern matches."""
