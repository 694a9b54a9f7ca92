"""Start a module of irtools in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["start"]


def start(module: str) -> subprocess.Popen[bytes]:
    """Start ``python -m module`` with this process's module path, without the working directory.

    The working directory is often the model directory, and Python files in it must not run.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_module_path()), "PYTHONIOENCODING": "utf-8"},
    )


def _module_path() -> list[str]:
    # `python -m irtools` puts the working directory first. It stays only if irtools itself lies there.
    root = Path(__file__).resolve().parents[2]  # of an editable installation it is not on the path
    try:
        here = Path.cwd()
    except FileNotFoundError:  # deleted
        return [*filter(None, sys.path), str(root)]
    barred = {here} - {root}
    return [*(entry for entry in sys.path if entry and Path(os.path.realpath(entry)) not in barred), str(root)]
