"""The residual stream: the ops between the token embeddings and the lm_head.

It contains only ops that depend on the token embeddings and that the lm_head depends on. Masks, rotary tables, cached
states and shape arithmetic do not depend on the embeddings (edges into ShapeOf are cut), so they bypass nothing here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from irtools.errors import LocateRefusedError
from irtools.graph.view import GraphView, Source
from irtools.ir.op import RESHAPES

__all__ = ["PASSES_ON", "Stream", "Sum", "ancestors"]

SHAPE_OPS = ("ShapeOf",)
PASSES_ON = RESHAPES | {"Convert", "FakeQuantize", "Clamp"}
"""Value-preserving ops (reshape, convert, clamp)."""
_STEPS = 100
"""Most steps of all walks that read sums, per op; 75 exports of all families take up to 4."""
_SCALES = PASSES_ON | {"Multiply", "Divide", "Transpose", "Add"}  # with one stream operand, an Add is a bias


@dataclass(frozen=True, slots=True)
class Sum:
    """An Add on the residual stream.

    Attributes
    ----------
    op : int
        Layer id of the (outermost) Add.
    skip : int
        The stream value that the branches are added to, before any scaling.
    branches : tuple of int
        The op at the end of each branch.
    inner : tuple of int
        Adds inside a sum of three or more values that nothing else reads.
    """

    op: int
    skip: int
    branches: tuple[int, ...]
    inner: tuple[int, ...] = ()


def ancestors(view: GraphView, start: int) -> set[int]:
    """``start`` and all ops that it is computed from, without constants and shape arithmetic."""
    # `closure` calls a function for each op and takes twice as long: 0.1 s more for 265,000 ops.
    seen, pending = {start}, [start]
    predecessors = view.predecessors  # not `pred[op]`, which makes an object for each op
    while pending:
        op = pending.pop()
        if view.op_type(op) in SHAPE_OPS:
            continue
        for source in predecessors(op):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return seen


def _descendants(view: GraphView, roots: Iterable[int], within: Collection[int]) -> set[int]:
    seen = set(roots)  # by hand for the same reason as in `ancestors`
    pending = list(seen)
    successors = view.successors
    while pending:
        for target in successors(pending.pop()):
            if target not in seen and target in within and view.op_type(target) not in SHAPE_OPS:
                seen.add(target)
                pending.append(target)
    return seen


class _UnreadError(Exception):
    """An Add has to be read before another one."""

    def __init__(self, add: int) -> None:
        super().__init__(add)
        self.add = add


class Stream:
    """The subgraph between the embeddings and the value that the lm_head reads.

    Parameters
    ----------
    view : GraphView
    roots : iterable of int
        Layer ids of the embeddings.
    end : Source
        The value that the lm_head reads.
    within : set of int
        Ancestors of that value; see :func:`ancestors`.
    """

    def __init__(self, view: GraphView, roots: Iterable[int], end: Source, within: set[int]) -> None:
        self.view = view
        self.roots = frozenset(roots)
        self.end = end
        self.ops = _descendants(view, self.roots, within) & within
        ops = self.ops
        self.sources: dict[int, tuple[int, ...]] = {
            op: () if op in self.roots else tuple([source for source in view.predecessors(op) if source in ops])
            for op in ops
        }
        self.rank = view.rank
        self._left = _STEPS * (len(ops) + 10_000)
        self._residuals: dict[int, Sum | None] = {}
        self._read_all = False
        self._meeting_points: dict[int, int] = {}
        self._carriers: dict[int, int] = {}

    @cached_property
    def consumers(self) -> Counter[int]:
        """Number of ops of the stream that read each op."""
        return Counter(chain.from_iterable(self.sources.values()))

    def _spend(self, steps: int) -> None:
        """Count the steps of a walk; without a limit, thousands of Adds on one path would take quadratic time.

        Raises
        ------
        LocateRefusedError
            All walks together took too many steps.
        """
        self._left -= steps
        if self._left < 0:
            raise LocateRefusedError(
                f"the sums between the embeddings and the lm_head cannot be read in {_STEPS} steps per op, so this is "
                "not a decoder stack; give the directory of an export of a decoder-only language model"
            )

    def meeting_point(self, op: int) -> int:
        """The nearest op at or above ``op`` that does not read exactly one value of the stream."""
        passed = []
        while op not in self._meeting_points and len(self.sources[op]) == 1:
            passed.append(op)
            op = self.sources[op][0]
        point = self._meeting_points.get(op, op)
        self._meeting_points.update(dict.fromkeys(passed, point))
        return point

    def depends(self, op: int, on: int) -> bool:
        """True if ``op`` is ``on`` or is computed from it."""
        # Not `closure`: the walk stops at `on`.
        floor, rank = self.rank[on], self.rank
        seen, pending = {op}, [op]
        while pending:
            current = pending.pop()
            if current == on:
                break
            for source in self.sources[current]:
                if source not in seen and rank[source] >= floor:
                    seen.add(source)
                    pending.append(source)
        self._spend(len(seen))
        return on in seen

    def above(self, op: int) -> int | None:
        """The nearest op on every path from the embeddings to ``op``; None at a root."""
        # All paths are followed back, latest value first, until they meet in one op.
        rank = self.rank
        pending = [(-rank[source], source) for source in self.sources[op]]
        heapq.heapify(pending)
        seen = set(self.sources[op])
        found = None
        while pending:
            _, current = heapq.heappop(pending)
            if not pending:
                found = current
                break
            if not self.sources[current]:
                break  # a root, while other paths are still open
            for source in self.sources[current]:
                if source not in seen:
                    seen.add(source)
                    heapq.heappush(pending, (-rank[source], source))
        self._spend(len(seen))
        return found

    def terms(self, add: int) -> tuple[list[int], list[int]]:
        """The terms of an Add on the stream, and the nested Adds that only it reads, which are split into terms."""
        terms: list[int] = []
        inner: list[int] = []
        pending = self._operands(add)[::-1]
        while pending:
            op = pending.pop()
            nested = self._only_for_us(op)
            if nested is None:
                terms.append(op)
            else:
                inner.append(nested)
                pending += self._operands(nested)[::-1]
        self._spend(len(terms))
        return terms, inner

    def _operands(self, add: int) -> list[int]:
        return [source for source in self.view.producers(add) if source in self.ops]

    def _only_for_us(self, op: int) -> int | None:
        """The Add of two stream values that ``op`` is, or whose value it preserves, if nothing else reads it."""
        while self.consumers[op] == 1:
            if self.view.op_type(op) == "Add" and len(self.sources[op]) > 1:
                return op
            if self.view.op_type(op) not in PASSES_ON or not self.sources[op]:
                return None
            op = self.sources[op][0]
            self._spend(1)
        return None

    def unscaled(self, op: int) -> list[int]:
        """``op`` and the same value before scaling and reshapes, nearest first."""
        ops = [op]
        while len(self.sources[op]) == 1 and self.view.op_type(op) in _SCALES:
            op = self.sources[op][0]
            ops.append(op)
        self._spend(len(ops))
        return ops

    def residual(self, add: int) -> Sum | None:
        """Read an Add as a residual sum; None unless all other operands are computed from one of them."""
        if self.view.op_type(add) != "Add" or len(self.sources.get(add, ())) < 2:
            return None
        self._read_from_below()
        self._resolve(add)
        return self._residuals[add]

    def _resolve(self, add: int) -> None:
        """Read an Add, and before it those whose results it needs: a chain of them can be as deep as the graph."""
        pending = [add]
        while pending:
            current = pending[-1]
            try:
                if current not in self._residuals:
                    self._residuals[current] = self._read(current)
                pending.pop()
            except _UnreadError as needed:
                pending.append(needed.add)

    def _read_from_below(self) -> None:
        """Read all Adds once, in topological order, except those that only another Add reads."""
        if self._read_all:
            return
        self._read_all = True
        adds = [op for op in self.view.by_type.get("Add", ()) if len(self.sources.get(op, ())) > 1]
        serving = {source for add in adds for source in self.sources[add] if self.consumers[source] == 1}
        for add in sorted(set(adds) - serving, key=self.rank.__getitem__):
            self._resolve(add)

    def _read(self, add: int) -> Sum | None:
        for base, others in self._bases(self._operands(add)):
            if all(self._carries(other, base) for other in others):
                self._carriers[add] = others[0]
                return None
        terms, inner = self.terms(add)
        for base, others in self._bases(terms):
            if all(base not in self.unscaled(other) and self.depends(other, base) for other in others):
                return Sum(add, base, tuple(others), tuple(inner))
        return None

    def _bases(self, terms: list[int]) -> Iterator[tuple[int, list[int]]]:
        """Each value that an operand may be a scaled form of, with the other operands; earliest operand first."""
        for term in sorted(terms, key=self.rank.__getitem__):
            others = [other for other in terms if other != term]
            for base in self.unscaled(term) if others else ():
                yield base, others

    def carrier(self, add: int) -> int | None:
        """The operand that carries the stream at an Add that mixes in an earlier value; None at other ops.

        Such an Add ends no block: the embeddings are mixed into every layer, or a skip connection spans several layers.
        The carrying operand is the one whose residual sums lead back to the other operand.
        """
        self.residual(add)
        return self._carriers.get(add)

    def _carries(self, op: int, back_to: int) -> bool:
        """True if ``op`` is a residual sum whose skips lead back to an earlier value."""
        hops, current = 0, op
        while self.rank[current] >= self.rank[back_to]:
            bases = self.unscaled(current)
            if hops and back_to in bases:
                return True
            steps = [step for base in bases if (step := self._upstream(base)) is not None]
            if not steps and hops:
                steps = [step for step in (self.above(current),) if step is not None]
            if not steps:
                return False
            hops, current = hops + 1, steps[0]
        return False

    def _upstream(self, op: int) -> int | None:
        """The stream value that a residual sum, or an Add that mixes in an earlier value, continues from."""
        if self.view.op_type(op) == "Add" and len(self.sources[op]) > 1 and op not in self._residuals:
            raise _UnreadError(op)
        residual = self._residuals.get(op)
        return residual.skip if residual is not None else self._carriers.get(op)

    def same_value(self, op: int) -> list[int]:
        """``op`` and the ops below it that keep its elements and their order, such as Reshape."""
        ops, seen = [op], {op}
        for current in ops:  # the loop appends to it
            for target in self.view.successors(current):
                if (
                    target in self.ops
                    and self.view.op_type(target) in RESHAPES
                    and self.view.producers(target)[0] == current
                    and target not in seen
                ):
                    seen.add(target)
                    ops.append(target)
        return ops
