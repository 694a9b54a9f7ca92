"""OpenVINO in a process of its own, asked whether it reads a file."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

_CODE = """
import sys
import openvino as ov
core = ov.Core()
for line in sys.stdin:
    try:
        core.read_model(line.rstrip("\\n"))
        print("yes", flush=True)
    except Exception:
        print("no", flush=True)
"""
_TIMEOUT = 30.0


class Reader:
    """Ask OpenVINO; the process starts when first needed, and again when a file has killed it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def reads(self, path: Path) -> bool | None:
        """Whether OpenVINO reads the file; None if it neither reads nor refuses it in time."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], _TIMEOUT)[0]:
            self.close()
            return None
        answer = self._process.stdout.readline()
        return answer == "yes\n" if answer else None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
