"""What a look at an export on a hub costs: ``python -m tests.benchmarks.remote``.

The hub is that of the tests, on this machine, with 50 ms before each connection and each reply, and 1 Gbit/s for each
connection. Its exports have the graphs of real ones; the weights are spread over sparse files of 20 GB, so that
constants which lie between large weights in a real file do so here. Downloading the same repository with
huggingface_hub is measured too with ``--download``; it needs 20 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import drafting
from tests.remote.hub_server import Hub, environment

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CONSTANT = re.compile(rb'(<data element_type="\w+" shape="[\d, ]*" offset=")(\d+)(" size=")(\d+)"')
SMALL = 4096  # bytes; what is larger counts as weights and grows
DOWNLOAD = "import sys, huggingface_hub as h; h.snapshot_download(sys.argv[1], local_dir=sys.argv[2])"


@dataclass(frozen=True)
class Cost:
    """One command: what the servers sent, and how long it took."""

    work: str
    requests: int
    weights: int
    sent: int
    seconds: float


def stretch(source: Path, target: Path, size: int) -> int:
    """Copy an export and let its ``.bin`` files have ``size`` bytes in all; returns the bytes of its XML.

    Behind each large constant there is a hole in proportion to it, in the order of the original. Shapes and values
    stay.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.bin"))
    pairs = [(xml, source / xml.with_suffix(".bin").name) for xml in sorted(target.glob("*.xml"))]
    factor = size / sum(weights.stat().st_size for _, weights in pairs)
    for xml, weights in pairs:
        text = xml.read_bytes()
        places: dict[tuple[int, int], int] = {}
        grown = 0
        for offset, length in sorted({(int(found[2]), int(found[4])) for found in CONSTANT.finditer(text)}):
            places[offset, length] = offset + grown
            grown += int(length * (factor - 1)) // 64 * 64 if length > SMALL else 0

        def moved(found: re.Match[bytes], places: dict[tuple[int, int], int] = places) -> bytes:
            place = places[int(found[2]), int(found[4])]
            return b'%b%d%b%b"' % (found[1], place, found[3], found[4])

        xml.write_bytes(CONSTANT.sub(moved, text))
        whole = weights.read_bytes()
        with (target / weights.name).open("wb") as file:
            for (offset, length), place in places.items():
                file.seek(place)
                file.write(whole[offset : offset + length])
            file.truncate(max(place + length for (_, length), place in places.items()))
    return sum(xml.stat().st_size for xml, _ in pairs)


def cost(work: str, hub: Hub, arguments: list[str], variables: dict[str, str]) -> Cost:
    """Run one command in a process of its own."""
    hub.clear()
    started = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} exited with {done.returncode}:\n{done.stderr}")
    return Cost(work, len(hub.requests), hub.cdn.sent(), hub.sent(), seconds)


def look(hub: Hub, name: str, export: Path, scratch: Path) -> list[Cost]:
    """Costs of looking at one export of the hub, and whether the findings are those on the disk."""
    variables = {**os.environ, **environment(hub, scratch / "home"), "XDG_CACHE_HOME": str(scratch / "cache")}
    url = f"hf://org/{name}"
    shutil.rmtree(scratch / "cache", ignore_errors=True)
    base = ["-m", "irtools"]
    rows = [
        cost(f"{name}: verify, nothing in the cache", hub, [*base, "verify", url], variables),
        cost(f"{name}: verify again", hub, [*base, "verify", url], variables),
        cost(f"{name}: inspect, after verify", hub, [*base, "inspect", url], variables),
    ]
    for command in ("locate", "inspect"):
        shutil.rmtree(scratch / "cache", ignore_errors=True)
        rows.append(cost(f"{name}: {command}, nothing in the cache", hub, [*base, command, url], variables))
    if findings(url, variables) != findings(str(export), variables):
        raise SystemExit(f"the findings of {url} are not those of {export}")
    return rows


def findings(path: str, variables: dict[str, str]) -> object:
    command = [sys.executable, "-m", "irtools", "verify", "--format", "json", path]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.replace(json.dumps(path)[1:-1], "EXPORT"))["models"][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds of a round trip")
    parser.add_argument("--rate", type=float, default=125e6, help="bytes per second of a connection")
    parser.add_argument("--size", type=float, default=20e9, help="bytes of weights of an export")
    parser.add_argument("--download", action="store_true", help="also download a repository, whole")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="irtools-remote-") as folder:
        scratch = Path(folder)
        wide = drafting.wide_export(scratch)
        exports = {"scale": FIXTURES / "scale", "wide": wide}
        rows = []
        with Hub(latency=options.latency, rate=options.rate) as hub:
            for name, source in exports.items():
                export = scratch / "served" / name
                stretch(source, export, int(options.size))
                hub.add(f"org/{name}", export)
                rows += look(hub, name, export, scratch)
            if options.download:
                variables = {**os.environ, **environment(hub, scratch / "home")}
                arguments = ["-c", DOWNLOAD, "org/wide", str(scratch / "downloaded")]
                rows.append(cost("wide: download", hub, arguments, variables))
    sys.stdout.write(f"{'command':44}{'requests':>9}{'from the CDN':>16}{'in all':>16}{'seconds':>9}\n")
    for row in rows:
        figures = f"{row.requests:9,}{row.weights:16,}{row.sent:16,}{row.seconds:9.1f}"
        sys.stdout.write(f"{row.work:44}{figures}\n")


if __name__ == "__main__":
    main()
