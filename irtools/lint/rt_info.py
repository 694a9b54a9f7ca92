"""What OpenVINO takes from the model-level ``<rt_info>`` of a file.

Reproduced with OpenVINO 2026.4: only the first ``<rt_info>`` child of ``<net>`` counts, even
an empty one; without any, the first ``<meta_data>`` does. The key of an element is its
``name`` attribute or else its tag, the last element with a key wins, and text is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from irtools.ir.op import parse_element
from irtools.ir.scan import Scan, Span, line_of

__all__ = ["Entry", "read_rt_info", "stray_entries"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One element of a ``<rt_info>``.

    Attributes
    ----------
    path : tuple of str
        Keys from the container down.
    value : str or None
        None for a dictionary.
    line : int
        In the file.
    """

    path: tuple[str, ...]
    value: str | None
    line: int


def _entries(scan: Scan, span: Span) -> list[Entry]:
    first = line_of(scan.data, span.start)
    found: list[Entry] = []

    def visit(element: etree._Element, path: tuple[str, ...]) -> None:
        for child in element:
            if not isinstance(child.tag, str):
                continue
            below = (*path, str(child.get("name", child.tag)))
            value, line = child.get("value"), child.sourceline
            offset = line - 1 if isinstance(line, int) else 0
            found.append(Entry(below, None if value is None else str(value), first + offset))
            if value is None:
                visit(child, below)

    visit(parse_element(scan.data, span), ())
    return found


def read_rt_info(scan: Scan) -> tuple[Entry, ...]:
    """Every entry of the container that OpenVINO reads, in file order; duplicates included."""
    container = scan.rt_infos[0] if scan.rt_infos else scan.meta_data
    return tuple(_entries(scan, container)) if container is not None else ()


def stray_entries(scan: Scan, key: str) -> tuple[Entry, ...]:
    """Entries of a key where OpenVINO does not look for it.

    That is below another key, in a second ``<rt_info>``, or in ``<meta_data>`` beside a
    ``<rt_info>``. Bodies of loops are not searched.
    """
    ignored = [*scan.rt_infos[1:], *([scan.meta_data] if scan.meta_data and scan.rt_infos else [])]
    found = [entry for span in ignored for entry in _entries(scan, span)]
    found += [entry for entry in read_rt_info(scan) if len(entry.path) > 1]
    return tuple(entry for entry in found if entry.path[-1] == key)
