"""Which bytes of the files of a snapshot are there."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from irtools.remote.listing import Entry

__all__ = ["Filled", "entries_from", "entries_to"]

Range = tuple[int, int]


@dataclass(slots=True)
class Filled:
    """Byte ranges of one file that are there: disjoint, not adjacent, in order."""

    ranges: list[Range] = field(default_factory=list)

    def missing(self, start: int, end: int) -> list[Range]:
        """The pieces of a range that are not there."""
        gaps = []
        at = max(bisect.bisect_right(self.ranges, (start, 1 << 62)) - 1, 0)
        for begin, stop in self.ranges[at:]:
            if begin >= end:
                break
            if stop <= start:
                continue
            if begin > start:
                gaps.append((start, begin))
            start = max(start, stop)
        if start < end:
            gaps.append((start, end))
        return gaps

    def add(self, start: int, end: int) -> None:
        """Note that a range is there."""
        first = bisect.bisect_left(self.ranges, (start, -1))
        if first and self.ranges[first - 1][1] >= start:
            first -= 1
        last = first
        while last < len(self.ranges) and self.ranges[last][0] <= end:
            start, end = min(start, self.ranges[last][0]), max(end, self.ranges[last][1])
            last += 1
        self.ranges[first:last] = [(start, end)]


def entries_to(entries: Iterable[Entry], filled: Mapping[str, Filled]) -> list[dict[str, Any]]:
    """Files and what is there of them, for JSON."""
    return [
        {
            "name": one.name,
            "size": one.size,
            "etag": one.etag,
            "sha256": one.sha256,
            "git": one.git,
            "filled": filled[one.name].ranges if one.name in filled else [],
        }
        for one in entries
    ]


def entries_from(rows: object) -> tuple[list[Entry], dict[str, Filled]]:
    """The reverse; raises ``ValueError``, ``TypeError`` or ``KeyError`` for anything else."""
    entries, filled = [], {}
    if not isinstance(rows, list):
        raise TypeError("no list of files")
    for row in rows:
        entry = Entry(str(row["name"]), int(row["size"]), str(row["etag"]), str(row["sha256"]), str(row["git"]))
        entries.append(entry)
        ranges = Filled()
        for start, end in row["filled"]:
            ranges.add(int(start), int(end))
        if ranges.ranges:
            filled[entry.name] = ranges
    return entries, filled
