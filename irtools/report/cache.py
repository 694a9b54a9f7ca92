"""The cache of exports at a URL as text and as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from irtools.remote.cache import Cached
from irtools.report.terminal import Column, Style, table
from irtools.text import plural, size_text

__all__ = ["cache_details", "cache_text"]

_SHORT = 12


def cache_text(found: Sequence[Cached], limit: int, folder: Path, style: Style) -> str:
    """A table of the exports, and a line about the cache."""
    columns = (
        Column("export", effects=("bold",), fold="anywhere"),
        Column("revision"),
        Column("size", right=True),
        Column("last used"),
    )
    rows = [(one.url, one.revision[:_SHORT], size_text(one.size), _date(one.used)) for one in found]
    total = sum(one.size for one in found)
    summary = f"{plural(len(found), 'export')}, {size_text(total)} of {size_text(limit)}, in {folder}"
    return f"{table(columns, rows, style)}\n\n{summary}" if rows else summary


def cache_details(found: Sequence[Cached], limit: int, folder: Path, freed: int | None) -> dict[str, object]:
    """The same for JSON; ``freed`` is None unless exports were removed."""
    return {
        "folder": str(folder),
        "limit": limit,
        "freed": freed,
        "exports": [{"url": one.url, "revision": one.revision, "bytes": one.size, "used": one.used} for one in found],
    }


def _date(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment)) if moment else ""
