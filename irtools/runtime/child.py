"""Child processes that take requests and send progress and answers, as lines of JSON.

Native code runs only in such processes. A faulty export can crash them or keep them busy for ever, and their memory
is free again when they end.
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
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from irtools.timing import steps

__all__ = ["Child", "Progress", "Reply", "ask_each", "serve"]

Progress = Callable[[str], None]
"""Takes the current step, as a clause."""

_LAST_WORDS = 20


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a request.

    Attributes
    ----------
    value : object
        The answer; None if the process ended.
    ended : str
        How the process ended instead of answering, as a clause; ``""`` if it answered.
    seconds : float
        From the request to the answer.
    hung : bool
        True if the process was ended because it gave no sign of life.
    """

    value: Any
    ended: str = ""
    seconds: float = 0.0
    hung: bool = False


class Child:
    """A process that takes one request after another. As a context manager it ends with the block.

    It leads a process group, and what it starts ends with it.

    Parameters
    ----------
    module : str
        Run as ``python -m module`` with this process's module path, without the working directory: that is often
        the model directory, and Python files in it must not run. The module calls :func:`serve`.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_module_path()), "PYTHONIOENCODING": "utf-8"},
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._words: deque[bytes] = deque(maxlen=_LAST_WORDS)
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._told = 0
        # Threads, because `select` does not support pipes on Windows. They end with the process.
        self._threads = [
            threading.Thread(target=_drain, args=(self._process.stdout, self._lines.put), daemon=True),
            threading.Thread(target=_drain, args=(self._process.stderr, self._words.append), daemon=True),
            threading.Thread(target=_pour, args=(self._process.stdin, self._requests.get), daemon=True),
            threading.Thread(target=self._end_group, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """True if the process can take another request."""
        return self._process.poll() is None

    def close(self) -> None:
        """Kill the process and those that it started, and wait for its end."""
        if self.alive:
            _kill_group(self._process)
        self._requests.put(b"")
        self._process.wait()
        for thread in self._threads:
            thread.join(5)
        streams = (self._process.stdout, self._process.stderr, self._process.stdin)
        for thread, stream in zip(self._threads, streams, strict=False):
            # Closing waits for a thread that still reads: a process that left the group can keep the pipe open.
            if stream is not None and not thread.is_alive():
                with suppress(OSError):  # unflushed data
                    stream.close()

    def _end_group(self) -> None:
        # Otherwise a process that the ended one started could keep the pipes open, and `ask` would wait for a line.
        self._process.wait()
        _kill_group(self._process)

    def tell(self, request: object) -> None:
        """Send a request and return at once; the next :meth:`ask` skips its answer."""
        self._told += 1
        self._send(request)

    def _send(self, request: object) -> None:
        # A thread writes it: a busy process does not read a request that is longer than the pipe.
        self._requests.put(json.dumps(request).encode() + b"\n")

    def ask(self, request: object, *, timeout: float, progress: Progress | None = None) -> Reply:
        """Send a request and wait for its answer.

        Parameters
        ----------
        timeout : float
            Seconds without an answer or progress after which the process is killed.
        progress : callable, optional
            Called with each step that the process reports. By default the steps are told to the listener of
            :mod:`irtools.timing`.
        """
        if progress is None:
            with steps() as begin:
                return self.ask(request, timeout=timeout, progress=begin)
        began = time.monotonic()
        self._send(request)
        deadline = time.monotonic() + timeout
        while True:
            line = self._next_line(deadline)
            if line is None:
                self.close()
                ended = f"the process did not respond for {timeout:g} s and was stopped"
                return Reply(None, ended, time.monotonic() - began, hung=True)
            if not line:
                return Reply(None, self._how_it_ended(), time.monotonic() - began)
            message = json.loads(line)
            if "answer" in message:
                if not self._told:
                    return Reply(message["answer"], "", time.monotonic() - began)
                self._told -= 1
            else:
                progress(message["progress"])
            deadline = time.monotonic() + timeout

    def _next_line(self, deadline: float) -> bytes | None:
        """The next whole line; empty if the process ended, None at the deadline."""
        try:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            return None
        if line.endswith(b"\n"):
            return line
        self._lines.put(b"")  # for the next call
        return b""

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        for thread in self._threads[:2]:
            thread.join(5)
        words = [text for line in self._words if (text := line.decode("utf-8", "replace").strip())]
        message = f", and said {words[-1][:300]!r}" if words else ""
        return f"the process ended with {_exit(code)}{message}"


def _module_path() -> list[str]:
    # `python -m irtools` puts the working directory first. It stays only if irtools itself lies there.
    root = Path(__file__).resolve().parents[2]  # of an editable installation it is not on the path
    try:
        here = Path.cwd()
    except FileNotFoundError:  # deleted
        return [*filter(None, sys.path), str(root)]
    barred = {here} - {root}
    return [*(entry for entry in sys.path if entry and Path(os.path.realpath(entry)) not in barred), str(root)]


def ask_each(
    module: str, requests: Iterable[object], *, timeout: float, progress: Progress | None = None
) -> Generator[Reply, None, None]:
    """Answer requests in one process, each when the next reply is wanted; one that ends is replaced by a new one."""
    child: Child | None = None
    try:
        for request in requests:
            child = child or Child(module)
            reply = child.ask(request, timeout=timeout, progress=progress)
            if reply.ended:
                child.close()
                child = None
            yield reply
    finally:
        if child is not None:
            child.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):  # the group is empty; macOS: it has only ended processes
            os.killpg(process.pid, signal.SIGKILL)


def _exit(code: int) -> str:
    if code >= 0:
        return f"code {code}"
    try:
        return f"code {code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"code {code}"


def _drain(stream: IO[bytes] | None, take: Callable[[bytes], object]) -> None:
    """Pass every line of a stream to ``take``, and an empty one at its end."""
    assert stream is not None
    with suppress(ValueError, OSError):  # closed while it was read
        for line in stream:
            take(line)
    take(b"")


def _pour(stream: IO[bytes] | None, give: Callable[[], bytes]) -> None:
    """Write lines until ``give`` returns an empty one."""
    assert stream is not None
    with suppress(ValueError, OSError):  # the process ended; `ask` reports it
        while line := give():
            stream.write(line)
            stream.flush()


def serve(handle: Callable[[Any, Progress], Any]) -> None:
    """Answer requests from stdin with ``handle(request, progress)``. Runs in the child process.

    The process ends when stdin closes, also amid a request: the parent is gone then. No module may have imported
    OpenVINO before this call.
    """
    # OpenVINO would send an event over the network on import, from a process that it forks.
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    # Output of native code must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests.put,), daemon=True).start()
    while True:
        write({"answer": handle(json.loads(requests.get()), lambda text: write({"progress": text}))})


def _receive(take: Callable[[str], object]) -> None:
    """Pass every line of stdin to ``take``, and end the process and those that it started at its end."""
    # Not `sys.stdin`: Python aborts if a thread still reads that when the main thread ends with an exception.
    with os.fdopen(os.dup(0), encoding="utf-8") as requests:
        for line in requests:
            take(line)
    if sys.platform != "win32" and os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
