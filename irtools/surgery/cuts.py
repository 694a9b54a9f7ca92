"""What a piece of a graph is to reach from and to, and where it was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from irtools.graph.view import Source

__all__ = ["Cut", "End", "Region", "Request"]


@dataclass(frozen=True, slots=True)
class End:
    """A value that the piece is to give.

    Attributes
    ----------
    source : Source
    name : str
        What the output is called.
    result : int or None
        The model's own Result for it, which then stays as it is.
    """

    source: Source
    name: str
    result: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What a piece is to reach from and to.

    Attributes
    ----------
    starts : frozenset of int
        The first ops of the piece.
    ends : tuple of End
    entry : Source or None
        The value in front of the starts that is cut off, for a piece of the decoder stack.
    entry_name : str
        What the input for it is called.
    stream : frozenset of Source
        Values of the decoder stack that have the shape of the entry, itself among them.
    closing : frozenset of Source
        Those behind them, which may have another.
    tokens : frozenset of int
        Inputs of the model that the decoder stack starts from, where that is known.
    stateless : bool
        Whether states become inputs and outputs.
    """

    starts: frozenset[int]
    ends: tuple[End, ...]
    entry: Source | None = None
    entry_name: str = ""
    stream: frozenset[Source] = frozenset()
    closing: frozenset[Source] = frozenset()
    tokens: frozenset[int] = frozenset()
    stateless: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A value that becomes an input of the piece.

    Attributes
    ----------
    source : Source
    kind : str
        ``value``, ``shape`` (of a value that is not in the piece) or ``state``.
    """

    source: Source
    kind: str


@dataclass(frozen=True, slots=True)
class Region:
    """What a piece consists of.

    Attributes
    ----------
    ops : frozenset of int
        Ops that stay as they are, with inputs of the model and constants.
    cuts : tuple of Cut
        The entry first, states last, the others in the order of computation.
    entry : Source or None
    entry_name : str
        As requested.
    ends : tuple of End
    states : tuple of str
        Variables that are read and written in the piece, and stay.
    written : tuple of int
        Assigns whose value becomes an output.
    opened : tuple of str
        States of the piece that became inputs and outputs because OpenVINO would not run them.
    rewired : mapping of int to Source
        ShapeOf ops that read a value of the piece instead of an earlier one of the same shape.
    split : tuple of (str, bool)
        Variables of which only one half lies in the piece; True: the one that reads.
    """

    ops: frozenset[int]
    cuts: tuple[Cut, ...]
    entry: Source | None
    entry_name: str
    ends: tuple[End, ...]
    states: tuple[str, ...]
    written: tuple[int, ...] = ()
    opened: tuple[str, ...] = ()
    rewired: Mapping[int, Source] = field(default_factory=dict)
    split: tuple[tuple[str, bool], ...] = ()
