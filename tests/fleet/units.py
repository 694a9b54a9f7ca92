"""Units of work that behave and misbehave, for the processes of this machine and for a cluster."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

__all__ = ["sizes", "worker_of"]


def sizes(path: str) -> dict[str, Any]:
    """Sizes of the files of a directory, whose name says what happens: ``hang``, ``hold`` (the lock of Python),
    ``memory``, ``die``, ``raise``, ``slow``, or ``kill-once``, which kills its process unless it has before."""
    name = Path(path).name.rpartition("_")[2]
    if name == "hang":
        time.sleep(1000)
    elif name == "hold":
        re.match(r"(a+)+$", "a" * 60 + "b")
    elif name == "memory":
        hoard: list[bytearray] = []
        while True:
            hoard.append(bytearray(os.urandom(1 << 20) * 8))
            time.sleep(0.02)
    elif name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "raise":
        raise ValueError("it does not work")
    elif name == "slow":
        time.sleep(0.5)
    elif name == "kill-once":
        mark = Path(path) / "tried"
        if not mark.exists():
            mark.touch()
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)
    files = sorted(os.scandir(path), key=lambda entry: entry.name)
    return {"path": path, "here": os.getcwd(), "files": [[e.name, e.stat().st_size] for e in files]}  # noqa: PTH109


def worker_of(path: str) -> int:
    """The process that runs it."""
    time.sleep(0.2)
    return os.getpid()
