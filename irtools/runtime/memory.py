"""Peak memory of this process."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["peak_memory"]


def peak_memory() -> int:
    """Largest resident set in bytes; 0 if the system does not report it."""
    with suppress(OSError):  # not `getrusage`, which a process begins with the peak of its parent
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
