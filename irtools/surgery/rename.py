"""Make the friendly names of an IR unique."""

from __future__ import annotations

import re
from collections import Counter

from irtools.ir.document import Document
from irtools.surgery.patch import Patch, patch

__all__ = ["unique_names"]

_NAME = re.compile(rb"""<layer(?:\s+[^\s=>/"']+\s*=\s*(?:"[^"]*"|'[^']*'))*?\s+name\s*=\s*(?:"([^"]*)"|'([^']*)')""")


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
    pieces, last = [], 0
    for position, (name, span) in enumerate(zip(scan.names, scan.spans, strict=True)):
        if counts[name] < 2 or keepers[name] == position:
            continue
        number = next(n for n in range(1, len(taken) + 2) if f"{name}_{n}" not in taken)
        taken.add(f"{name}_{number}")
        match = _NAME.match(scan.data, span.start)
        if match is not None:
            end = match.end(1) if match[1] is not None else match.end(2)
            pieces += [scan.data[last:end], b"_%d" % number]
            last = end
    return patch(document, None, None, b"".join([*pieces, scan.data[last:]]))
