"""Patterns: what a piece of a model looks like, and why something is not one.

A pattern is a small function over a :class:`Probe`. It returns a :class:`Match` (truthy) or
says with ``probe.fail(reason, op)`` why it does not match, and at which op. Patterns live in
rule packs and are discovered; the engine knows their roles only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from irtools.graph.view import GraphView, Source

__all__ = ["ROLES", "Match", "Matcher", "Mismatch", "Pattern", "Probe", "pattern", "patterns"]

ROLES = ("embedding", "feed_forward", "logits_tail", "mtp_fusion", "norm", "token_mixer")
"""What patterns are asked for."""


@dataclass(frozen=True, slots=True)
class Match:
    """A pattern that matched.

    Attributes
    ----------
    pattern : str
        Name of the pattern.
    role : str
        Role of the pattern.
    kind : str
        What it found, in the words of its role (``full_attention``, ``dense``, ``rms``).
    anchor : int
        Layer id of the op it was tried on.
    ops : mapping of str to int
        Layer ids by what they are in the pattern.
    tail : tuple of int
        Ops it passed on the way, where the order matters (logits tail).
    """

    pattern: str
    role: str
    kind: str
    anchor: int
    ops: Mapping[str, int] = field(default_factory=dict)
    tail: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a pattern did not match. Falsy.

    Attributes
    ----------
    pattern : str
    reason : str
    op : int or None
        Layer id of the op that did not fit.
    """

    pattern: str
    reason: str
    op: int | None = None

    def __bool__(self) -> bool:
        return False


Result: TypeAlias = Match | Mismatch
Function: TypeAlias = Callable[["Probe", int], Result]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern rule.

    Attributes
    ----------
    role : str
        One of ``ROLES``.
    name : str
        Kebab-case.
    anchors : tuple of str
        Op types on which it is tried; empty for all.
    priority : int
        Lower is tried first among the patterns of a role.
    explanation : str
        What it looks like, from the docstring.
    function : callable
    """

    role: str
    name: str
    anchors: tuple[str, ...]
    priority: int
    explanation: str
    function: Function


def pattern(role: str, name: str, *anchors: str, priority: int = 50) -> Callable[[Function], Pattern]:
    """Make a pattern of a function ``(probe, op) -> Match or Mismatch``."""
    if role not in ROLES:
        raise ValueError(f"role {role!r} is none of {', '.join(ROLES)}")

    def decorate(function: Function) -> Pattern:
        return Pattern(role, name, anchors, priority, inspect.cleandoc(function.__doc__ or ""), function)

    return decorate


@cache
def patterns(role: str) -> tuple[Pattern, ...]:
    """The discovered patterns of a role, by priority and name."""
    from irtools.registry import collect

    found = (entry for entry in collect(Pattern, prefix="pattern_") if entry.role == role)
    return tuple(sorted(found, key=lambda entry: (entry.priority, entry.name)))


class Probe:
    """What a pattern function looks at: the graph, and the region it was asked about.

    Parameters
    ----------
    view : GraphView
    stream : collection of int
        Ops whose value depends on the token embeddings. Empty: every op that is no constant.
    region : collection of int
        The ops between two points of the residual stream; empty: the whole graph.
    pattern : Pattern
        Named in the results.
    """

    def __init__(self, view: GraphView, stream: Collection[int], region: Collection[int], pattern: Pattern) -> None:
        self.view = view
        self.region = region
        self._stream = stream
        self._pattern = pattern

    def fail(self, reason: str, op: int | None = None) -> Mismatch:
        """Say why there is no match, and at which op."""
        return Mismatch(self._pattern.name, reason, op)

    def match(self, kind: str, anchor: int, ops: Mapping[str, int] | None = None, tail: tuple[int, ...] = ()) -> Match:
        """Report a match; ``ops`` says what was found where."""
        return Match(self._pattern.name, self._pattern.role, kind, anchor, ops or {}, tail)

    def type(self, op: int) -> str:
        """Type of an op."""
        return self.view.op_type(op)

    def constant(self, op: int) -> bool:
        """Whether an op is computed from constants alone."""
        return self.view.constant(op)

    def on_stream(self, op: int) -> bool:
        """Whether an op depends on the token embeddings."""
        return op in self._stream if self._stream else not self.view.constant(op)

    def inputs(self, op: int) -> tuple[int, ...]:
        """Producers by input index, constants included."""
        return self.view.producers(op)

    def moving(self, op: int) -> list[int]:
        """Producers that are no constants."""
        return [source for source in self.view.producers(op) if not self.view.constant(source)]

    def streaming(self, op: int) -> list[int]:
        """Producers that depend on the token embeddings."""
        return [source for source in self.view.producers(op) if self.on_stream(source)]

    def shape(self, op: int, output: int = 0) -> tuple[int, ...]:
        """Shape of an output, -1 for dynamic dimensions."""
        ports = self.view.op(op).outputs
        return ports[output].shape if output < len(ports) else ()

    def input_shape(self, op: int, index: int) -> tuple[int, ...]:
        """Shape of what an input receives."""
        sources: tuple[Source, ...] = self.view.inputs(op)
        port = self.view.port(sources[index]) if index < len(sources) else None
        return port.shape if port else ()

    def upward(self, op: int, through: Collection[str], limit: int = 64) -> int:
        """Follow the first moving input while the type of the op is one of ``through``."""
        for _ in range(limit):
            moving = self.moving(op)
            if self.type(op) not in through or not moving:
                break
            op = moving[0]
        return op

    def ancestors(self, op: int, stop: Callable[[int], bool], limit: int = 4096) -> Iterator[int]:
        """Ops above ``op``, nearest first; not beyond those for which ``stop`` is true."""
        seen, pending = {op}, [op]
        for current in pending:
            if len(seen) > limit:
                return
            for source in self.view.producers(current):
                if source not in seen and not self.view.constant(source):
                    seen.add(source)
                    yield source
                    if not stop(source):
                        pending.append(source)


class Matcher:
    """Tries the patterns of a role on the ops of a region.

    Parameters
    ----------
    view : GraphView
    stream : collection of int, optional
        See :class:`Probe`.
    """

    def __init__(self, view: GraphView, stream: Collection[int] = ()) -> None:
        self.view = view
        self.stream = stream

    def at(self, role: str, op: int, region: Collection[int] = ()) -> tuple[Match | None, list[Mismatch]]:
        """Try every pattern of a role on one op.

        Returns
        -------
        match : Match or None
        mismatches : list of Mismatch
            Of the patterns tried before it, or of all.
        """
        return self._first(((entry, op) for entry in patterns(role)), region)

    def find(self, role: str, region: Collection[int]) -> tuple[Match | None, list[Mismatch]]:
        """The first match of a role in a region, patterns in order of priority."""
        by_type: dict[str, list[int]] = {}
        for op in region:
            by_type.setdefault(self.view.op_type(op), []).append(op)
        return self._first(
            ((entry, op) for entry in patterns(role) for anchor in entry.anchors for op in by_type.get(anchor, ())),
            region,
        )

    def _first(
        self, candidates: Iterable[tuple[Pattern, int]], region: Collection[int]
    ) -> tuple[Match | None, list[Mismatch]]:
        mismatches: list[Mismatch] = []
        for entry, op in candidates:
            if entry.anchors and self.view.op_type(op) not in entry.anchors:
                continue
            result = entry.function(Probe(self.view, self.stream, region, entry), op)
            if isinstance(result, Match):
                return result, mismatches
            mismatches.append(result)
        return None, mismatches
