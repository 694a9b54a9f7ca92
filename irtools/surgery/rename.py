"""Unique friendly names."""

from __future__ import annotations

from irtools.model.document import Document
from irtools.surgery.edits import Rename
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply

__all__ = ["unique_names"]


def unique_names(document: Document) -> Patch:
    """Work out the file with unique friendly names at its top level; write nothing.

    The first op of a name keeps it, the others get ``_1``, ``_2``, ... appended. A model output (Result) keeps
    its name only if no other op has it. ``status`` of the patch is ``unchanged`` if the names were unique already.
    """
    scan = document.scan
    taken = set(scan.names)
    keepers: dict[str, int] = {}
    for position, (name, kind) in enumerate(zip(scan.names, scan.types, strict=True)):
        if name not in keepers or (scan.types[keepers[name]] == "Result" and kind != "Result"):
            keepers[name] = position
    edits = []
    for position, (key, name) in enumerate(zip(scan.ids, scan.names, strict=True)):
        if keepers[name] == position:
            continue
        number = next(n for n in range(1, len(taken) + 2) if f"{name}_{n}" not in taken)
        taken.add(f"{name}_{number}")
        edits.append(Rename(key, f"{name}_{number}"))
    return apply(document, edits)
