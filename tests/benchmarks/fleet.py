"""Many exports in one process, in two, and on a Dask cluster: rows of ``make bench``.

On its own: ``python -m tests.benchmarks.fleet [NUMBER]``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.clusters import running

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
VERIFY = [sys.executable, "-m", "irtools", "verify", "-q", "--exit-zero"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Times:
    """Seconds and memory of one command on many exports.

    Attributes
    ----------
    seconds : float
        Of the whole process.
    peak : float
        MB of the process that was started, without its workers.
    """

    number: int
    seconds: float
    peak: float

    @property
    def rate(self) -> float:
        """Exports per second."""
        return self.number / self.seconds


@dataclass(frozen=True)
class Figures:
    """Many exports of one kind: with one job, with two, on a cluster of two workers, and one export alone."""

    one: Times
    two: Times
    cluster: Times
    few: Times
    alone: Times


def copies(export: Path, root: Path, number: int) -> Path:
    """Make many directories of one export; all but the small files are hard links."""
    first = root / "0000"
    shutil.copytree(export, first)
    for count in range(1, number):
        directory = root / f"{count:04}"
        directory.mkdir()
        for file in first.iterdir():
            os.link(file, directory / file.name)
    return root


def measure(export: Path, number: int, few: int, *, runs: int = 1) -> Figures:
    """Verify many copies of an export in each way by turns; the figures are those of the fastest run.

    Parameters
    ----------
    few : int
        Number of exports to compare the memory with.
    """
    with tempfile.TemporaryDirectory(prefix="irtools-fleet-") as name, running(Path(name)) as cluster:
        root = copies(export, Path(name) / "all", number)
        several = [root / f"{count:04}" for count in range(few)]
        ways: dict[str, tuple[int, Sequence[str | Path]]] = {
            "one": (number, ["--recursive", root]),
            "two": (number, ["--recursive", root, "--jobs", "2"]),
            "cluster": (number, ["--recursive", root, "--scheduler", cluster.address]),
            "few": (few, several),
            "alone": (1, [root / "0000"]),
        }
        timed(1, ["--scheduler", cluster.address, root / "0000"])  # the workers import irtools
        found: dict[str, list[Times]] = {way: [] for way in ways}
        for _ in range(runs):
            for way, (count, arguments) in ways.items():
                found[way] += [timed(count, arguments) for _ in range(1 if count > 1 else 5)]
        return Figures(**{way: min(times, key=lambda one: one.seconds) for way, times in found.items()})


def timed(number: int, arguments: Sequence[str | Path]) -> Times:
    """Run ``irtools verify`` once."""
    began = time.perf_counter()
    process = subprocess.Popen([*VERIFY, *map(str, arguments)], stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, _peak(process.pid))
        time.sleep(0.02)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"irtools verify {' '.join(map(str, arguments))} exited with {process.returncode}")
    return Times(number, seconds, peak)


def _peak(process: int) -> float:
    # Not the usage that `wait4` returns, which is that of the largest worker.
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def main() -> None:
    """Print the figures."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for name, count, few in (("llama", number, number // 10), ("scale", max(number // 40, 2), 2)):
        for way, times in vars(measure(FIXTURES / name, count, few)).items():
            line = (
                f"{name}, {way}: {times.number} exports, {times.seconds:.2f} s, {times.rate:.1f}/s, {times.peak:.0f} MB"
            )
            sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
