"""The command line in a process that goes on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

__all__ = ["collected_later"]


@contextmanager
def collected_later() -> Iterator[None]:
    """Keep what irtools does to the garbage collector, which is for a process that ends, from this one."""
    with patch("gc.freeze"):
        try:
            yield
        finally:
            gc.enable()
