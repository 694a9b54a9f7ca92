"""Sublayers between the taps according to the patterns: token mixers with their state, feed-forward blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from irtools.decoder.head import LmHead, find_embeddings
from irtools.decoder.names import read_names
from irtools.decoder.stack import DecoderStack
from irtools.decoder.stream import Stream, Sum, ancestors
from irtools.decoder.sublayer import Sublayer, find_sublayers
from irtools.decoder.walk import walk
from irtools.graph.view import GraphView
from irtools.ir.op import RESHAPES
from irtools.prove.annotated import ResolvedTap

__all__ = ["Between", "SublayerKinds", "read_between"]


@dataclass(frozen=True, slots=True)
class SublayerKinds:
    """Kinds of the blocks of one sublayer.

    Attributes
    ----------
    mixer : str
        Kind of the token mixer, or ``none``.
    feed_forward : str
        ``dense``, ``experts`` or ``none``.
    stateful : bool
        True if the sublayer reads a cached value.
    """

    mixer: str
    feed_forward: str
    stateful: bool

    @classmethod
    def of(cls, sublayer: Sublayer) -> SublayerKinds:
        """Read the kinds of a sublayer."""
        return cls(sublayer.mixer, sublayer.feed_forward, bool(sublayer.states))

    def __str__(self) -> str:
        """Kinds of the token mixer and the feed-forward block in words."""
        words = [self.mixer.replace("_", " ")] if self.mixer != "none" else []
        words += [f"{self.feed_forward} feed-forward"] if self.feed_forward != "none" else []
        return " with ".join(words) or "a sum without token mixer and feed-forward block"


@dataclass(frozen=True, slots=True)
class Between:
    """Sublayers between the taps, and their faults.

    Attributes
    ----------
    regions : tuple of tuple of SublayerKinds
        Sublayers of each tap: from the previous tap, or the embeddings, to this tap.
    expected : mapping of int to tuple of SublayerKinds
        Sublayers of each located layer; empty if the decoder stack was not located.
    named : tuple of bool or None
        For each region: True if the friendly names give it one layer number that no other region has, None if they
        give it no number.
    behind : tuple of str
        Friendly names of the ops between the last tap and lm_head.
    torn : tuple of str
        Clauses for taps inside a block or outside the residual stream.
    shares : bool
        True if layers attend to keys and values of other layers, so that they have no KV cache of their own.
    """

    taps: tuple[ResolvedTap, ...]
    regions: tuple[tuple[SublayerKinds, ...], ...]
    expected: Mapping[int, tuple[SublayerKinds, ...]]
    named: tuple[bool | None, ...]
    behind: tuple[str, ...]
    torn: tuple[str, ...]
    shares: bool

    @property
    def problems(self) -> list[str]:
        """Clauses for faults."""
        problems = [*self.torn, *(clause for region, clause in self._odd() if not self._believed(region))]
        if self.behind:
            more = f" and {len(self.behind) - 1} more ops" if len(self.behind) > 1 else ""
            problems.append(f"between {self._before(len(self.taps))} and lm_head there is {self.behind[-1]!r}{more}")
        return problems

    @property
    def doubts(self) -> list[str]:
        """Clauses for odd regions that equal the located layer, and to which the friendly names give no number."""
        return [clause for region, clause in self._odd() if self._believed(region)]

    def _odd(self) -> Iterator[tuple[int, str]]:
        """Regions that form no layer, neither by their sublayers nor by the friendly names."""
        for region, (tap, sublayers) in enumerate(zip(self.taps, self.regions, strict=True)):
            fault = "" if self.named[region] else self._fault(sublayers)
            if fault:
                yield region, f"between {self._before(region)} and the tap of layer {tap.layer} there is {fault}"

    def _believed(self, region: int) -> bool:
        return self.named[region] is None and self.regions[region] == self.expected.get(self.taps[region].layer)

    def _before(self, region: int) -> str:
        return f"the tap of layer {self.taps[region - 1].layer}" if region else "the embeddings"

    def _fault(self, sublayers: Sequence[SublayerKinds]) -> str:
        """Difference from one token mixer with its state and one feed-forward block; ``""`` if there is none."""
        mixing = [index for index, kinds in enumerate(sublayers) if kinds.mixer != "none"]
        feeding = [index for index, kinds in enumerate(sublayers) if kinds.feed_forward != "none"]
        everything = [kinds for region in self.regions for kinds in region]
        faults = []
        if not mixing:
            faults.append("no token mixer")
        elif len(mixing) > 1:
            faults.append(f"more than one token mixer ({', '.join(str(sublayers[index]) for index in mixing)})")
        if not feeding and any(kinds.feed_forward != "none" for kinds in everything):
            faults.append("no feed-forward block")
        if mixing and feeding and feeding[0] < mixing[0]:
            faults.append("the feed-forward block of another layer before the token mixer")
        stateful = any(kinds.stateful for kinds in everything) and not self.shares
        if stateful and len(mixing) == 1 and not any(kinds.stateful for kinds in sublayers):
            faults.append("a token mixer without its state")
        return " and ".join(faults)

    @property
    def summary(self) -> str:
        """Kinds of layers with their counts."""
        kinds = Counter(", ".join(map(str, sublayers)) or "nothing" for sublayers in self.regions)
        return "; ".join(f"{count} x {kind}" for kind, count in kinds.items())


def read_between(
    view: GraphView, taps: Sequence[ResolvedTap], head: LmHead, stack: DecoderStack | None, *, shares: bool
) -> Between:
    """Describe the sublayers between the embeddings, the taps and lm_head.

    The residual sums are those of the located stack, or those found by a walk up the residual stream. Only the taps
    determine the region of each sum.

    Raises
    ------
    LocateRefusedError
        No token embeddings lead to lm_head.
    """
    embeddings, _ = find_embeddings(view, head)
    within = ancestors(view, head.input.op)
    stream = Stream(view, [match.anchor for match in embeddings], head.input, within)
    layers = stack.layers if stack is not None else ()
    sums = [_sum(stream, op) for layer in layers for op in layer.sums if op in stream.ops] or list(walk(stream))
    sublayers = find_sublayers(stream, sums)
    owner = _regions(stream, [tap.origin.op for tap in taps])
    regions: list[list[SublayerKinds]] = [[] for _ in taps]
    scopes = read_names(view, sublayers)
    numbers: list[set[int | None]] = [set() for _ in taps]
    torn = [
        f"the tap of layer {tap.layer} is not on the residual stream" for tap in taps if tap.origin.op not in stream.ops
    ]
    for position, sublayer in enumerate(sublayers):
        region = owner.get(sublayer.sum.op, len(taps))
        if region < len(taps):
            regions[region].append(SublayerKinds.of(sublayer))
            numbers[region].add(scopes.layers[position] if scopes is not None else None)
        first = min(owner.get(op, len(taps)) for op in sublayer.ops)
        if first < region:
            name = view.op_name(sublayer.sum.op)
            torn.append(f"the tap of layer {taps[first].layer} is inside the block that {name!r} adds to the stream")
    by_sum = {sublayer.sum.op: SublayerKinds.of(sublayer) for sublayer in sublayers}
    expected = {layer.index: tuple(by_sum[op] for op in layer.sums if op in by_sum) for layer in layers}
    last = view.unreshaped(head.input)
    behind = [op for op in stream.ops if op not in owner and view.op_type(op) not in RESHAPES]
    if taps and last == taps[-1].origin:
        behind = []
    names = tuple(view.op_name(op) for op in sorted(behind, key=stream.rank.__getitem__))
    named = tuple(len(own) == 1 and numbers.count(own) == 1 if own - {None} else None for own in numbers)
    return Between(tuple(taps), tuple(map(tuple, regions)), expected, named, names, tuple(torn), shares)


def _sum(stream: Stream, op: int) -> Sum:
    """A residual sum; if the walk cannot analyse it, the earlier operand is the skip."""
    residual = stream.residual(op)
    if residual is not None:
        return residual
    first, *rest = sorted(stream.sources[op], key=stream.rank.__getitem__)
    return Sum(op, first, tuple(rest))


def _regions(stream: Stream, ends: Sequence[int]) -> dict[int, int]:
    """Position of the first end that is computed from each op of the stream."""
    owner: dict[int, int] = {}
    for position, end in enumerate(ends):
        pending = [end] if end in stream.ops else []
        while pending:
            op = pending.pop()
            if op not in owner:
                owner[op] = position
                pending.extend(stream.sources[op])
    return owner
