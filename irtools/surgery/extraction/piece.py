"""Results of extracting a piece of an IR."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from irtools.ir.ranges import Ranges
from irtools.text import plural, short_repr, size_text

__all__ = ["Piece", "PiecePort", "Plan"]


@dataclass(frozen=True, slots=True)
class PiecePort:
    """An input or output of the piece.

    Attributes
    ----------
    name : str
        Tensor name.
    shape : tuple of int
        -1 for dynamic dimensions.
    kind : str
        ``model``: an unchanged input of the whole model. ``value``, ``shape`` or ``state``: a value of the whole
        model, the shape of one, or a state (for an output, its new value).
    producer : str
        Friendly name of the producer in the whole model.
    variable : str
        Variable id of a state.
    """

    name: str
    element_type: str
    shape: tuple[int, ...]
    kind: str
    producer: str
    output_index: int = 0
    variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """Contents of a piece.

    Attributes
    ----------
    states : tuple of str
        Variables that stay states.
    ops, constants : int
        Number of ops that depend on an input, and of all other ops.
    notes : tuple of str
        Messages for the user.
    """

    inputs: tuple[PiecePort, ...]
    outputs: tuple[PiecePort, ...]
    states: tuple[str, ...]
    ops: int
    constants: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(_Contents):
    """A piece that has not been written.

    Attributes
    ----------
    data : bytes
        Its ``.xml``.
    ranges : Ranges
        The part of the weights that it needs.
    """

    data: bytes = field(repr=False)
    ranges: Ranges = field(repr=False)

    @property
    def xml_bytes(self) -> int:
        """Size of the ``.xml``."""
        return len(self.data)

    @property
    def weights_bytes(self) -> int:
        """Size of the ``.bin``."""
        return self.ranges.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(_Contents):
    """A piece that has been written.

    Attributes
    ----------
    path, weights_path : Path
        The new ``.xml`` and ``.bin``.
    xml_bytes, weights_bytes : int
        Their sizes.
    """

    path: Path
    weights_path: Path
    xml_bytes: int
    weights_bytes: int

    def __repr__(self) -> str:
        ports = f"{plural(len(self.inputs), 'input')}, {plural(len(self.outputs), 'output')}"
        return short_repr(
            self, str(self.path), plural(self.ops, "op"), ports, f"weights {size_text(self.weights_bytes)}"
        )
