"""Unique friendly names."""

from __future__ import annotations

from collections.abc import Collection

from irtools.model.document import Document
from irtools.surgery.edits import Rename
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply

__all__ = ["unique_names"]


def unique_names(document: Document, keep: Collection[int] = ()) -> Patch:
    """Work out the file with unique friendly names at its top level; write nothing.

    The first op of a name keeps it, the others get ``_1``, ``_2``, ... appended. A model output (Result) keeps
    its name only if no other op has it. ``status`` of the patch is ``unchanged`` if the names were unique already.

    Parameters
    ----------
    keep : collection of int
        Layer ids of ops that keep their names before any other.
    """
    scan, keep = document.scan, frozenset(keep)
    taken = set(scan.names)
    keepers: dict[str, int] = {}

    def rank(position: int) -> tuple[bool, bool]:
        return scan.ids[position] in keep, scan.types[position] != "Result"

    for position, name in enumerate(scan.names):
        if name not in keepers or rank(position) > rank(keepers[name]):
            keepers[name] = position
    edits = []
    for position, (key, name) in enumerate(zip(scan.ids, scan.names, strict=True)):
        if keepers[name] == position:
            continue
        number = next(n for n in range(1, len(taken) + 2) if f"{name}_{n}" not in taken)
        taken.add(f"{name}_{number}")
        edits.append(Rename(key, f"{name}_{number}"))
    return apply(document, edits)
