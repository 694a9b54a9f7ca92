"""Patterns that recognise pieces of a model and give a reason when they do not match.

A pattern is a small function over a :class:`Probe`. It returns a :class:`Match` (truthy), or
``probe.fail(reason, op)`` with the reason and the op that did not fit. Patterns are discovered in rule packs;
the engine knows only their roles.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from irtools.graph.view import GraphView

__all__ = ["ROLES", "Match", "Matcher", "Mismatch", "Pattern", "Probe", "pattern", "patterns"]

ROLES = ("embedding", "feed_forward", "logits_tail", "mtp_fusion", "norm", "token_mixer")
"""Pieces of a model that patterns recognise."""


@dataclass(frozen=True, slots=True)
class Match:
    """Successful result of a pattern; truthy.

    Attributes
    ----------
    pattern : str
        Name of the pattern.
    role : str
        Role of the pattern.
    kind : str
        Variant within the role (``full_attention``, ``dense``, ``rms``).
    anchor : int
        Layer id of the op that the pattern was tried on.
    ops : mapping of str to int
        Layer ids by their function in the pattern.
    tail : tuple of int
        Layer ids of the ops between the lm_head and the logits, in order (logits tail only).
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
    """Failed result of a pattern; falsy.

    Attributes
    ----------
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
        Op types that the pattern is tried on; empty for all types.
    priority : int
        Order among the patterns of a role; the lowest is tried first.
    explanation : str
        Docstring of the function, which describes the pattern.
    """

    role: str
    name: str
    anchors: tuple[str, ...]
    priority: int
    explanation: str = field(repr=False)
    function: Function = field(repr=False)


def pattern(role: str, name: str, *anchors: str, priority: int = 50) -> Callable[[Function], Pattern]:
    """Decorate a function ``(probe, op) -> Match or Mismatch`` as a pattern.

    Parameters
    ----------
    role : str
        One of ``ROLES``.
    name : str
        Kebab-case.
    *anchors : str
        Op types that the pattern is tried on; all types if there are none.
    priority : int
        Order among the patterns of a role; the lowest is tried first.

    Raises
    ------
    ValueError
        There is no such role.
    """
    if role not in ROLES:
        raise ValueError(f"role {role!r} is none of {', '.join(ROLES)}")

    def decorate(function: Function) -> Pattern:
        return Pattern(role, name, anchors, priority, inspect.cleandoc(function.__doc__ or ""), function)

    return decorate


@cache
def _tried(role: str, kind: str) -> tuple[Pattern, ...]:
    """The patterns of a role that are tried on ops of a type."""
    return tuple(entry for entry in patterns(role) if not entry.anchors or kind in entry.anchors)


@cache
def patterns(role: str) -> tuple[Pattern, ...]:
    """Discovered patterns of a role, sorted by priority and name."""
    from irtools.registry import collect

    entries = (entry for entry in collect(Pattern, prefix="pattern_") if entry.role == role)
    return tuple(sorted(entries, key=lambda entry: (entry.priority, entry.name)))


class Probe:
    """Graph and region that a pattern function examines.

    Parameters
    ----------
    stream : collection of int
        Ops whose value depends on the token embeddings; empty for every op that is not constant.
    region : collection of int
        Ops between two points of the residual stream; empty for the whole graph.
    pattern : Pattern
        Named in the results.
    """

    def __init__(self, view: GraphView, stream: Collection[int], region: Collection[int], pattern: Pattern) -> None:
        self.view = view
        self.region = region
        self._stream = stream
        self._pattern = pattern

    def fail(self, reason: str, op: int | None = None) -> Mismatch:
        """Report a mismatch with its reason and the op that did not fit."""
        return Mismatch(self._pattern.name, reason, op)

    def match(self, kind: str, anchor: int, ops: Mapping[str, int] | None = None, tail: tuple[int, ...] = ()) -> Match:
        """Report a match; ``ops`` maps functions in the pattern to layer ids."""
        return Match(self._pattern.name, self._pattern.role, kind, anchor, ops or {}, tail)

    def type(self, op: int) -> str:
        """Type of an op."""
        return self.view.op_type(op)

    def constant(self, op: int) -> bool:
        """True if an op is computed from constants alone."""
        return self.view.constant(op)

    def on_stream(self, op: int) -> bool:
        """True if an op depends on the token embeddings."""
        return op in self._stream if self._stream else not self.view.constant(op)

    def inputs(self, op: int) -> tuple[int, ...]:
        """Producers by input index, constants included."""
        return self.view.producers(op)

    def moving(self, op: int) -> list[int]:
        """Producers that are not constant."""
        return [source for source in self.view.producers(op) if not self.view.constant(source)]

    def streaming(self, op: int) -> list[int]:
        """Producers that depend on the token embeddings."""
        return [source for source in self.view.producers(op) if self.on_stream(source)]

    def shape(self, op: int, output: int = 0) -> tuple[int, ...]:
        """Shape of an output, -1 for dynamic dimensions."""
        return self.view.output_shape(op, output)

    def input_shape(self, op: int, index: int) -> tuple[int, ...]:
        """Shape of the value at an input; ``()`` if there is no such input."""
        sources = self.view.inputs(op)
        return self.view.shape(sources[index]) if index < len(sources) else ()

    def upward(self, op: int, through: Collection[str], limit: int = 64) -> int:
        """Follow the first non-constant input while the type of the op is in ``through``."""
        for _ in range(limit):
            moving = self.moving(op)
            if self.type(op) not in through or not moving:
                break
            op = moving[0]
        return op

    def ancestors(self, op: int, stop: Callable[[int], bool], limit: int = 4096) -> Iterator[int]:
        """Non-constant ops that ``op`` depends on, nearest first; the search ends at ops with ``stop(op)``."""
        seen, pending = {op}, [op]  # by hand: `closure` has neither an order nor a limit
        for current in pending:  # the loop appends to it
            if len(seen) > limit:
                return
            for source in self.view.producers(current):
                if source not in seen and not self.view.constant(source):
                    seen.add(source)
                    yield source
                    if not stop(source):
                        pending.append(source)


class Matcher:
    """Apply the patterns of a role to ops; for ``stream`` see :class:`Probe`."""

    def __init__(self, view: GraphView, stream: Collection[int] = ()) -> None:
        self.view = view
        self.stream = stream

    def at(self, role: str, op: int, region: Collection[int] = ()) -> tuple[Match | None, list[Mismatch]]:
        """Try the patterns of a role on one op.

        Returns
        -------
        match : Match or None
            The first match.
        mismatches : list of Mismatch
            Results of the patterns tried before the match; without one, of all patterns.
        """
        mismatches: list[Mismatch] = []
        for entry in _tried(role, self.view.op_type(op)):
            result = entry.function(Probe(self.view, self.stream, region, entry), op)
            if isinstance(result, Match):
                return result, mismatches
            mismatches.append(result)
        return None, mismatches

    def find(self, role: str, region: Collection[int]) -> tuple[Match | None, list[Mismatch]]:
        """First match of a role in a region, by priority of the patterns; returns the same as :meth:`at`."""
        by_type: dict[str, list[int]] = {anchor: [] for entry in patterns(role) for anchor in entry.anchors}
        for op in region:
            kind = self.view.op_type(op)
            if kind in by_type:
                by_type[kind].append(op)
        mismatches: list[Mismatch] = []
        for entry in patterns(role):
            probe = Probe(self.view, self.stream, region, entry)
            for op in (op for anchor in entry.anchors for op in by_type[anchor]):
                result = entry.function(probe, op)
                if isinstance(result, Match):
                    return result, mismatches
                mismatches.append(result)
        return None, mismatches
