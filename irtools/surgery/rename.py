"""Make the friendly names of an IR unique."""

from __future__ import annotations

from collections import Counter

from irtools.model.document import Document
from irtools.surgery.edits import Rename
from irtools.surgery.patch import Patch
from irtools.surgery.transaction import apply

__all__ = ["unique_names"]


def unique_names(document: Document) -> Patch:
    """Work out the file with unique friendly names at its top level; nothing is written.

    Of several ops with a name the first keeps it, the others get ``_1``, ``_2``, ... behind it. A
    model output (Result) gives way to an op wherever it stands.

    Parameters
    ----------
    document : Document

    Returns
    -------
    Patch
        ``status`` is ``unchanged`` when they were unique already.
    """
    scan = document.scan
    counts = Counter(scan.names)
    taken = set(scan.names)
    keepers: dict[str, int] = {}
    for position, (name, kind) in enumerate(zip(scan.names, scan.types, strict=True)):
        if name not in keepers or (scan.types[keepers[name]] == "Result" and kind != "Result"):
            keepers[name] = position
    edits = []
    for position, (key, name) in enumerate(zip(scan.ids, scan.names, strict=True)):
        if counts[name] < 2 or keepers[name] == position:
            continue
        number = next(n for n in range(1, len(taken) + 2) if f"{name}_{n}" not in taken)
        taken.add(f"{name}_{number}")
        edits.append(Rename(key, f"{name}_{number}"))
    return apply(document, edits)
