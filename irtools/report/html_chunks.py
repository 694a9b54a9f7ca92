"""Division of a large graph for a page: what the closed boxes need, and the inside of each box, read when it is opened.

A value that passes between two boxes is known without opening them: its producer and its readers, the border of
the boxes, belong to what is read at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irtools.report.html_graph import COLUMNS
from irtools.report.html_outline import Node

__all__ = ["Division", "divide"]

_WHOLE = 6000
"""Ops of the largest graph that is read at once."""
_LARGEST, _SMALLEST = 8192, 24
"""Ops of the boxes whose inside is read separately."""


@dataclass(frozen=True, slots=True)
class Division:
    """Data of one graph for a page.

    Attributes
    ----------
    first : mapping
        What is read at once.
    chunks : iterable of mapping
        The insides of boxes, each made when it is taken: together they are as large as the graph.
    index : mapping or None
        Name, type, id and chunk of every op, and the boxes in chunks, for the search; None if ``first`` has everything.
    """

    first: Mapping[str, Any]
    chunks: Iterable[Mapping[str, Any]] = ()
    index: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Cut:
    """A box whose inside is a chunk of its own, its number in the order of the tree, and its JSON form."""

    node: Node
    number: int
    plain: dict[str, Any]

    def titles(self) -> Iterator[tuple[int, str, str]]:
        """Number, title and first line of each box inside."""
        for number, node in enumerate(self.node.walk(), self.number):
            if number > self.number and node.title and node.op is None:
                yield number, node.title, node.lines[0] if node.lines else ""


def divide(data: Mapping[str, Any], nodes: Sequence[Node], pinned: Collection[int]) -> Division:
    """Divide a graph; a small one stays whole.

    Parameters
    ----------
    data : mapping
        Columns and tables, as :func:`irtools.report.html_graph.columns` makes them.
    nodes : sequence of Node
        The outermost boxes.
    pinned : collection of int
        Positions of ops that are needed at once, such as those of findings.
    """
    count = len(data["names"])
    if count <= _WHOLE:
        return Division({"ops": data, "outline": [node.plain() for node in nodes]})
    cuts: list[_Cut] = []
    numbers = itertools.count(1)  # 0 is the box around all
    outline = [_cut(node, cuts, numbers, data) for node in nodes]
    homes = _homes(data, cuts)
    border = _border(data, homes).union(op for op in pinned if homes[op] >= 0)
    inside: list[list[int]] = [[] for _ in cuts]
    for op, home in enumerate(homes):
        if home >= 0:
            (cuts[home].plain["b"] if op in border else inside[home]).append(op)
    names = Counter(data["names"])
    ops = _columns(data, [op for op, home in enumerate(homes) if home < 0 or op in border])
    first = {
        "ops": ops | {"count": count, "bodies": data["bodies"]},
        "outline": outline,
        "twins": [op for op, name in enumerate(data["names"]) if names[name] > 1],
        "spread": _spread(data, homes),
    }
    chunks = (
        {"ops": _columns(data, own), "c": [child.plain() for child in cut.node.children]}
        for cut, own in zip(cuts, inside, strict=True)
    )
    words: dict[int, int] = {}
    index = {
        "names": data["names"],
        "ids": data["ids"],
        "types": [words.setdefault(kind, len(words)) for kind in data["types"]],
        "words": [data["words"][kind] for kind in words],
        "homes": homes,
        "titles": [title for cut in cuts for title in cut.titles()],
    }
    return Division(first, chunks, index)


def _cut(node: Node, cuts: list[_Cut], numbers: Iterator[int], data: Mapping[str, Any]) -> Any:
    """JSON form of a box in which the insides of boxes are left out; adds these boxes to ``cuts``."""
    number = next(numbers)
    if not node.children:
        return node.plain()
    inner = list(node.walk())
    own = Node(node.title, node.kind, node.lines, (), node.op, node.flow, node.layer).plain()
    plain: dict[str, Any] = own if isinstance(own, dict) else {"o": own}
    types = [data["types"][one.op] for one in inner if one.op is not None]
    if node.op is None and not node.flow and _SMALLEST <= len(types) <= _LARGEST:
        counts = Counter(data["words"][kind] for kind in types)
        plain |= {"z": len(cuts), "m": len(inner) - 1, "b": [], "y": list(counts.items())}
        cuts.append(_Cut(node, number, plain))
        next(itertools.islice(numbers, len(inner) - 2, None), None)
    else:
        plain["c"] = [_cut(child, cuts, numbers, data) for child in node.children]
    return plain


def _spread(data: Mapping[str, Any], homes: Sequence[int]) -> list[list[int]]:
    """Constants that are read at once although chunks have readers of them, each with these chunks."""
    chunks: dict[int, set[int]] = {}
    for reader, inputs in enumerate(data["inputs"]):
        for source in inputs[::3]:
            if source >= 0 and homes[source] < 0 <= homes[reader] and data["constant"][source]:
                chunks.setdefault(source, set()).add(homes[reader])
    return [[op, *sorted(own)] for op, own in sorted(chunks.items())]


def _homes(data: Mapping[str, Any], cuts: Sequence[_Cut]) -> list[int]:
    """Chunk of each op, -1 for those that are read at once; a constant is where all its readers are."""
    count, constant, inputs = len(data["names"]), data["constant"], data["inputs"]
    homes: list[int | None] = [None if constant[op] else -1 for op in range(count)]
    for number, cut in enumerate(cuts):
        for node in cut.node.walk():
            if node.op is not None:
                homes[node.op] = number
    for reader in range(count - 1, -1, -1):  # the file has the readers of a constant after it
        home = homes[reader]
        for source in inputs[reader][::3]:
            if source >= 0 and constant[source]:
                known = homes[source]
                homes[source] = home if known is None else known if known == home else -1
    return [-1 if home is None else home for home in homes]


def _border(data: Mapping[str, Any], homes: Sequence[int]) -> set[int]:
    """Ops of chunks whose values pass between chunks, or to and from what is read at once."""
    border: set[int] = set()
    constant = data["constant"]
    for reader, inputs in enumerate(data["inputs"]):
        for source in inputs[::3]:
            if source >= 0 and homes[source] != homes[reader] and not constant[source]:
                border.update(op for op in (source, reader) if homes[op] >= 0)
    return border


def _columns(data: Mapping[str, Any], ops: Sequence[int]) -> dict[str, Any]:
    """Columns of some ops, with tables of their own."""
    part: dict[str, Any] = {"at": ops} | {name: [data[name][op] for op in ops] for name in COLUMNS}
    words: dict[int, int] = {}
    pairs: dict[int, int] = {}
    ports: dict[int, int] = {}

    def port(number: int) -> int:
        return number if number < 0 else ports.setdefault(number, len(ports))

    for name, table in (("types", words), ("opsets", words), ("attributes", pairs), ("rt_info", pairs)):
        part[name] = [table.setdefault(number, len(table)) for number in part[name]]
    part["inputs"] = [_replaced(flat, 3, port) for flat in part["inputs"]]
    known: dict[tuple[int, ...], list[int]] = {}  # most ops have the outputs of another
    for flat in part["outputs"]:
        if flat not in known:
            known[flat] = [
                words.setdefault(value, len(words)) if place % 2 else port(value) for place, value in enumerate(flat)
            ]
    part["outputs"] = [known[flat] for flat in part["outputs"]]
    for name, table in (("words", words), ("pairs", pairs), ("ports", ports)):
        part[name] = [data[name][number] for number in table]
    return part


def _replaced(values: Sequence[int], step: int, number: Callable[[int], int]) -> list[int]:
    """The values, with every ``step``-th of them numbered anew."""
    own = list(values)
    own[step - 1 :: step] = map(number, own[step - 1 :: step])
    return own
