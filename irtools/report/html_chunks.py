"""Division of a large graph for a page: what the closed boxes need, and the inside of each box, read when it is opened.

A value that passes between two boxes is known without opening them: its producer and its readers, the border of
the boxes, belong to what is read at once.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any

from irtools.report.html_graph import Columns
from irtools.report.html_outline import Box, Node, plain, walk

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
    """A box whose inside is a chunk of its own.

    Attributes
    ----------
    plain : dict
        Its JSON form.
    ops : list of int
        Positions of the ops in it.
    titles : list of tuple
        Number, title and first line of each box inside.
    """

    node: Node
    plain: dict[str, Any]
    ops: list[int]
    titles: list[tuple[int, str, str]]


def divide(data: Columns, nodes: Sequence[Box], pinned: Collection[int]) -> Division:
    """Divide a graph; a small one stays whole.

    Parameters
    ----------
    nodes : sequence of Box
        The outermost boxes.
    pinned : collection of int
        Positions of ops that are needed at once, such as those of findings.
    """
    count = len(data.names)
    bodies = [[body.owner, body.name, body.ops.start, body.ops.stop] for body in data.bodies]
    if count <= _WHOLE:
        ops = _piece(data, range(count), {*data.forms})
        return Division({"ops": ops | {"bodies": bodies}, "outline": list(map(plain, nodes))})
    cuts: list[_Cut] = []
    numbers = itertools.count(1)  # 0 is the box around all
    outline = [_cut(node, cuts, numbers, data) for node in nodes]
    homes = _homes(data, cuts)
    border, spread = _border(data, homes)
    border.update(op for op in pinned if homes[op] >= 0)
    inside: list[list[int]] = [[] for _ in cuts]
    first: list[int] = []
    for op, home in enumerate(homes):
        if home < 0:
            first.append(op)
        elif op in border:
            cuts[home].plain["b"].append(op)
            first.append(op)
        else:
            inside[home].append(op)
    own = [set(map(data.forms.__getitem__, ops)) for ops in inside]
    users = Counter(itertools.chain.from_iterable(own))
    shared = {form for form, number in users.items() if number > 1}.union(data.forms[op] for op in first)
    names = Counter(data.names) if len({*data.names}) < count else None
    start = {
        "ops": _piece(data, first, shared) | {"count": count, "bodies": bodies},
        "outline": outline,
        "twins": [op for op, name in enumerate(data.names) if names[name] > 1] if names else [],
        "spread": spread,
    }
    chunks = (
        {"ops": _piece(data, ops, forms - shared), "c": list(map(plain, cut.node.children))}
        for cut, ops, forms in zip(cuts, inside, own, strict=True)
    )
    words: dict[str, int] = {}
    index = {
        "names": data.names,
        "ids": data.ids,
        "types": [words.setdefault(kind, len(words)) for kind in data.types],
        "words": list(words),
        "homes": homes,
        "titles": [title for cut in cuts for title in cut.titles],
    }
    return Division(start, chunks, index)


def _cut(box: Box, cuts: list[_Cut], numbers: Iterator[int], data: Columns) -> Any:
    """JSON form of a box in which the insides of boxes are left out; adds these boxes to ``cuts``."""
    number = next(numbers)
    if isinstance(box, int) or not box.children:
        return plain(box)
    own = plain(box._replace(children=()))
    content: dict[str, Any] = own if isinstance(own, dict) else {"o": own}
    inner = list(walk(box)) if box.op is None and not box.flow else []
    ops = [op for one in inner if (op := one if isinstance(one, int) else one.op) is not None]
    if _SMALLEST <= len(ops) <= _LARGEST:
        counts = Counter(map(data.types.__getitem__, ops))
        content |= {"z": len(cuts), "m": len(inner) - 1, "b": [], "y": list(counts.items())}
        titles = [
            (number + place, one.title, one.lines[0] if one.lines else "")
            for place, one in enumerate(inner)
            if place and not isinstance(one, int) and one.title and one.op is None
        ]
        cuts.append(_Cut(box, content, ops, titles))
        next(itertools.islice(numbers, len(inner) - 2, None), None)
    else:
        content["c"] = [_cut(child, cuts, numbers, data) for child in box.children]
    return content


def _homes(data: Columns, cuts: Sequence[_Cut]) -> list[int]:
    """Chunk of each op, -1 for those that are read at once; a constant is where all its readers are."""
    constant, sources = data.constant, data.sources
    homes: list[int | None] = [None if own == "1" else -1 for own in constant]
    for number, cut in enumerate(cuts):
        for op in cut.ops:
            homes[op] = number
    for reader in range(len(sources) - 1, -1, -1):  # the file has the readers of a constant after it
        home = homes[reader]
        for source in sources[reader]:
            if source >= 0 and constant[source] == "1":
                known = homes[source]
                homes[source] = home if known is None else known if known == home else -1
    return [-1 if home is None else home for home in homes]


def _border(data: Columns, homes: Sequence[int]) -> tuple[set[int], list[list[int]]]:
    """What passes between chunks, or to and from what is read at once.

    Returns
    -------
    set of int
        Ops of chunks with such a value as output or input, constants aside.
    list of list of int
        Constants that are read at once although chunks have readers of them, each with these chunks.
    """
    border: set[int] = set()
    chunks: dict[int, set[int]] = {}
    for reader, sources in enumerate(data.sources):
        home = homes[reader]
        for source in sources:
            if source < 0 or homes[source] == home:
                continue
            if data.constant[source] == "0":
                border.update(op for op in (source, reader) if homes[op] >= 0)
            elif homes[source] < 0:
                chunks.setdefault(source, set()).add(home)
    return border, [[op, *sorted(own)] for op, own in sorted(chunks.items())]


def _piece(data: Columns, ops: Sequence[int], forms: Iterable[int]) -> dict[str, Any]:
    """Columns of some ops, and some forms.

    Positions, lines and sources are differences: from the op before in the list, and from the op itself.
    """
    sources, picks = data.sources, data.picks
    ids = [data.ids[op] for op in ops]
    lines = [data.lines[op] for op in ops]
    return {
        "at": _steps(ops),
        "names": [data.names[op] for op in ops],
        **({"ids": ids} if ids != list(ops) else {}),
        "lines": _steps(lines),
        "forms": [data.forms[op] for op in ops],
        "table": [[form, data.table[form]] for form in sorted(forms)],
        "sources": [op - source for op in ops for source in sources[op]],
        "picks": [[row, *picks[op]] for row, op in enumerate(ops) if op in picks] if picks else [],
        "offsets": [data.offsets[op] for op in ops if op in data.offsets],
        "tensors": [data.tensors[op] for op in ops if op in data.tensors],
        "constant": "".join([data.constant[op] for op in ops]),
    }


def _steps(values: Sequence[int]) -> list[int]:
    """The first value, and the difference of each other one to the one before it."""
    return [*values[:1], *map(sub, values[1:], values)]
