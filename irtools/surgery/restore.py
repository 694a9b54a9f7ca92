"""Inverse of a patch: find the changed bytes in the new file and put the old ones back."""

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
    """Return the reference offsets of places, so that edits elsewhere in the file do not move the places."""
    anchors: dict[int | str, int] = {"net": scan.net_tag.start}
    if len(set(scan.ids)) == len(scan.ids):
        anchors |= {key: span.start for key, span in zip(scan.ids, scan.spans, strict=True)}
    if scan.edges_section.end:
        anchors |= {"edges": scan.edges_section.start, "tail": scan.edges_section.end}
    return anchors


def inverse(original: bytes, data: bytes, splices: Sequence[Splice]) -> tuple[Edit, ...]:
    """Edits that turn ``data`` back into ``original``; ``splices`` is the difference between the two."""
    starts = sorted((start, str(anchor), anchor) for anchor, start in _anchors(scan_ir(data)).items())
    places, shift = [], 0
    for start, end, new in splices:
        at = start + shift
        # The XML declaration lies before the first anchor; its offset is negative.
        base, _, anchor = starts[max(bisect_right(starts, (at, "\U0010ffff")) - 1, 0)]
        places.append(Place(anchor, at - base, new, original[start:end]))
        shift += len(new) - (end - start)
    return (Restore(tuple(places)),)


def restored(scan: Scan, edit: Restore) -> tuple[Splice, ...]:
    """Return the splices that put the bytes back.

    Raises
    ------
    EditError
        The file has other bytes there by now.
    """
    anchors = _anchors(scan)
    splices = []
    for anchor, offset, there, back in edit.places:
        start = anchors.get(anchor, len(scan.data)) + offset
        if start < 0 or scan.data[start : start + len(there)] != there:
            raise EditError("a later edit changed the bytes to undo; undo the later edit first, or restore the file")
        splices.append(Splice(start, start + len(there), back))
    splices.sort()
    if any(before.end > after.start for before, after in pairwise(splices)):
        raise EditError("the places to undo overlap; undo the later edit first")
    return tuple(splices)
