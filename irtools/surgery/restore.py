"""The inverse of a patch: where its bytes are in the new file, and how they are put back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from irtools.errors import EditError
from irtools.ir.markup import Splice
from irtools.ir.scan import Scan, scan_ir
from irtools.surgery.edits import Edit, Place, Restore

__all__ = ["inverse", "restored"]


def _anchors(scan: Scan) -> Mapping[int | str, int]:
    """What places are counted from, so that edits elsewhere in the file do not move them."""
    found: dict[int | str, int] = {"net": scan.net_tag.start}
    if len(set(scan.ids)) == len(scan.ids):
        found |= {key: span.start for key, span in zip(scan.ids, scan.spans, strict=True)}
    if scan.edges_section.end:
        found |= {"edges": scan.edges_section.start, "tail": scan.edges_section.end}
    return found


def inverse(original: bytes, data: bytes, splices: Sequence[Splice]) -> tuple[Edit, ...]:
    """Edits that turn ``data`` back into ``original``; ``splices`` is the difference between the two."""
    starts = sorted((start, str(anchor), anchor) for anchor, start in _anchors(scan_ir(data)).items())
    places, shift = [], 0
    for start, end, new in splices:
        at = start + shift
        # What lies before the root (a declaration) is counted from it as well: backwards.
        base, _, anchor = starts[max(bisect_right(starts, (at, "\U0010ffff")) - 1, 0)]
        places.append(Place(anchor, at - base, new, original[start:end]))
        shift += len(new) - (end - start)
    return (Restore(tuple(places)),)


def restored(scan: Scan, edit: Restore) -> tuple[Splice, ...]:
    """Where in a file the bytes go back.

    Raises
    ------
    EditError
        Something else is there by now.
    """
    anchors = _anchors(scan)
    found = []
    for anchor, offset, there, back in edit.places:
        start = anchors.get(anchor, len(scan.data)) + offset
        if start < 0 or scan.data[start : start + len(there)] != there:
            raise EditError(
                "what is to be undone has been changed since; undo the later change first, or restore the file"
            )
        found.append(Splice(start, start + len(there), back))
    found.sort()
    if any(before.end > after.start for before, after in pairwise(found)):
        raise EditError("what is to be undone overlaps with itself; undo the later change first")
    return tuple(found)
