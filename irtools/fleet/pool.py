"""Units of work in processes of this machine."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from irtools.errors import UsageError
from irtools.fleet.outcome import Outcome, failure_text

if TYPE_CHECKING:
    from pebble import ProcessPool

__all__ = ["run"]

Unit = Callable[[str], Any]

_AHEAD = 2
"""Tasks per process that are handed over before their turn, so that no process waits for the next one."""
_ENDED = 128 + 15
_GRACE = 5.0
"""Seconds after an interrupt in which work that runs can end by itself, and what it has written is reported."""
_SAFE_PATH = "PYTHONSAFEPATH"


def run(
    unit: Unit, paths: Iterable[str], *, jobs: int = 1, timeout: float | None = None
) -> Generator[Outcome, None, None]:
    """Run a unit of work for each path; see :func:`irtools.fleet.run`.

    A process that dies costs nothing but its path: that is tried once more, alone, and then reported. When the iterator
    is closed, or an exception such as ``KeyboardInterrupt`` leaves it, the processes end before it returns.

    Raises
    ------
    UsageError
        The processes cannot start.
    """
    if jobs == 1 and timeout is None:
        return _here(unit, paths)
    return _Processes(unit, jobs, timeout).run(paths)


def _here(unit: Unit, paths: Iterable[str]) -> Generator[Outcome, None, None]:
    for number, path in enumerate(paths):
        yield Outcome(number, path, *_attempt(unit, path))
        _collect(first=number == 0)


def _attempt(unit: Unit, path: str) -> tuple[Any, str | None, float]:
    """Row, failure and seconds of one path."""
    began = time.monotonic()
    try:
        row, failure = unit(path), None
    except (Exception, SystemExit) as error:
        row, failure = None, failure_text(error)
    return row, failure, time.monotonic() - began


def _collect(*, first: bool) -> None:
    """Free what the last unit left in cycles, where automatic collection is off."""
    if not gc.isenabled():
        gc.collect()
        if first:
            gc.freeze()  # what stays are modules, which later collections need not visit


# -- in the worker ---------------------------------------------------------------------

_unit: list[Unit] = []
_busy = [False]
_done = [0]


def _prepare(unit: Unit) -> None:
    """Prepare a worker process; it gets the unit once, and then only paths."""
    gc.disable()  # between units it costs less, see `_collect`
    signal.signal(signal.SIGTERM, _end)
    _unit.append(unit)


def _end(_number: int, _frame: FrameType | None) -> None:
    """End the worker; within a unit like Ctrl-C, so that no temporary file and no child process stays."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if _busy[0]:
        raise KeyboardInterrupt(signal.SIGTERM)
    os._exit(_ENDED)


def _work(path: str) -> tuple[Any, str | None, float]:
    _busy[0] = True
    try:
        result = _attempt(_unit[0], path)
    except KeyboardInterrupt:
        os._exit(_ENDED)  # at once: the pool waits for it
    finally:
        _busy[0] = False
    _collect(first=not _done[0])
    _done[0] += 1
    return result


# -- in the parent ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    number: int
    path: str
    began: float
    alone: bool = False

    def outcome(self, row: Any, failure: str | None, seconds: float | None = None) -> Outcome:
        taken = time.monotonic() - self.began if seconds is None else seconds
        return Outcome(self.number, self.path, row, failure, taken)


class _Processes:
    """A pool of processes that outlives the death of its workers."""

    def __init__(self, unit: Unit, jobs: int, timeout: float | None) -> None:
        self._unit, self._jobs, self._timeout = unit, jobs, timeout
        self._pool: ProcessPool | None = None
        self._pending: dict[Future[Any], _Task] = {}
        self._again: deque[_Task] = deque()
        self._answered = False

    def run(self, paths: Iterable[str]) -> Generator[Outcome, None, None]:
        todo = enumerate(paths)
        with _safe_path():
            try:
                while self._submit(todo):
                    wait(self._pending, return_when=FIRST_COMPLETED)
                    yield from self._settled()
            except KeyboardInterrupt:
                self._let_finish()
                yield from self._settled()
                raise
            finally:
                self._close()

    def _settled(self) -> Iterator[Outcome]:
        """Outcomes of the tasks that are done."""
        done = [future for future in self._pending if future.done() and not future.cancelled()]
        for future in sorted(done, key=lambda one: self._pending[one].number):
            task = self._pending.pop(future, None)  # a broken pool clears them
            outcome = self._settle(future, task) if task is not None else None
            if outcome is not None:
                yield outcome

    def _let_finish(self) -> None:
        """Give the tasks that run a moment, so that what they have written is reported, and cancel the others."""
        running = [future for future in self._pending if future.running()]
        for future in self._pending.keys() - set(running):
            future.cancel()
        wait(running, timeout=_GRACE)

    def _submit(self, todo: Iterator[tuple[int, str]]) -> bool:
        """Hand over tasks; False if none is left."""
        if self._again:
            if not self._pending:
                task = self._again.popleft()
                self._start(_Task(task.number, task.path, time.monotonic(), alone=True))
            return True
        while len(self._pending) < self._jobs * _AHEAD:
            number, path = next(todo, (-1, ""))
            if number < 0:
                break
            self._start(_Task(number, path, time.monotonic()))
        return bool(self._pending)

    def _start(self, task: _Task) -> None:
        if self._pool is None:
            self._pool = self._open()
        try:
            future = self._pool.schedule(_work, args=(task.path,), timeout=self._timeout)
        except RuntimeError:  # the pool broke since the last answer
            self._again.append(task)
            self._reopen()
        else:
            self._pending[future] = task

    def _open(self) -> ProcessPool:
        from multiprocessing import get_context

        from pebble import ProcessPool

        # Never `fork`: a copy of this process would have its locks, but not the threads that hold them.
        context = get_context("forkserver" if sys.platform == "linux" else "spawn")
        return ProcessPool(self._jobs, initializer=_prepare, initargs=(self._unit,), context=context)

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]
            self._pool.join()
            self._pool = None

    def _settle(self, future: Future[Any], task: _Task) -> Outcome | None:
        """The outcome of a task; None if it is tried once more."""
        from pebble import ProcessExpired

        error = future.exception()
        if error is None:
            self._answered = True
            return task.outcome(*future.result())
        if isinstance(error, TimeoutError):
            return task.outcome(None, f"took longer than {self._timeout:g} s and was stopped")
        if isinstance(error, BrokenProcessPool):
            self._reopen()
            reason = "its process ended without an answer"
        elif isinstance(error, ProcessExpired):
            reason = _how_it_ended(error.exitcode)
        else:
            return task.outcome(None, failure_text(error))
        if task.alone:
            return task.outcome(None, f"{reason}, and again when it was tried alone")
        self._again.append(task)
        return None

    def _reopen(self) -> None:
        """Close a pool that is broken; the next task opens a new one."""
        if not self._answered:
            raise UsageError(
                "the processes for --jobs do not start",
                hint="Give --jobs 1; in a script, put the call below `if __name__ == '__main__':`.",
            )
        self._again.extend(self._pending.values())
        self._pending.clear()
        self._close()


def _how_it_ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"its process ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        return "its process was killed (SIGKILL), perhaps for lack of memory"
    return f"its process was ended by {name}"


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep Python files in the working directory, often a model directory, from running in new processes."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
