"""Start a module of irtools in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["start"]


def start(module: str, *, stderr: int) -> subprocess.Popen[bytes]:
    """Start ``python -m module`` with the same modules as here, and none from the working directory.

    That is often the model directory, and files in it are not to be run.

    Parameters
    ----------
    module : str
    stderr : int
        ``subprocess.PIPE`` or ``subprocess.DEVNULL``; stdin and stdout are pipes.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_module_path()), "PYTHONIOENCODING": "utf-8"},
    )


def _module_path() -> list[str]:
    # `python -m irtools` puts the working directory first. It stays only if irtools itself lies there.
    ours = Path(__file__).resolve().parents[2]
    try:
        here = Path.cwd()
    except FileNotFoundError:  # deleted
        return [entry for entry in sys.path if entry]
    barred = {here} - {ours}
    return [entry for entry in sys.path if entry and Path(os.path.realpath(entry)) not in barred]
