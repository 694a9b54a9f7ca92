"""Loaded by pytest in the forks: what the tests run, which of them fail, and an end to each."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest
from hypothesis import Phase, settings

from tests.mutants.forks import Function, Selection

# Hypothesis need not reduce an example, since one failure is enough.
settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], deadline=None, database=None)
settings.load_profile("mutants")


class Run:
    """The selected tests, and those that failed."""

    def __init__(self, selection: Selection, running: Path, seconds: int) -> None:
        self.selection = selection
        self.seconds = seconds
        """Time of the processor for each test."""
        self.running = running
        """A file with the name of the test that runs, for when it kills the process."""
        self.failed: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = self.selection
        items[:] = [item for item in items if item.nodeid not in chosen.without]
        if chosen.only is not None:
            at = {name: position for position, name in enumerate(chosen.only)}
            items[:] = sorted((item for item in items if item.nodeid in at), key=lambda item: at[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.running.write_text(item.nodeid)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)  # its signal ends the process
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            said = str(report.longrepr).splitlines() if report.longrepr else []
            self.failed.setdefault(report.nodeid, said[-1][:120] if said else "")


class Trace:
    """For each test the functions below a folder that it calls, and its seconds of the processor."""

    def __init__(self, below: str) -> None:
        self.below = below
        self.called: dict[str, tuple[float, set[Function]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        seen: dict[int, CodeType] = {}

        def call(frame: FrameType, _event: str, _arg: object) -> None:
            seen[id(frame.f_code)] = frame.f_code  # by id: the hash of a code object goes through all of it

        begun = time.process_time()
        threading.settrace(call)
        sys.settrace(call)
        yield
        sys.settrace(None)
        threading.settrace(None)
        functions = {
            (code.co_filename.removeprefix(self.below), code.co_qualname, code.co_firstlineno)
            for code in seen.values()
            if code.co_filename.startswith(self.below)
        }
        self.called[item.nodeid] = (time.process_time() - begun, functions)
