"""What no input may cause: time, memory, files, connections and code, watched from outside the code under test."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.case import ROOT

SECONDS, SECONDS_PER_MB = 6.0, 40.0
"""CPU time that a command may take: an allowance, and what grows with the bytes of the input."""
WALL = 600.0
"""Seconds without use of the CPU, as when waiting for a FIFO."""
MEMORY, MEMORY_PER_BYTE = 150 << 20, 8
"""Bytes that a command may add at its peak, as SECURITY.md promises."""
_HARD = 4 << 30
_TRACED = 6  # recording lines makes a loop so much slower
_OURS = ("/dev/null", "/dev/tty", "/proc/self/clear_refs")


class Broken(Exception):  # noqa: N818
    """An oracle says that the code under test broke a promise; the message is a clause."""


class Hang(BaseException):
    """Not an Exception, so that no handler of the code under test keeps it."""


class Watch:
    """Audit hook: which files were written, and whether something connected, or ran code from the input."""

    def __init__(self) -> None:
        self.scratch: str | None = None
        self.events: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.scratch is None:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and any(letter in mode for letter in "wax+")) or (
                isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            )
            if writes and isinstance(path, str | bytes):
                self._outside("writes", path)
        elif event in ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod"):
            relative = arguments[-1] not in (-1, None)  # to an open directory, as when one is removed
            for path in arguments[:2] if event in ("os.rename", "os.link") else arguments[:1]:
                if isinstance(path, str | bytes) and event != "os.symlink" and not relative:
                    self._outside(event.replace("os.", "calls "), path)
        elif event == "socket.connect":
            self.events.append("connects to a network")
        elif event == "exec" and isinstance(code := arguments[0], CodeType) and self._inside(code.co_filename):
            self.events.append(f"runs code of {code.co_filename}")

    def _inside(self, path: str) -> bool:
        return self.scratch is not None and os.path.abspath(path).startswith(self.scratch)  # noqa: PTH100

    def _outside(self, what: str, path: str | bytes) -> None:
        name = os.fsdecode(path)
        if name not in _OURS and not self._inside(name) and "__pycache__" not in name:
            self.events.append(f"{what} {name}")

    @contextmanager
    def over(self, scratch: Path) -> Iterator[None]:
        """Watch; raise ``Broken`` at the end for what was not allowed."""
        self.scratch, self.events = str(scratch), []
        try:
            yield
        finally:
            self.scratch = None
        if self.events:
            raise Broken(f"it {self.events[0]}")


def _alarm(_number: int, _frame: FrameType | None) -> None:
    raise Hang


def limit_memory() -> None:
    """Bound the address space, so that a runaway allocation is a MemoryError and not the end of the machine."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + _HARD, resource.RLIM_INFINITY))


def _status(key: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{key}:", 1)[1].split(None, 1)[0]) << 10


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """Bound the CPU time and the memory of a call that reads ``size`` bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # restart the count of the peak
    before = _status("VmRSS")
    signal.signal(signal.SIGPROF, _alarm)
    signal.signal(signal.SIGALRM, _alarm)
    traced = 1 if sys.gettrace() is None else _TRACED
    signal.setitimer(signal.ITIMER_PROF, traced * (SECONDS + SECONDS_PER_MB * size / 1e6))
    signal.setitimer(signal.ITIMER_REAL, WALL)
    try:
        yield
    except MemoryError:
        raise Broken(f"it asked for more than {_HARD >> 30} GB") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    grown = _status("VmHWM") - before
    if grown > MEMORY + MEMORY_PER_BYTE * size:
        raise Broken(f"it took {grown >> 20} MB for {size} bytes")


class Coverage:
    """Lines of the code under test that were never run before: inputs that reach some are mutated further.

    A function whose lines were all seen, or that was traced often, is not traced any more, so the cost falls
    quickly. ``sys.settrace`` is enough for this, and is there on every platform.
    """

    def __init__(self) -> None:
        self._missing: dict[CodeType, set[int]] = {}
        self._calls: dict[CodeType, int] = {}
        self._folders = (f"{ROOT}/irtools/", f"{ROOT}/rules/")
        self.lines = 0
        self.new = False

    @contextmanager
    def over(self) -> Iterator[None]:
        """Record; ``new`` says afterwards whether there was a new line."""
        self.new = False
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        missing = self._missing.get(code)
        if missing is None:
            lines = {line for _, _, line in code.co_lines() if line is not None}
            missing = self._missing[code] = lines if code.co_filename.startswith(self._folders) else set()
        if not missing:
            return None
        calls = self._calls[code] = self._calls.get(code, 0) + 1
        return self._line if calls < 300 or calls % 64 == 0 else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        missing = self._missing[frame.f_code]
        if event == "line" and frame.f_lineno in missing:
            missing.discard(frame.f_lineno)
            self.lines += 1
            self.new = True
        return self._line
