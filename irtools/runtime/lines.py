"""Talk to a process of our own in lines of JSON: requests go in, progress and one answer each come out.

What runs native code runs in such a process: a faulty export can end it or keep it busy for ever,
and when it ends its memory is back.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from irtools.runtime.process import start

__all__ = ["Child", "Progress", "Reply", "serve"]

Progress = Callable[[str], None]
"""Takes what is being done, as a clause."""

_LAST_WORDS = 20


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a request.

    Attributes
    ----------
    value : object
        The answer; None when the process ended.
    ended : str
        How the process ended instead of answering, as a clause; ``""`` when it answered.
    seconds : float
        From the request to the answer.
    """

    value: Any
    ended: str = ""
    seconds: float = 0.0


class Child:
    """A process that takes requests one after the other. A context manager: it ends with the block.

    Parameters
    ----------
    module : str
        Run as ``python -m module``; it calls :func:`serve`.
    bare : bool
        See :func:`~irtools.runtime.process.start`.
    """

    def __init__(self, module: str, *, bare: bool = False) -> None:
        self._process = start(module, stderr=subprocess.PIPE, bare=bare)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._words: deque[bytes] = deque(maxlen=_LAST_WORDS)
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._told = 0
        # Threads, not `select`, which takes no pipes on Windows; they end with the process.
        self._threads = [
            threading.Thread(target=_drain, args=(self._process.stdout, self._lines.put), daemon=True),
            threading.Thread(target=_drain, args=(self._process.stderr, self._words.append), daemon=True),
            threading.Thread(target=_pour, args=(self._process.stdin, self._requests.get), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it can take another request."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._requests.put(b"")
        self._process.wait()
        for thread in self._threads:
            thread.join(5)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):  # what was not flushed when it died
                    stream.close()

    def leave(self) -> None:
        """End the process, but do not wait until the system has taken its memory apart."""
        self._process.kill()
        threading.Thread(target=self.close, daemon=True).start()

    def tell(self, request: object) -> None:
        """Send a request and return at once; the next :meth:`ask` passes over its answer."""
        self._told += 1
        self._send(request)

    def _send(self, request: object) -> None:
        # By a thread: a process that is busy for ever takes no long request either.
        self._requests.put(json.dumps(request).encode() + b"\n")

    def ask(self, request: object, *, timeout: float, progress: Progress | None = None) -> Reply:
        """Send a request and wait for its answer.

        Parameters
        ----------
        request : object
            JSON.
        timeout : float
            Seconds without an answer or a sign of progress after which the process is ended.
        progress : callable, optional
            Called with what the process says that it is doing.
        """
        began = time.monotonic()
        self._send(request)
        deadline = time.monotonic() + timeout
        while True:
            line = self._next_line(deadline)
            if line is None:
                self.close()
                ended = f"the process gave no sign of life for {timeout:.0f} s and was ended"
                return Reply(None, ended, time.monotonic() - began)
            if not line:
                return Reply(None, self._how_it_ended(), time.monotonic() - began)
            message = json.loads(line)
            if "answer" in message:
                if not self._told:
                    return Reply(message["answer"], "", time.monotonic() - began)
                self._told -= 1
            elif progress is not None:
                progress(message["progress"])
            deadline = time.monotonic() + timeout

    def _next_line(self, deadline: float) -> bytes | None:
        """A whole line; empty when the process ended, None when time is up."""
        try:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            return None
        if line.endswith(b"\n"):
            return line
        self._lines.put(b"")  # for whoever asks again
        return b""

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        for thread in self._threads[:2]:
            thread.join(5)
        words = [text for line in self._words if (text := line.decode("utf-8", "replace").strip())]
        said = f", and said {words[-1][:300]!r}" if words else ""
        return f"the process ended with {_exit(code)}{said}"


def _exit(code: int) -> str:
    if code >= 0:
        return f"code {code}"
    try:
        return f"code {code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"code {code}"


def _drain(stream: IO[bytes] | None, take: Callable[[bytes], object]) -> None:
    """Hand on every line of a stream, and an empty one at its end."""
    assert stream is not None
    with suppress(ValueError, OSError):  # closed while it was read
        for line in stream:
            take(line)
    take(b"")


def _pour(stream: IO[bytes] | None, give: Callable[[], bytes]) -> None:
    """Write what there is to write, up to an empty line."""
    assert stream is not None
    with suppress(ValueError, OSError):  # it ended: whoever waits for its answer sees it
        while line := give():
            stream.write(line)
            stream.flush()


def serve(handle: Callable[[Any, Progress], Any]) -> None:
    """Answer requests from stdin until it closes; runs in the process.

    Parameters
    ----------
    handle : callable
        Takes a request and a callable for progress; returns the answer, JSON.
    """
    # Whatever native code prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    for line in sys.stdin:
        write({"answer": handle(json.loads(line), lambda text: write({"progress": text}))})
