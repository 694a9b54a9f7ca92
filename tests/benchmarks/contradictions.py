"""Repeat a benchmark beside a loop that loads one core: python tests/benchmarks/contradictions.py [EXPORT [RUNS]].

Exit code 1 if one recommendation is on and another one off.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from irtools.bench.settings import BenchSettings
from irtools.export import open_export

EXPORT = Path(__file__).parents[2] / "fixtures" / "qwen3_5_vl_trained"
SETTINGS = BenchSettings(assistant_tokens=(1, 2), classes=("code", "prose"))


def main(export: Path, runs: int) -> int:
    """Print the recommendation of each run."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        decisions = set()
        for number in range(runs):
            found = open_export(export).bench(SETTINGS).record["recommendation"]
            decisions.add(found["decision"])
            figure = found["speed_up"]
            shown = f"{figure['median']:.2f} ({figure['low']:.2f}-{figure['high']:.2f})" if figure else ""
            print(number + 1, found["decision"], found["row"], shown, flush=True)
    finally:
        loop.kill()
    return int({"on", "off"} <= decisions)


if __name__ == "__main__":
    export, runs = [*sys.argv[1:], *[str(EXPORT), "10"][len(sys.argv) - 1 :]]
    sys.exit(main(Path(export), int(runs)))
