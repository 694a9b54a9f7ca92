"""Real Dask clusters on this machine: a scheduler and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cluster", "running"]

ROOT = Path(__file__).resolve().parents[2]
MEMORY = "500MB"


@dataclass
class Cluster:
    """A running cluster.

    Attributes
    ----------
    address : str
        Of the scheduler.
    """

    address: str
    scheduler: subprocess.Popen[bytes]

    def workers(self) -> list[int]:
        """Process numbers of the workers that are there now."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            return list(client.run(os.getpid).values())


@contextmanager
def _process(*arguments: str | Path, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{arguments[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *map(str, arguments), "--no-dashboard"],
            cwd=directory,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def running(directory: Path, *, workers: int = 2, nanny: bool = True) -> Iterator[Cluster]:
    """Start a cluster; a nanny starts a worker again when it dies."""
    file = directory / "scheduler.json"
    with ExitStack() as processes:
        scheduler = processes.enter_context(
            _process("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, directory=directory)
        )
        ending = time.monotonic() + 60
        while not file.exists() or not file.read_text().strip():
            assert time.monotonic() < ending, (directory / "scheduler.log").read_text()
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        options = ["worker", address, "--nthreads", "1", "--memory-limit", MEMORY]
        if nanny and workers:
            processes.enter_context(_process(*options, "--nworkers", str(workers), directory=directory))
        for _ in range(0 if nanny else workers):
            processes.enter_context(_process(*options, "--no-nanny", directory=directory))
        yield Cluster(address, scheduler)
