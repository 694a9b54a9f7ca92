"""Runs of pytest in forks of one process that has imported all but the code and its tests.

A fork imports a changed module from its file, as any process does. Nothing is patched, so what modules compute when
they are imported (tables, registered rules, names that they take from one another) is that of the changed code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_CPU_SECONDS, _SECONDS = 3600, 7200
"""A run without end: by the time of the processor, since a busy machine can take any time."""
_OWN = ("irtools", "rules", "tests")
_OPTIONS = ["-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "tests.mutants.plugin"]
FAST, SLOW = "not slow", "slow"


Function = tuple[str, str, int]
"""A file below the copy, the qualified name and the first line."""


@dataclass(frozen=True)
class Selection:
    """Which of the collected tests run, and in which order."""

    only: list[str] | None = None
    without: frozenset[str] = frozenset()


class ForkError(Exception):
    """A fork ended without an answer, for a reason of its own."""


class Server:
    """Forks whose code and tests are those of a copy of the checkout."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.seconds = 0.0
        """Time of the processor of the last fork and what it started."""
        sys.dont_write_bytecode = False  # for the next fork; a changed file always has a new time
        os.environ.update(PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="")

    def preload(self, tests: list[str]) -> None:
        """Import what the tests and the code import from elsewhere."""

        def imported() -> list[str]:
            pytest.main([*_OPTIONS, "-m", FAST, "--collect-only", "-qq", *tests])
            return [name for name in sys.modules if not name.startswith("_") and name.split(".")[0] not in _OWN]

        for name in self.fork(imported) or ():
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()

    def run(self, tests: list[str], *plugins: object, most: int = 0, marked: str = FAST) -> int:
        """Run the tests with these marks until ``most`` of them fail; for ``fork``."""
        return int(pytest.main([*_OPTIONS, "-m", marked, f"--maxfail={most}", *tests], plugins=list(plugins)))

    def fork(self, work: Callable[[], Any]) -> Any:
        """The answer of ``work`` in a fork; None when the fork was killed."""
        answer = self.tree / "answer.json"
        answer.unlink(missing_ok=True)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            try:
                self._enter()
                answer.write_text(json.dumps(work()))
                os._exit(0)
            except BaseException:  # nothing of this process may go on in the fork
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(1)
        before = signal.signal(signal.SIGALRM, lambda *_: os.killpg(pid, signal.SIGKILL))
        signal.alarm(_SECONDS)
        _, status, usage = os.wait4(pid, 0)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # what a test left behind
        self.seconds = usage.ru_utime + usage.ru_stime
        if os.WIFSIGNALED(status):
            return None
        if not answer.exists():
            raise ForkError(f"A fork ended with {status} and no answer; its traceback is above.")
        return json.loads(answer.read_text())

    def _enter(self) -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
        os.chdir(self.tree)
        for name in [name for name in sys.modules if name.split(".")[0] in _OWN]:
            del sys.modules[name]
        sys.path[:] = [
            str(self.tree),
            *(entry for entry in sys.path if entry and not (Path(entry) / "irtools").is_dir()),
        ]
        importlib.invalidate_caches()
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(quiet, descriptor)
