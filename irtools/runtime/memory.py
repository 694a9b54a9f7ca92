"""How much memory this process has held."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["peak_memory", "reset_peak"]


def reset_peak() -> None:
    """Begin to measure anew, where the system can (Linux); elsewhere the peak is that of the whole process."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Largest resident set in bytes; 0 where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
