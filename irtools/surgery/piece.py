"""What extracting a piece of an IR yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from irtools.ir.ranges import Ranges

__all__ = ["Piece", "PiecePort", "Plan"]


@dataclass(frozen=True, slots=True)
class PiecePort:
    """An input or output of the piece.

    Attributes
    ----------
    name : str
        Tensor name, by which an input is fed.
    element_type : str
    shape : tuple of int
        -1 for dynamic dimensions.
    kind : str
        ``model``: an input of the whole model, as it was; ``value``, ``shape`` or ``state``: what the whole
        model computes there, the shape of it, or what it keeps between calls (of an output, the new value).
    producer : str
        Friendly name of the op that gives it in the whole model.
    output_index : int
        Position among the outputs of that op.
    """

    name: str
    element_type: str
    shape: tuple[int, ...]
    kind: str
    producer: str
    output_index: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A piece that has been worked out; nothing has been written.

    Attributes
    ----------
    data : bytes
        Its ``.xml``.
    ranges : Ranges
        What of the weights it needs.
    inputs : tuple of PiecePort
    outputs : tuple of PiecePort
    states : tuple of str
        Variables that it keeps between calls.
    ops, constants : int
        Ops that are not computed from constants alone, and constants with what is.
    notes : tuple of str
        Worth telling the user.
    """

    data: bytes = field(repr=False)
    ranges: Ranges = field(repr=False)
    inputs: tuple[PiecePort, ...]
    outputs: tuple[PiecePort, ...]
    states: tuple[str, ...]
    ops: int
    constants: int
    notes: tuple[str, ...]

    @property
    def xml_bytes(self) -> int:
        """Size of the ``.xml``."""
        return len(self.data)

    @property
    def weights_bytes(self) -> int:
        """Size of the ``.bin``."""
        return self.ranges.size


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece that has been written.

    Attributes
    ----------
    path, weights_path : Path
        The new ``.xml`` and ``.bin``.
    xml_bytes, weights_bytes : int
        Their sizes.
    inputs : tuple of PiecePort
    outputs : tuple of PiecePort
    states : tuple of str
        Variables that it keeps between calls.
    ops, constants : int
        Ops that are not computed from constants alone, and constants with what is.
    notes : tuple of str
        Worth telling the user.
    """

    path: Path
    weights_path: Path
    xml_bytes: int
    weights_bytes: int
    inputs: tuple[PiecePort, ...]
    outputs: tuple[PiecePort, ...]
    states: tuple[str, ...]
    ops: int
    constants: int
    notes: tuple[str, ...]
