"""Record how the times of passes vary on this machine: python tests/benchmarks/latencies.py FILE.

Fresh processes decode prompts plainly, first by themselves, then beside a loop that loads one core.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from irtools.bench.workload import of_classes, shipped
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob

PROCESSES, TOKENS = 8, 34
EXPORT = Path(__file__).parents[2] / "fixtures" / "qwen3_5_vl_trained"


def record() -> list[list[list[int]]]:
    """Microseconds by process, run and pass, without the first pass of a run."""
    base = GenerationJob(str(EXPORT), max_new_tokens=TOKENS, chat_template=False, reuse=True)
    prompts = of_classes(shipped(), ("code", "prose", "reasoning", "chat"))
    jobs = [replace(base, prompt=prompt.text) for prompt in prompts]
    processes = []
    for _ in range(PROCESSES):
        with closing(iterate([jobs[0], *jobs, *jobs])) as outcomes:
            runs = list(outcomes)[1:]
        processes.append([[round(seconds * 1e6) for seconds in run.timing.passes[1:]] for run in runs])
    return processes


def main(path: Path) -> None:
    """Write the file."""
    quiet = record()
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        busy = record()
    finally:
        loop.kill()
    path.write_text(json.dumps({"quiet": quiet, "busy": busy}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
