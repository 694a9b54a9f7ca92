"""The line of progress of a command on many exports."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

__all__ = ["Progress", "progress_text"]

_PAUSE = 0.2
_CLEAR = "\r\x1b[2K"


class Progress:
    """One line on the terminal: done, failed, rate and time left. Elsewhere nothing is written.

    Parameters
    ----------
    total : int
        Number of exports.
    shown : bool
        False to write nothing, also on a terminal.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self._stream = sys.stderr if shown and sys.stderr is not None and sys.stderr.isatty() else None
        self._total = total
        self._began = time.monotonic()
        self._done = self._failed = self._known = 0
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        if self._stream is not None:
            self._thread.start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._finished.set()
        if self._stream is not None:
            self._thread.join()
            self._write(_CLEAR)

    def count(self, *, failed: bool, known: bool) -> None:
        """Count an export that is done; ``known`` if its result was kept from an earlier run."""
        self._done += 1
        self._failed += failed
        self._known += known

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Remove the line while something else is written."""
        with self._lock:
            if self._stream is not None:
                self._write(_CLEAR)
            yield

    def _tell(self) -> None:
        while not self._finished.wait(_PAUSE):
            seconds = time.monotonic() - self._began
            text = progress_text(self._done, self._total, self._failed, seconds, known=self._known)
            with self._lock:
                self._write(_CLEAR + text[: max(shutil.get_terminal_size().columns - 1, 0)])

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with suppress(OSError, ValueError):  # the terminal is gone
                self._stream.write(text)
                self._stream.flush()


def progress_text(done: int, total: int, failed: int, seconds: float, *, known: int = 0) -> str:
    """The line; the rate is that of the exports that were not known from an earlier run.

    Examples
    --------
    >>> progress_text(500, 2000, 3, 50.0)
    '500 of 2,000 done, 3 failed, 10.0/s, about 2 min 30 s left'
    >>> progress_text(0, 2, 0, 1.0)
    '0 of 2 done'
    """
    parts = [f"{done:,} of {total:,} done"]
    if failed:
        parts.append(f"{failed:,} failed")
    rate = (done - known) / seconds if seconds > 0 else 0.0
    if rate:
        left = round((total - done) / rate)
        parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each")
        parts.append(f"about {_time(left)} left")
    return ", ".join(parts)


def _time(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
