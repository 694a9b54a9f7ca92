"""Purpose of the ops inside an attention block: queries, keys, values, RoPE, cache, scores, output projection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from irtools.anatomy.blocks import Block
from irtools.decoder.mixers import MIXERS
from irtools.graph.closure import closure
from irtools.graph.view import GraphView

__all__ = ["Role", "attention_roles", "state_ops"]

_JOINS = ("Concat", "ScatterUpdate", "ScatterElementsUpdate", "ScatterNDUpdate")
_PRODUCTS = ("MatMul", "Einsum")
_REORDERS = ("Gather", "Convert", "Reshape", "Slice")


@dataclass(frozen=True, slots=True)
class Role:
    """Ops of an attention block with one purpose.

    Attributes
    ----------
    title : str
        ``Q``, ``K``, ``V``, ``Q, K, V`` (one projection for several), ``RoPE of Q``, ``RoPE of K``, ``Key cache``,
        ``Value cache``, ``Attention``, ``Gate`` or ``Output projection``.
    ops : frozenset of int
        Layer ids.
    """

    title: str
    ops: frozenset[int]


def attention_roles(
    view: GraphView, block: Block, on_stream: Callable[[int], bool], beside: Collection[int] = ()
) -> tuple[Role, ...]:
    """Split an attention block by purpose; empty for other blocks, and for attention that no pattern explains.

    Parameters
    ----------
    on_stream : callable
        True for an op that depends on the token embeddings.
    beside : collection of int
        Ops that read, reorder and write the states of the block.
    """
    mixer = MIXERS.get(block.kind)
    if mixer is None or not mixer.attends or block.match is None or "query" not in block.match.ops:
        return ()
    return _Reader(view, block, on_stream, frozenset(beside)).roles()


def state_ops(view: GraphView, block: Block, ops: Collection[int], inside: Collection[int]) -> set[int]:
    """Ops that read, reorder and write the states of a block, without the ops of its layer (``ops``, ``inside``)."""
    states = {state.op for state in block.states}
    return (_reads(view, states, ops) | _writes(view, states, inside)) - set(ops)


def _reads(view: GraphView, states: Collection[int], ops: Collection[int]) -> set[int]:
    """The states of a layer, and the ops that reorder them by beam before the ops of the layer."""
    return closure(
        states, lambda op: [key for key in view.successors(op) if key not in ops and view.op_type(key) in _REORDERS]
    )


def _writes(view: GraphView, states: Collection[int], inside: Collection[int]) -> set[int]:
    """The ops that write the states of a layer, and the ops between them and the layer."""
    variables = {view.data(key).get("variable_id") for key in states} - {None}
    ops = {key for key in view.by_type.get("Assign", ()) if view.data(key).get("variable_id") in variables}
    above = closure(ops, lambda op: [source for source in view.pred[op] if source not in inside])
    for key in sorted(above, key=view.rank.__getitem__):
        if any(source in inside or source in ops for source in view.pred[key]):
            ops.add(key)
    return ops


class _Reader:
    def __init__(self, view: GraphView, block: Block, on_stream: Callable[[int], bool], beside: frozenset[int]) -> None:
        self.view = view
        self.ops = block.ops
        self.on_stream = on_stream
        self.beside = beside
        self.match = block.match.ops if block.match is not None else {}
        self.anchor = block.match.anchor if block.match is not None else -1

    def roles(self) -> tuple[Role, ...]:
        """The purposes in the order of computation; each op has one."""
        below = self._below([self.anchor]) | {self.anchor}
        paths = {title: self._above([op]) - below for title, op in self._ends().items()}
        found: dict[str, set[int]] = {}
        taken: set[int] = set()

        def take(title: str, ops: Iterable[int]) -> None:
            own = set(ops) - taken
            taken.update(own)
            if own:
                found.setdefault(title, set()).update(own)

        every = set().union(*paths.values())
        common = {op: tuple(title for title, path in paths.items() if op in path) for op in every}
        for titles in sorted({titles for titles in common.values() if len(titles) > 1}, key=len, reverse=True):
            take(", ".join(titles), (op for op, own in common.items() if own == titles))
        for title, path in paths.items():
            rotated = self._rotation(path) if title != "V" else set()
            joined = {op for op in path if self.view.op_type(op) in _JOINS and self._reads_state(op)}
            before = self._before(path, rotated | joined)
            take(title, before)
            take(f"RoPE of {title}", rotated)
            take({"K": "Key cache", "V": "Value cache"}.get(title, "Attention"), joined | self._states(joined))
        output = self._output(below)
        take("Output projection", output)
        gate = self.ops - below - every
        take("Gate", gate if any(self.view.op_type(op) in _PRODUCTS for op in gate) else ())
        take("Attention", self.ops)
        rank = self.view.rank
        ordered = sorted(found.items(), key=lambda item: min(rank[op] for op in item[1]))
        return tuple(Role(title, frozenset(ops)) for title, ops in ordered)

    def _ends(self) -> Mapping[str, int]:
        """The ops that give the core its queries, keys and values."""
        ends = {"Q": self.match["query"], "K": self.match.get("key", -1)}
        value = self.match.get("value")
        if value is None and "output" in self.match:
            scores = self._below([self.anchor]) | {self.anchor}
            value = next((op for op in self.view.producers(self.match["output"]) if op not in scores), None)
        if value is not None:
            ends["V"] = value
        return {title: op for title, op in ends.items() if op in self.ops}

    def _above(self, ops: Iterable[int]) -> set[int]:
        return closure(ops, lambda op: [source for source in self.view.pred[op] if source in self.ops])

    def _below(self, ops: Collection[int]) -> set[int]:
        return closure(ops, lambda op: [user for user in self.view.successors(op) if user in self.ops]) - set(ops)

    def _rotation(self, path: Collection[int]) -> set[int]:
        """The ops between the value before RoPE and the value after it: products with two tables, and their sum."""
        turns = [op for op in path if self.view.op_type(op) == "Multiply" and self._reads_table(op)]
        if not turns:
            return set()
        rank = self.view.rank
        above = set.intersection(*(self._above([op]) & set(path) - {op} for op in turns))
        below = set.intersection(*(self._below([op]) & set(path) for op in turns)) if len(turns) > 1 else set(turns)
        if not below:
            return set(turns)
        start, end = max(above, key=rank.__getitem__, default=None), min(below, key=rank.__getitem__)
        inside = (self._above([end]) & set(path)) - (self._above([start]) if start is not None else set())
        readers = [user for user in self.view.successors(end) if user in path]
        whole = len(readers) == 1 and self.view.op_type(readers[0]) in _JOINS and not self._reads_state(readers[0])
        return inside | {end} | ({readers[0]} if whole else set())  # with the channels that are not rotated

    def _reads_table(self, op: int) -> bool:
        """True if an op multiplies by a value that neither the tokens nor constants determine: by a rotary table."""
        others = [source for source in self.view.producers(op) if source not in self.ops]
        return any(not self.view.constant(source) and not self.on_stream(source) for source in others)

    def _reads_state(self, op: int) -> bool:
        return any(source in self.beside or self.view.op_type(source) == "ReadValue" for source in self.view.pred[op])

    def _states(self, joined: Collection[int]) -> set[int]:
        """The ops beside the block that bring the past tokens of these ops, and keep the new ones."""
        before = closure(joined, lambda op: [source for source in self.view.pred[op] if source in self.beside])
        return closure(before, lambda op: [user for user in self.view.successors(op) if user in self.beside])

    def _before(self, path: Collection[int], later: Collection[int]) -> set[int]:
        """The ops of a path that lead to RoPE or the cache; all of them without these."""
        if not later:
            return set(path)
        return (self._above(later) & set(path)) - set(later)

    def _output(self, below: Collection[int]) -> set[int]:
        """The projection of the output, and what follows it."""
        products = [
            op
            for op in below
            if self.view.op_type(op) in _PRODUCTS and any(map(self.view.constant, self.view.producers(op)))
        ]
        if not products:
            return set()
        first = min(products, key=self.view.rank.__getitem__)
        return {first} | self._below([first])
