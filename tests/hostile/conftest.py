"""Hostile exports: the command line, a time limit for each run, and strings and files that no exporter writes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from irtools.ir.reading import set_read_limit
from tests.cli.conftest import Done, cli, process  # noqa: F401

SECONDS = 60
TRACE = re.compile(r"Traceback|defect of irtools|the rule \S+ .* failed")


class HangError(BaseException):
    """A run above its time limit; not an ``Exception``, so that no command reports it as its own."""


@pytest.fixture
def run(cli: Callable[..., Done]) -> Iterator[Callable[..., Done]]:  # noqa: F811
    """Run ``irtools``; a traceback, an exit code of its own and a hang are failures of the test."""

    def expire(*_: object) -> None:
        raise HangError

    def irtools(*arguments: object, codes: tuple[int, ...] = (0, 1, 2)) -> Done:
        signal.signal(signal.SIGALRM, expire)
        signal.alarm(SECONDS)
        try:
            done = cli(*arguments)
        finally:
            signal.alarm(0)
        assert done.code in codes, (arguments, done)
        assert not TRACE.search(done.out + done.err), (arguments, done)
        return done

    yield irtools
    set_read_limit(0)


def sparse(path: Path) -> None:
    """Five terabytes that take four kilobytes in an archive."""
    path.touch()
    os.truncate(path, 5 << 40)


FILES: dict[str, Callable[[Path], object]] = {
    "pipe": lambda path: os.mkfifo(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "sparse": sparse,
    "directory": lambda path: path.mkdir(),
    "circle": lambda path: path.symlink_to(path.name),
    "nowhere": lambda path: path.symlink_to("nowhere"),
    "empty": lambda path: path.touch(),
    "nested": lambda path: path.write_text("[" * 200_000),
    "zeros": lambda path: path.write_bytes(bytes(4096)),
    "number": lambda path: path.write_text('{"num_hidden_layers": ' + "9" * 5000 + "}"),
}
"""Special files by name."""


def replace(path: Path, kind: str) -> None:
    """Put a special file in place of another."""
    path.unlink(missing_ok=True)
    FILES[kind](path)
