"""Pair the ops of two graphs by structure.

Colour refinement in the manner of Weisfeiler and Lehman: the colour of an op is its label, then
again and again its colour together with those of its neighbours. Ops of equal colour are paired,
those with the largest common surroundings first, and from each pair on along the edges. What an
edit touched has no counterpart of equal colour with it, but one a few edges smaller.

networkx has such hashes too; those do not know which input of an op an edge leads to, and take
0.1 ms per op and round where interned tuples take 3 microseconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable

from irtools.compare.labels import COMMUTATIVE, Graph, Palette

__all__ = ["Alignment"]

_ROUNDS = 6
_BRIDGE = 4
"""Ops in a row that one side may lack."""
_Colours = tuple[dict[int, int], dict[int, int]]
_Label = Callable[[Graph, int], int]


class Alignment:
    """Pairs of ops, grown region by region.

    Parameters
    ----------
    a, b : Graph
    palette : Palette

    Attributes
    ----------
    to_b, to_a : dict of int to int
        The other op of each pair.
    """

    def __init__(self, a: Graph, b: Graph, palette: Palette) -> None:
        self.a = a
        self.b = b
        self.palette = palette
        self.to_b: dict[int, int] = {}
        self.to_a: dict[int, int] = {}

    def pair(self, one: int, other: int) -> None:
        """Record a pair."""
        self.to_b[one] = other
        self.to_a[other] = one

    def corresponds(self, one: int, other: int) -> bool:
        """Whether two ops are a pair."""
        return self.to_b.get(one, -1) == other

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
            Ops that are not constants, in topological order; those in pairs already are left out.
        anchors : iterable of (int, int)
            Pairs that are known, if their types are equal.
        certain : bool
            Only what is equal on both sides and unlike everything else; pairs in other regions may tell
            the rest apart later.
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
            # An op by itself, without its surroundings, is only known when there is no other like it.
            self._match(colours, left_a, left_b, lone=certain or not rounds)

    # -- colours -----------------------------------------------------------------------

    def _refine(self, left_a: dict[int, int], left_b: dict[int, int], label: _Label) -> list[_Colours]:
        """Colours of every round, the coarsest first."""
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
                break  # a further round would tell no more apart
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
        """The same number on both sides for a pair; for others, that of all ops of their type."""
        one = op if graph is self.a else self.to_a.get(op)
        if one is None or one not in self.to_b:
            return self.palette(("unpaired", graph.view.op_type(op)))
        return self.palette(("paired", one))

    # -- pairs -------------------------------------------------------------------------

    def _match(self, colours: _Colours, left_a: dict[int, int], left_b: dict[int, int], *, lone: bool) -> None:
        """Pair ops of equal colour, the rarest colours first; ``lone``: only those that are alone with theirs."""
        classes: dict[int, tuple[list[int], list[int]]] = {}
        for side, (found, left) in enumerate(zip(colours, (left_a, left_b), strict=True)):
            for op, colour in found.items():
                if op in left:
                    classes.setdefault(colour, ([], []))[side].append(op)
        even = [pair for pair in classes.values() if len(pair[0]) == len(pair[1])]
        for first, second in sorted(even, key=lambda pair: len(pair[0])):
            if lone and len(first) > 1:
                break
            named = {self.b.view.op_name(op): op for op in second}
            order = sorted(first, key=lambda op: self.a.view.op_name(op) not in named)
            for one in order:
                if one not in left_a:
                    continue  # paired meanwhile, along an edge
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
        self, known: Iterable[tuple[int, int]], left_a: dict[int, int], left_b: dict[int, int]
    ) -> list[tuple[int, int]]:
        """Record pairs, and go on from them along the edges as long as it is clear what corresponds."""
        found: list[tuple[int, int]] = []
        pending = deque(known)
        while pending:
            one, other = pending.popleft()
            if not self._same_kind(one, other, left_a, left_b):
                continue
            self.pair(one, other)
            found.append((one, other))
            del left_a[one], left_b[other]
            pending += self._operands(one, other)
            pending += self._readers(one, other, left_a, left_b)
        return found

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
        for found, (graph, op, left) in zip(groups, sides, strict=True):
            for reader, index, port in graph.readers(op):
                if reader not in left:
                    continue
                found.setdefault((graph.coarse(reader), index, port), []).append(reader)
        return [
            (readers[0], groups[1][key][0])
            for key, readers in groups[0].items()
            if len(readers) == len(groups[1].get(key, ())) == 1
        ]

    def _bridge(self, left_a: dict[int, int], left_b: dict[int, int]) -> None:
        """Go on from pairs over ops that only one side has, to the nearest ops of equal label behind them."""
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
                found = self._spread([min(common)[1:]], left_a, left_b) if common else []
                pending += found
                if found:
                    pending.append((one, other))

    @staticmethod
    def _near(graph: Graph, op: int, left: dict[int, int], *, down: bool) -> dict[int, tuple[int, int]]:
        """Distance and op by label: what is near an op behind others that are left; only what is alone there."""
        found: dict[int, tuple[int, int]] = {}
        seen, level = {op}, [op]
        for distance in range(1, _BRIDGE + 1):
            after: dict[int, None] = {}
            for current in level:
                step = graph.view.succ[current] if down else graph.view.pred[current]
                after.update((neighbour, None) for neighbour in step if neighbour in left and neighbour not in seen)
            level = list(after)
            seen.update(level)
            counts = Counter(map(graph.coarse, level))
            found |= {
                label: (distance, neighbour)
                for neighbour in level
                if counts[label := graph.coarse(neighbour)] == 1 and label not in found
            }
        return found

    def _replaced(self, left_a: dict[int, int], left_b: dict[int, int]) -> None:
        """Pair ops of different types that stand in the same place: same operands, same readers."""
        places: dict[tuple[object, ...], list[int]] = {}
        for op in left_b:
            place = self._place(self.b, op)
            if place is not None:
                places.setdefault(place, []).append(op)
        for op in list(left_a):
            place = self._place(self.a, op)
            found = places.get(place, []) if place is not None else []
            if len(found) == 1 and found[0] in left_b:
                self.pair(op, found[0])
                del left_a[op], left_b[found[0]]

    def _place(self, graph: Graph, op: int) -> tuple[object, ...] | None:
        """Operands and readers of an op by the numbers of their pairs; None if some have no pair."""
        view, paired = graph.view, self.to_b if graph is self.a else self.to_a
        sources = [source for source in view.producers(op) if not view.constant(source)]
        readers = sorted({consumer.op for consumer in view.consumers(op)})
        if not sources or not readers or not all(other in paired for other in (*sources, *readers)):
            return None
        numbers = [self._number(graph, reader) for reader in readers]
        return (*(self._number(graph, source) for source in sources), "->", *sorted(numbers))
