"""Layers of equal structure, and their repetition in a stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from irtools.anatomy.blocks import LayerBlocks
from irtools.anatomy.describe import layer_text

__all__ = ["LayerKind", "Run", "Segment", "layer_kinds", "segments"]

_LONGEST_PERIOD = 12


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers of equal structure.

    Attributes
    ----------
    text : str
        Short description, unique in the stack.
    layers : tuple of LayerBlocks
        Sorted by position.
    """

    text: str
    layers: tuple[LayerBlocks, ...]

    @property
    def indices(self) -> tuple[int, ...]:
        """Positions of the layers in the stack."""
        return tuple(layer.index for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive equal layers; they occur once per repetition of the segment.

    Attributes
    ----------
    kind : int
        Position of the kind in the sequence of kinds.
    length : int
        Number of layers in one repetition.
    indices : tuple of int
        Positions of the layers in the stack, over all repetitions.
    """

    kind: int
    length: int
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Runs that repeat together."""

    repeat: int
    runs: tuple[Run, ...]


def layer_kinds(layers: Sequence[LayerBlocks]) -> tuple[LayerKind, ...]:
    """Group layers by structure, in order of first appearance."""
    groups: dict[tuple[object, ...], list[LayerBlocks]] = {}
    for layer in layers:
        groups.setdefault(layer.signature, []).append(layer)
    texts = [layer_text(group[0]) for group in groups.values()]
    reads = [{value.kind for value in group[0].outside} for group in groups.values()]
    plain = list(texts)
    for position, text in enumerate(plain):
        same = [other for other, other_text in enumerate(plain) if other_text == text and other != position]
        if any(("rotary" in reads[other]) != ("rotary" in reads[position]) for other in same):
            texts[position] += " with rotary positions" if "rotary" in reads[position] else " without rotary positions"
    names = []
    for position, text in enumerate(texts):
        earlier = texts[:position].count(text)
        names.append(f"{text} (variant {earlier + 1})" if texts.count(text) > 1 else text)
    return tuple(LayerKind(name, tuple(group)) for name, group in zip(names, groups.values(), strict=True))


def segments(kinds: Sequence[LayerKind]) -> tuple[Segment, ...]:
    """Describe the sequence of layers with as few runs as possible and at most one repeating segment.

    Examples
    --------
    The layers ``A A A B A A A B`` are one segment that repeats twice, with the runs ``3 A`` and
    ``1 B``.
    """
    order = {index: position for position, kind in enumerate(kinds) for index in kind.indices}
    sequence = [order[index] for index in sorted(order)]
    best: tuple[Segment, ...] = (Segment(1, _runs(sequence, 0, 1)),)
    cost = len(best[0].runs)
    for period in range(2, min(_LONGEST_PERIOD, len(sequence) // 2) + 1):
        for start in range(len(sequence) - 2 * period + 1):
            block = sequence[start : start + period]
            repeat = 1
            while sequence[start + repeat * period : start + (repeat + 1) * period] == block:
                repeat += 1
            if repeat < 2:
                continue
            end = start + repeat * period
            candidate = (
                Segment(1, _runs(sequence[:start], 0, 1)),
                Segment(repeat, _runs(block, start, repeat)),
                Segment(1, _runs(sequence[end:], end, 1)),
            )
            units = sum(len(segment.runs) for segment in candidate)
            if units < cost:
                best, cost = tuple(segment for segment in candidate if segment.runs), units
    return best


def _runs(sequence: Sequence[int], offset: int, repeat: int) -> tuple[Run, ...]:
    runs: list[Run] = []
    start = 0
    for kind, group in groupby(sequence):
        length = len(list(group))
        first = range(offset + start, offset + start + repeat * len(sequence), len(sequence))
        runs.append(Run(kind, length, tuple(index for low in first for index in range(low, low + length))))
        start += length
    return tuple(runs)
