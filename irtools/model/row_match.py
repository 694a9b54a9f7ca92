"""Compare the weights of two heads: the one may have only the first rows of the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from irtools.graph.view import GraphView
from irtools.ir.constants import Constant, read_constants
from irtools.ir.reading import open_file

__all__ = ["Head", "RowMatch", "match_rows"]

_SAMPLE = 4096  # bytes at each end of what both constants have
_IGNORED = frozenset({"Slice"})  # takes the first columns of weights [width, vocabulary]


@dataclass(frozen=True, slots=True)
class Head:
    """The weights of a head: the op at input 1 of its MatMul, and the file with their bytes."""

    graph: GraphView
    weights: int
    path: Path


@dataclass(frozen=True, slots=True)
class RowMatch:
    """Result of a comparison.

    Attributes
    ----------
    equal : bool or None
        None if the bytes cannot be read.
    difference : str
        The difference as a clause; ``""`` without one.
    precisions : tuple of str
        Element types of the stored values, if they differ.
    """

    equal: bool | None
    difference: str = ""
    precisions: tuple[str, ...] = ()


def match_rows(part: Head, whole: Head) -> RowMatch:
    """Compare the weights of a head with the leading rows of another one's.

    The ops are compared one by one, the constants by a sample of 8 kB each, or not at all if they are the same bytes
    of one file.
    """
    tables = [{c.id: c for c in read_constants((head.graph.scan,))} for head in (part, whole)]
    pending = [(part.weights, whole.weights)]
    unread = False
    while pending:
        here, there = pending.pop()
        while part.graph.op_type(here) in _IGNORED and part.graph.op_type(there) != part.graph.op_type(here):
            here = part.graph.producers(here)[0]
        kinds = part.graph.op_type(here), whole.graph.op_type(there)
        one, other = tables[0].get(here), tables[1].get(there)
        if one is not None and other is not None:
            if one.element_type != other.element_type:
                types = (one.element_type, other.element_type)
                return RowMatch(False, f"its weights are {types[0]}, and those of lm_head {types[1]}", types)
            same = _same_bytes(part.path, one, whole.path, other)
            if same is False:
                return RowMatch(False, f"its constant {one.name!r} has other values than {other.name!r} of lm_head")
            unread |= same is None
            continue
        if kinds[0] != kinds[1]:
            types = _stored(part, here, tables[0]), _stored(whole, there, tables[1])
            return RowMatch(False, f"it computes its weights by {kinds[0]} where lm_head has {kinds[1]}", types)
        sources = part.graph.producers(here), whole.graph.producers(there)
        if kinds[0] == "Reshape":  # its second input is the shape
            sources = sources[0][:1], sources[1][:1]
        if len(sources[0]) != len(sources[1]):
            return RowMatch(False, f"it computes its weights by another {kinds[0]} than lm_head")
        pending += zip(*sources, strict=True)
    return RowMatch(None if unread else True)


def _stored(head: Head, start: int, table: dict[int, Constant]) -> str:
    """Element type of the largest constant above an op."""
    pending, largest = [start], ("", -1)
    while pending:
        key = pending.pop()
        constant = table.get(key)
        if constant is not None and constant.elements > largest[1]:
            largest = constant.element_type, constant.elements
        pending += head.graph.producers(key)
    return largest[0]


def _same_bytes(path: Path, one: Constant, other_path: Path, other: Constant) -> bool | None:
    if path == other_path and one.offset == other.offset:
        return True
    size = min(one.size, other.size)
    try:
        with open_file(path) as file, open_file(other_path) as other_file:
            for start in {0, max(0, size - 1 - _SAMPLE)}:
                count = min(_SAMPLE, size - 1 - start) if size > 1 else size  # the last byte may be used in half
                file.seek(one.offset + start)
                other_file.seek(other.offset + start)
                if file.read(count) != other_file.read(count):
                    return False
    except OSError:
        return None
    return True
