"""Pair the ops of two graphs: by name where names are unique and the graphs around them agree, else by structure.

The structural part is Weisfeiler-Lehman colour refinement. The first colour of an op is its label; each round
combines the colour of an op with the colours of its neighbours. Ops of equal colour are paired, those
with the largest equal neighbourhood first, and each pair spreads along the edges. An op near an edit
has a counterpart only in an earlier round, whose colours cover a smaller neighbourhood.

The hashes of networkx (``weisfeiler_lehman_subgraph_hashes``) ignore input indices, and take 0.1 ms
per op and round; interned tuples take 3 microseconds.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from irtools.compare.identical import Identical
from irtools.compare.labels import COMMUTATIVE, Graph, Palette

__all__ = ["Alignment", "generated_name"]

_GENERATED = re.compile(r"([A-Za-z]\w*?)_\d+(?:[/.]\w+)?")

_ROUNDS = 6
_BRIDGE = 4
"""Maximum number of edges between a pair and the next one, over ops that one side lacks."""
_Colours = tuple[dict[int, int], dict[int, int]]
_Label = Callable[[Graph, int], int]


def generated_name(name: str) -> str | None:
    """The part before the number of a name that OpenVINO generated; None for other names."""
    match = _GENERATED.fullmatch(name)
    return match[1] if match else None


def _unique_names(graph: Graph, ops: Collection[int]) -> dict[str, int]:
    names = [graph.view.op_name(op) for op in ops]
    counts = Counter(names)
    return {
        name: op for name, op in zip(names, ops, strict=True) if counts[name] == 1 and not _GENERATED.fullmatch(name)
    }


@dataclass(eq=False)
class Alignment:
    """Pairs of ops: ``to_b`` maps an op of ``a`` to its counterpart, ``to_a`` the reverse; ``identical`` ops."""

    a: Graph
    b: Graph
    palette: Palette
    to_b: dict[int, int] = field(default_factory=dict)
    to_a: dict[int, int] = field(default_factory=dict)
    identical: Identical = field(default_factory=Identical)

    def same(self, ops_a: Collection[int], ops_b: Collection[int]) -> None:
        """Pair the identical ops of a region."""
        ops = self.identical.ops.intersection(ops_a).intersection(ops_b)
        for op in ops - self.to_b.keys() - self.to_a.keys():
            self.pair(op, op)

    def unchanged(self, op: int) -> bool:
        """True if an op and its producers are identical, and paired with themselves."""
        same = self.identical
        return op in same.ops and all(
            source in same.constants or (source in same.ops and self.corresponds(source, source))
            for source in self.a.view.producers(op)
        )

    def pair(self, one: int, other: int) -> None:
        """Record a pair."""
        self.to_b[one] = other
        self.to_a[other] = one

    def corresponds(self, one: int, other: int) -> bool:
        """True if two ops are a pair."""
        return self.to_b.get(one, -1) == other

    def names(self, ops_a: Collection[int], ops_b: Collection[int]) -> None:
        """Pair ops of one type whose names are unique on both sides, if their surroundings agree.

        Names that OpenVINO or an exporter numbered anew, or that were exchanged, have other neighbours: at least half
        of the named neighbours must be the same, and all of them if the ops compute different things.
        """
        named_a, named_b = _unique_names(self.a, ops_a), _unique_names(self.b, ops_b)
        like = {
            op: named_b[name]
            for name, op in named_a.items()
            if (other := named_b.get(name)) is not None
            and ((op not in self.to_b and other not in self.to_a) or self._is_same(op, other))
            and self.a.view.op_type(op) == self.b.view.op_type(other)
        }
        back = {other: op for op, other in like.items()}
        around = {op: self._named_neighbours(op, other, like, back) for op, other in like.items()}
        pending, dropped = deque(like), set[int]()
        while pending:
            op = pending.popleft()
            same, most = around[op]
            agreeing = len(same - dropped)
            if op in dropped or agreeing == most or self._is_same(op, like[op]):
                continue
            if 2 * agreeing < most or self.a.fine(op) != self.b.fine(like[op]):
                dropped.add(op)
                pending += same - dropped  # they have a neighbour less
        for one, other in like.items():
            if one not in dropped:
                self.pair(one, other)

    def _is_same(self, one: int, other: int) -> bool:
        return one == other and one in self.identical.ops and self.corresponds(one, other)

    def _named_neighbours(
        self, one: int, other: int, like: dict[int, int], back: dict[int, int]
    ) -> tuple[set[int], int]:
        """Neighbours in ``a`` that have the same name in ``b``, and the larger number of named neighbours."""
        first, second = ({*graph.view.pred[op], *graph.view.succ[op]} for graph, op in ((self.a, one), (self.b, other)))
        near_a, near_b = first & like.keys(), {back[op] for op in second & back.keys()}
        return near_a & near_b, max(len(near_a), len(near_b))

    def region(
        self,
        ops_a: Collection[int],
        ops_b: Collection[int],
        *,
        anchors: Iterable[tuple[int, int]] = (),
        certain: bool = False,
    ) -> None:
        """Pair ops of a region.

        Parameters
        ----------
        ops_a, ops_b : collection of int
            Non-constant ops in topological order; paired ops are skipped.
        anchors : iterable of (int, int)
            Ops of the same role, which are paired if their types are equal.
        certain : bool
            Pair only ops of a unique colour. Pairs in other regions may separate the other ops later.
        """
        left_a = {op: place for place, op in enumerate(ops_a) if op not in self.to_b}
        left_b = {op: place for place, op in enumerate(ops_b) if op not in self.to_a}
        self._descend(left_a, left_b, Graph.fine, certain=certain)
        if certain or not (left_a and left_b):
            return
        self._spread([pair for pair in anchors if self._same_kind(*pair, left_a, left_b)], left_a, left_b)
        self._descend(left_a, left_b, Graph.coarse)
        self._bridge(left_a, left_b)
        self._replaced(left_a, left_b)

    def _descend(self, left_a: dict[int, int], left_b: dict[int, int], label: _Label, *, certain: bool = False) -> None:
        """Pair ops by colour, from the largest surroundings to the smallest."""
        rounds = self._refine(left_a, left_b, label) if left_a and left_b else []
        while rounds and left_a and left_b:
            colours = rounds.pop()
            # Without its neighbourhood, an op is identified only if its label is unique.
            self._match(colours, left_a, left_b, lone=certain or not rounds)

    # -- colours -----------------------------------------------------------------------

    def _refine(self, left_a: dict[int, int], left_b: dict[int, int], label: _Label) -> list[_Colours]:
        """Colours of each round, the coarsest first."""
        sides = ((self.a, left_a), (self.b, left_b))
        first, second = ({op: label(graph, op) for op in left} for graph, left in sides)
        rounds: list[_Colours] = [(first, second)]
        kinds = len({*first.values(), *second.values()})
        for _ in range(_ROUNDS):
            first, second = (
                {op: self._colour(graph, op, colours) for op in colours}
                for (graph, _), colours in zip(sides, rounds[-1], strict=True)
            )
            rounds.append((first, second))
            before, kinds = kinds, len({*first.values(), *second.values()})
            if kinds == before:
                break  # a further round would separate no more ops
        return rounds

    def _colour(self, graph: Graph, op: int, colours: dict[int, int]) -> int:
        view = graph.view
        inputs: list[tuple[object, ...]] = []
        for source, port in view.inputs(op):
            if source in colours:
                inputs.append(("in", colours[source], port))
            elif view.constant(source):
                inputs.append(("constant",))
            else:
                inputs.append(("pair", self._number(graph, source), port))
        if view.op_type(op) in COMMUTATIVE:
            inputs.sort(key=repr)
        paired = self.to_b if graph is self.a else self.to_a
        outputs: list[tuple[object, ...]] = []
        for consumer, index, port in graph.readers(op):
            if consumer in colours:
                outputs.append(("in", colours[consumer], index, port))
            elif consumer in paired:
                outputs.append(("pair", self._number(graph, consumer), index, port))
        outputs.sort()
        return self.palette((colours[op], tuple(inputs), tuple(outputs)))

    def _number(self, graph: Graph, op: int) -> int:
        """Number of a pair, equal on both sides; an unpaired op has the number of its type."""
        one = op if graph is self.a else self.to_a.get(op)
        if one is None or one not in self.to_b:
            return self.palette(("unpaired", graph.view.op_type(op)))
        return self.palette(("paired", one))

    # -- pairs -------------------------------------------------------------------------

    def _match(self, colours: _Colours, left_a: dict[int, int], left_b: dict[int, int], *, lone: bool) -> None:
        """Pair ops of equal colour, the rarest colours first; with ``lone``, only ops of a unique colour."""
        classes: dict[int, tuple[list[int], list[int]]] = {}
        for side, (by_op, left) in enumerate(zip(colours, (left_a, left_b), strict=True)):
            for op, colour in by_op.items():
                if op in left:
                    classes.setdefault(colour, ([], []))[side].append(op)
        even = [ops for ops in classes.values() if len(ops[0]) == len(ops[1])]
        for first, second in sorted(even, key=lambda ops: len(ops[0])):
            if lone and len(first) > 1:
                break
            named = {self.b.view.op_name(op): op for op in second}
            order = sorted(first, key=lambda op: self.a.view.op_name(op) not in named)
            for one in order:
                if one not in left_a:
                    continue  # already paired along an edge
                other = named.get(self.a.view.op_name(one))
                if other not in left_b:
                    free = [op for op in second if op in left_b]
                    twins = [op for op in free if self.b.widths(op) == self.a.widths(one)]
                    other = next(iter(twins or free), None)
                if other is not None:
                    self._spread([(one, other)], left_a, left_b)

    def _same_kind(self, one: int, other: int, left_a: dict[int, int], left_b: dict[int, int]) -> bool:
        return one in left_a and other in left_b and self.a.coarse(one) == self.b.coarse(other)

    def _spread(
        self, starts: Iterable[tuple[int, int]], left_a: dict[int, int], left_b: dict[int, int]
    ) -> list[tuple[int, int]]:
        """Record pairs, and follow the edges from them while the counterpart is unambiguous; return the pairs."""
        pairs: list[tuple[int, int]] = []
        pending = deque(starts)
        while pending:
            one, other = pending.popleft()
            if not self._same_kind(one, other, left_a, left_b):
                continue
            self.pair(one, other)
            pairs.append((one, other))
            del left_a[one], left_b[other]
            pending += self._operands(one, other)
            pending += self._readers(one, other, left_a, left_b)
        return pairs

    def _operands(self, one: int, other: int) -> Iterable[tuple[int, int]]:
        first, second = self.a.view.producers(one), self.b.view.producers(other)
        if self.a.view.op_type(one) not in COMMUTATIVE:
            return zip(first, second, strict=False)
        sides = ((self.a, first), (self.b, second))
        by_label = [{graph.coarse(op): op for op in sources} for graph, sources in sides]
        clear = len(by_label[0]) == len(first) and len(by_label[1]) == len(second)
        return [(op, by_label[1][label]) for label, op in by_label[0].items() if clear and label in by_label[1]]

    def _readers(
        self, one: int, other: int, left_a: dict[int, int], left_b: dict[int, int]
    ) -> Iterable[tuple[int, int]]:
        sides = ((self.a, one, left_a), (self.b, other, left_b))
        groups: list[dict[tuple[int, ...], list[int]]] = [{}, {}]
        for group, (graph, op, left) in zip(groups, sides, strict=True):
            for reader, index, port in graph.readers(op):
                if reader in left:
                    group.setdefault((graph.coarse(reader), index, port), []).append(reader)
        return [
            (readers[0], groups[1][key][0])
            for key, readers in groups[0].items()
            if len(readers) == len(groups[1].get(key, ())) == 1
        ]

    def _bridge(self, left_a: dict[int, int], left_b: dict[int, int]) -> None:
        """Spread from pairs across unpaired ops to the nearest ops of equal label."""
        pending = deque(self.to_b.items() if left_a and left_b else ())
        while pending:
            one, other = pending.popleft()
            for down in (True, False):
                near_a = self._near(self.a, one, left_a, down=down)
                near_b = self._near(self.b, other, left_b, down=down) if near_a else {}
                common = [
                    (near_a[label][0] + near_b[label][0], near_a[label][1], near_b[label][1])
                    for label in near_a.keys() & near_b.keys()
                ]
                if common and (pairs := self._spread([min(common)[1:]], left_a, left_b)):
                    pending += [*pairs, (one, other)]

    @staticmethod
    def _near(graph: Graph, op: int, left: dict[int, int], *, down: bool) -> dict[int, tuple[int, int]]:
        """Distance and op by label: the nearest unpaired ops that are reached over unpaired ops.

        A label counts only if it is unique at its distance.
        """
        near: dict[int, tuple[int, int]] = {}
        seen, level = {op}, [op]
        for distance in range(1, _BRIDGE + 1):
            after: dict[int, None] = {}
            for current in level:
                step = graph.view.succ[current] if down else graph.view.pred[current]
                after.update((neighbour, None) for neighbour in step if neighbour in left and neighbour not in seen)
            level = list(after)
            seen.update(level)
            counts = Counter(map(graph.coarse, level))
            near |= {
                label: (distance, neighbour)
                for neighbour in level
                if counts[label := graph.coarse(neighbour)] == 1 and label not in near
            }
        return near

    def _replaced(self, left_a: dict[int, int], left_b: dict[int, int]) -> None:
        """Pair ops of different types with the same operands and the same readers."""
        places: dict[tuple[object, ...], list[int]] = {}
        for op in left_b:
            if (place := self._place(self.b, op)) is not None:
                places.setdefault(place, []).append(op)
        for op in list(left_a):
            place = self._place(self.a, op)
            others = places.get(place, []) if place is not None else []
            if len(others) == 1 and others[0] in left_b:
                self.pair(op, others[0])
                del left_a[op], left_b[others[0]]

    def _place(self, graph: Graph, op: int) -> tuple[object, ...] | None:
        """Pair numbers of the operands and readers of an op; None if one of them is unpaired."""
        view, paired = graph.view, self.to_b if graph is self.a else self.to_a
        sources = [source for source in view.producers(op) if not view.constant(source)]
        readers = sorted({consumer.op for consumer in view.consumers(op)})
        if not sources or not readers or not all(other in paired for other in (*sources, *readers)):
            return None
        numbers = [self._number(graph, reader) for reader in readers]
        return (*(self._number(graph, source) for source in sources), "->", *sorted(numbers))
