"""Units of work in processes of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from irtools.fleet.outcome import Outcome

__all__ = ["run"]


def run(
    unit: Callable[[str], Any], paths: Iterable[str], *, jobs: int = 1, timeout: float | None = None
) -> Iterator[Outcome]:
    """Run a unit of work for each path; see :func:`irtools.fleet.run`."""
    for number, path in enumerate(paths):
        began = time.monotonic()
        yield Outcome(number, path, unit(path), None, time.monotonic() - began)
