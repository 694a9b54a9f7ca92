"""Steps of the work and their times, for one listener: the command line with ``--verbose``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["Hear", "hearing", "step", "steps"]

Hear = Callable[[str, float, int], None]
"""Takes a finished step, its seconds, and how many steps it is part of."""

_listeners: list[Hear] = []
_depth = [0]


@contextmanager
def hearing(hear: Hear) -> Iterator[None]:
    """Tell ``hear`` about each step that ends within the block."""
    _listeners.append(hear)
    try:
        yield
    finally:
        _listeners.pop()


@contextmanager
def step(name: str, *, least: float = 0.0) -> Iterator[None]:
    """Mark a block as one step, also if it fails; a step of less than ``least`` seconds is not told.

    Examples
    --------
    >>> with hearing(lambda name, seconds, depth: print("  " * depth + name)):
    ...     with step("Reading a file"), step("Parsing it"):
    ...         pass
      Parsing it
    Reading a file
    """
    if not _listeners:
        yield
        return
    began = time.monotonic()
    _depth[0] += 1
    try:
        yield
    finally:
        _depth[0] -= 1
        seconds = time.monotonic() - began
        if seconds >= least:
            _listeners[-1](name, seconds, _depth[0])


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Yield a function that takes the name of each step when it begins, such as the progress of a child process.

    A step lasts until another one begins. The same name again is the same step.
    """
    last = [""]
    with ExitStack() as current:

        def begin(name: str) -> None:
            if name != last[0]:
                current.close()
                last[0] = name
                if name:
                    current.enter_context(step(name))

        yield begin
