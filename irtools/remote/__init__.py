"""Exports at a URL: files and byte ranges, kept in a cache.

The rest of irtools works on paths. :class:`RemotePath` is a path whose text is a URL; whatever opens it gets a file of
the cache, which has the size that the listing gives and whose bytes are fetched when they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from irtools._lazy import attach
from irtools.text import is_url

if TYPE_CHECKING:
    from irtools.remote.meter import Traffic, traffic
    from irtools.remote.path import RemotePath, as_path
    from irtools.remote.snapshot import (
        are_named,
        expand,
        is_offline,
        opened,
        set_offline,
    )
    from irtools.remote.whole import is_remote, note_unmade, require_local, upload_of

__all__ = [
    "RemotePath",
    "Traffic",
    "are_named",
    "as_path",
    "expand",
    "is_offline",
    "is_remote",
    "is_url",
    "note_unmade",
    "opened",
    "require_local",
    "set_offline",
    "traffic",
    "upload_of",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "RemotePath": "irtools.remote.path",
        "Traffic": "irtools.remote.meter",
        "are_named": "irtools.remote.snapshot",
        "as_path": "irtools.remote.path",
        "expand": "irtools.remote.snapshot",
        "is_offline": "irtools.remote.snapshot",
        "is_remote": "irtools.remote.whole",
        "note_unmade": "irtools.remote.whole",
        "opened": "irtools.remote.snapshot",
        "require_local": "irtools.remote.whole",
        "set_offline": "irtools.remote.snapshot",
        "traffic": "irtools.remote.meter",
        "upload_of": "irtools.remote.whole",
    },
)
