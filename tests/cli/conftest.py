"""Run the command line in this process, in a new process or on a terminal."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import pytest

from irtools.cli import main
from tests.in_process import collected_later


@dataclass
class Done:
    code: int
    out: str
    err: str = ""


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run ``irtools`` in this process."""

    def run(*arguments: object) -> Done:
        with collected_later(), pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, out, err)

    return run


def command(*arguments: object) -> list[str | bytes]:
    tail = [argument if isinstance(argument, bytes) else str(argument) for argument in arguments]
    return [sys.executable, "-m", "irtools", *tail]


@pytest.fixture
def process() -> Callable[..., Done]:
    """Run ``irtools`` as a process whose output goes to pipes."""

    def run(*arguments: object, cwd: Path | None = None, **environment: str) -> Done:
        done = subprocess.run(
            command(*arguments),
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        encoding = environment.get("PYTHONIOENCODING", "utf-8")
        return Done(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))

    return run


@pytest.fixture
def terminal() -> Callable[..., Done]:
    """Run ``irtools`` on a terminal; stdout and stderr are one. Erased text, such as progress, is left out."""

    def run(*arguments: object, width: int, progress: bool = False, **environment: str) -> Done:
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
        child = subprocess.Popen(
            command(*arguments),
            env={**variables, "TERM": "xterm", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        pieces = []
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # EIO: the child has closed its end
                break
            if not piece:
                break
            pieces.append(piece)
        os.close(ours)
        out = b"".join(pieces).decode().replace("\r\n", "\n")
        return Done(child.wait(), out if progress else re.sub(r"[^\n]*\x1b\[2K", "", out))

    return run
