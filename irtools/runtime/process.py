"""Start a module of irtools in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["start"]


def start(module: str, *, stderr: int, bare: bool = False) -> subprocess.Popen[bytes]:
    """Start ``python -m module`` with the same modules as here, and none from the working directory.

    That is often the model directory, and files in it are not to be run.

    Parameters
    ----------
    module : str
    stderr : int
        ``subprocess.PIPE`` or ``subprocess.DEVNULL``; stdin and stdout are pipes.
    bare : bool
        Without ``site``, which takes 13 of 20 ms: for what needs no rule packs, which it is that finds in
        an editable installation.
    """
    return subprocess.Popen(
        [sys.executable, *(["-S"] if bare else []), "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_module_path()), "PYTHONIOENCODING": "utf-8"},
    )


def _module_path() -> list[str]:
    # `python -m irtools` puts the working directory first. It stays only if irtools itself lies there.
    ours = Path(__file__).resolve().parents[2]  # of an editable installation it is not on the path
    try:
        here = Path.cwd()
    except FileNotFoundError:  # deleted
        return [*filter(None, sys.path), str(ours)]
    barred = {here} - {ours}
    return [*(entry for entry in sys.path if entry and Path(os.path.realpath(entry)) not in barred), str(ours)]
