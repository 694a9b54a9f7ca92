"""Edits of an IR as values: what is to change, not how it is written.

An op is named by its friendly name (``str``) or its layer id (``int``). Edits concern the top level of a
model: what is inside the body of a Loop or If is not reached by them.
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
    "OpRef",
    "Output",
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
"""An op: its friendly name, or its layer id."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output of an op: what an input reads.

    Attributes
    ----------
    op : str or int
    index : int
        Position among its outputs.
    """

    op: OpRef
    index: int = 0


@dataclass(frozen=True, slots=True)
class NewPort:
    """An output of an op that is to be added.

    Attributes
    ----------
    element_type : str
        As OpenVINO prints it: ``f32``, ``i64``, ...
    shape : tuple of int
        Dimensions, -1 for the unknown ones. OpenVINO works them out again when it reads the file.
    names : tuple of str
        Tensor names.
    """

    element_type: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddOp:
    """Add an op, behind all others: a Result becomes the last output of the model, a Parameter its last input.

    Attributes
    ----------
    type, name : str
        ``Concat``, and a friendly name that no op has yet.
    inputs : tuple of Output
        What it reads; type and shape of its input ports follow.
    outputs : tuple of NewPort
    attributes : mapping of str to str
        Of ``<data>``.
    opset : str
    output_names : tuple of str
        Of a Result: the names of the model output.
    """

    type: str
    name: str
    inputs: tuple[Output, ...] = ()
    outputs: tuple[NewPort, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    opset: str = "opset1"
    output_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveOp:
    """Remove an op and the edges into it. Nothing may read it when the transaction ends."""

    op: OpRef


@dataclass(frozen=True, slots=True)
class Rewire:
    """Let an input of an op read another output.

    Attributes
    ----------
    op : str or int
    input : int
        Position among its inputs.
    source : Output
    """

    op: OpRef
    input: int
    source: Output


@dataclass(frozen=True, slots=True)
class Rename:
    """Give an op another friendly name.

    The hidden-state annotation follows: where it names the op, it names it anew.
    """

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
    """Set the tensor names of an output; none removes them."""

    output: Output
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetRtInfo:
    """Set an entry of the model-level rt_info; None removes it."""

    key: str
    value: str | None


class Place(NamedTuple):
    """Bytes that an edit has changed.

    Attributes
    ----------
    anchor : int or str
        What they lie behind: the layer with this id, or ``net``, ``edges`` or ``tail`` (the start tag of the
        file, the start and the end of its edges).
    offset : int
        How far behind the beginning of it.
    there, back : bytes
        What is there now, and what was there before.
    """

    anchor: int | str
    offset: int
    there: bytes
    back: bytes


@dataclass(frozen=True, slots=True)
class Restore:
    """Put back the very bytes that a transaction has changed: the inverse of every edit.

    Only bytes know how something had been spelled. Other edits may have been made in between, as long as
    they left these bytes alone.

    Attributes
    ----------
    places : tuple of Place
        In file order.
    """

    places: tuple[Place, ...]


GraphEdit: TypeAlias = AddOp | RemoveOp | Rewire | Rename | SetAttribute | SetTensorNames
Edit: TypeAlias = GraphEdit | SetRtInfo | Restore


def require_text(*values: str) -> None:
    """Refuse what no XML file can hold.

    Raises
    ------
    EditError
    """
    for value in values:
        bad = unprintable(value)
        if bad is not None:
            raise EditError(f"{value!r} holds the character {bad!r}, which no XML file can hold")


def require_attribute(key: str, value: str | None) -> None:
    """Refuse an attribute of ``<data>`` that cannot be written.

    Raises
    ------
    EditError
    """
    if _ATTRIBUTE.fullmatch(key) is None:
        raise EditError(f"{key!r} cannot be the name of an attribute; letters, digits, '_', '.' and '-' can be in it")
    require_text(value or "")


def require_tensor_names(names: tuple[str, ...]) -> None:
    r"""Refuse names that a list of tensor names cannot hold: ``\`` makes the comma behind it part of a name.

    Raises
    ------
    EditError
    """
    require_text(*names)
    for name in names:
        if not name:
            raise EditError("a tensor name cannot be empty; give none to have none")
        if name.endswith("\\") or "\\," in name:
            raise EditError(f"the tensor name {name!r} has a backslash before a comma or its end, where it is lost")
