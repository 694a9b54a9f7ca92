"""Edits of an IR as values, independent of how the file is written.

An op is given by its friendly name (``str``) or its layer id (``int``). Edits apply to the top level of a
model. They do not reach into the body of a Loop or If.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from irtools.errors import EditError
from irtools.ir.markup import unprintable

__all__ = [
    "AddOp",
    "Edit",
    "GraphEdit",
    "NewPort",
    "OpOutput",
    "OpRef",
    "Place",
    "RemoveOp",
    "Rename",
    "Restore",
    "Rewire",
    "SetAttribute",
    "SetRtInfo",
    "SetTensorNames",
    "require_attribute",
    "require_tensor_names",
    "require_text",
]

_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)

OpRef: TypeAlias = str | int
"""Friendly name or layer id of an op."""


@dataclass(frozen=True, slots=True)
class OpOutput:
    """An output of an op, by output index."""

    op: OpRef
    index: int = 0


@dataclass(frozen=True, slots=True)
class NewPort:
    """An output of a new op.

    Attributes
    ----------
    element_type : str
        OpenVINO's name: ``f32``, ``i64``, ...
    shape : tuple of int
        Dimensions, -1 for unknown ones. OpenVINO infers them again when it reads the file.
    names : tuple of str
        Tensor names.
    """

    element_type: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddOp:
    """Add an op, by default after all others: a Result becomes the model's last output, a Parameter its last input.

    Attributes
    ----------
    name : str
        A friendly name that no op has yet.
    inputs : tuple of OpOutput
        Values to read. Types and shapes of the input ports follow from them.
    attributes : mapping of str to str
        Attributes of ``<data>``.
    output_names : tuple of str
        For a Result: the names of the model output.
    before : str, int or None
        Op of the file that the new op is written before. The order of Results is that of the model's outputs, the
        order of Parameters that of its inputs.
    runtime_attributes : bytes
        The ``<rt_info>`` of another op, copied from its file, such as the mark of a Convert that decompresses a weight.
    """

    type: str
    name: str
    inputs: tuple[OpOutput, ...] = ()
    outputs: tuple[NewPort, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    opset: str = "opset1"
    output_names: tuple[str, ...] = ()
    before: OpRef | None = None
    runtime_attributes: bytes = b""


@dataclass(frozen=True, slots=True)
class RemoveOp:
    """Remove an op and its input edges. Nothing may read it when the transaction ends."""

    op: OpRef


@dataclass(frozen=True, slots=True)
class Rewire:
    """Connect an input of an op, by input index, to another output."""

    op: OpRef
    input: int
    source: OpOutput


@dataclass(frozen=True, slots=True)
class Rename:
    """Give an op another friendly name, in the hidden-state annotation too."""

    op: OpRef
    name: str


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """Set an attribute of the ``<data>`` of an op; None removes it."""

    op: OpRef
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class SetTensorNames:
    """Set the tensor names of an output; an empty tuple removes them.

    Output 0 of a Result stands for the model output: its names are the ``output_names`` of the Result.
    """

    output: OpOutput
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetRtInfo:
    """Set an entry of the model-level rt_info; None removes it.

    Attributes
    ----------
    key : str or tuple of str
        Key, or path: the keys of the groups around the entry first. Text is split at each ``/``; a key that has a
        ``/`` itself is given in a tuple.
    force : bool
        Replace a group by the value, or a value on the path by a group, which is refused otherwise.
    """

    key: str | tuple[str, ...]
    value: str | None
    force: bool = False


class Place(NamedTuple):
    """A range of bytes that an edit has changed.

    Attributes
    ----------
    anchor : int or str
        Reference point before the range: the layer with this id, or ``net``, ``edges`` or ``tail`` (the start
        tag of the file, the start and the end of its edges).
    offset : int
        Distance in bytes from the start of the anchor.
    there, back : bytes
        The bytes after the edit, and before it.
    """

    anchor: int | str
    offset: int
    there: bytes
    back: bytes


@dataclass(frozen=True, slots=True)
class Restore:
    """Put back the bytes that a transaction has changed: the inverse of every edit.

    Bytes preserve the spelling. Other edits may come in between if they leave these bytes alone.

    Attributes
    ----------
    places : tuple of Place
        Changed ranges in file order.
    """

    places: tuple[Place, ...]


GraphEdit: TypeAlias = AddOp | RemoveOp | Rewire | Rename | SetAttribute | SetTensorNames
Edit: TypeAlias = GraphEdit | SetRtInfo | Restore


def require_text(*values: str) -> None:
    """Raise an EditError for characters that XML cannot contain."""
    for value in values:
        bad = unprintable(value)
        if bad is not None:
            raise EditError(f"{value!r} contains the character {bad!r}, which XML does not allow; remove it")


def require_attribute(key: str, value: str | None) -> None:
    """Raise an EditError for an attribute of ``<data>`` that cannot be written."""
    if _ATTRIBUTE.fullmatch(key) is None:
        raise EditError(f"{key!r} is not a valid attribute name; use letters, digits, '_', '.' and '-'")
    require_text(value or "")


def require_tensor_names(names: tuple[str, ...]) -> None:
    r"""Raise an EditError for names that a comma-separated list cannot contain; ``\`` escapes a comma there."""
    require_text(*names)
    for name in names:
        if not name:
            raise EditError("a tensor name cannot be empty; give an empty list to remove all names")
        if name.endswith("\\") or "\\," in name:
            raise EditError(f"the tensor name {name!r} has a backslash before a comma or at its end; remove it")
