"""Child processes: their end is reported, and nothing that they start outlives them or their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from irtools.runtime.child import Child

CHILD = """
import multiprocessing, os, sys, time
from irtools.runtime.child import serve

forking = multiprocessing.get_context("fork")
seen = []
sys.addaudithook(lambda event, _: seen.append(event))

def hold(fifo, open):
    os.open(fifo, os.O_WRONLY)
    open.set()
    time.sleep(60)

def handle(request, progress):
    progress("working")
    os.write(1, b"native noise\\n")
    if request == "abort":
        print("terminate called", file=sys.stderr, flush=True)
        os.abort()
    if request == "hang":
        time.sleep(60)
    if request == "raise":
        raise ValueError("no such request")
    if request == "openvino":
        import openvino
        wanted = ("os.fork", "os.posix_spawn", "subprocess.Popen", "socket.")
        return ["openvino.tools.ovc" in sys.modules, [event for event in seen if event.startswith(wanted)]]
    if isinstance(request, dict):
        open = forking.Event()
        forking.Process(target=hold, args=(request["fifo"], open)).start()
        open.wait()
        if request["then"] == "end":
            os._exit(3)
        if request["then"] == "hang":
            time.sleep(60)
    return request

serve(handle)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "irtools_test_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    return "irtools_test_child"


@pytest.fixture
def writers(tmp_path: Path) -> Callable[[bool], bool]:
    """Wait until a process that keeps the FIFO open is there, or gone."""
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)

    def present() -> bool:
        try:
            return os.read(reader, 1) != b""
        except BlockingIOError:
            return True

    def wait(wanted: bool) -> bool:
        deadline = time.monotonic() + 20
        while present() != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return present() == wanted

    return wait


def test_a_process_that_dies_or_hangs_is_reported(module: str) -> None:
    said: list[str] = []
    with Child(module) as child:
        assert child.ask([1, "ü"], timeout=30, progress=said.append).value == [1, "ü"]
        assert said == ["working"]
        ended = child.ask("abort", timeout=30).ended
        assert "SIGABRT" in ended or "code" in ended
        assert "terminate called" in ended
        assert child.ask("again", timeout=30).ended
    with Child(module) as child:
        assert "did not respond for" in child.ask("hang", timeout=0.7).ended
    with Child(module) as child:
        ended = child.ask("raise", timeout=30).ended
        assert ended == "the process ended with code 1, and said 'ValueError: no such request'"


def test_closing_ends_what_the_process_started(module: str, tmp_path: Path, writers: Callable[[bool], bool]) -> None:
    """It inherits the pipes, so they stay open without the process itself."""
    child = Child(module)
    request = {"fifo": str(tmp_path / "fifo"), "then": "answer"}
    assert child.ask(request, timeout=30).value == request
    assert writers(True)
    began = time.monotonic()
    child.close()
    assert time.monotonic() - began < 2
    assert writers(False)


def test_the_end_of_a_process_is_reported_though_what_it_started_keeps_the_pipes_open(
    module: str, tmp_path: Path, writers: Callable[[bool], bool]
) -> None:
    with Child(module) as child:
        reply = child.ask({"fifo": str(tmp_path / "fifo"), "then": "end"}, timeout=30)
        assert reply.ended.startswith("the process ended with code 3")
    assert writers(False)


def test_a_busy_process_ends_with_its_parent(module: str, tmp_path: Path, writers: Callable[[bool], bool]) -> None:
    request = {"fifo": str(tmp_path / "fifo"), "then": "hang"}
    code = f"from irtools.runtime.child import Child\nChild({module!r}).ask({request!r}, timeout=60)"
    path = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    assert writers(True)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert writers(False)


def test_importing_openvino_starts_no_process_and_opens_no_connection(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)  # there, OpenVINO sends nothing anyway
    with Child(module) as child:
        assert child.ask("openvino", timeout=60).value == [True, []]
