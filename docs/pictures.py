"""Make the pictures of the documentation again: ``python docs/pictures.py``.

Draws an export with the command line, and photographs the picture and the report page with the Chromium that the
tests in ``tests/browser`` use (``tests/browser/install.sh``).
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

EXPORT = "qwen3_5_vl_trained"
FOLDER = Path(__file__).parent / "_static"
FIXTURES = Path(__file__).parent.parent / "fixtures"
ATTEMPTS = 5
PAGE_SIZE = (1400, 1720)


def irtools(*arguments: str) -> None:
    """Run a command in the folder of the fixtures, so that no path of this machine is shown."""
    command = [sys.executable, "-m", "irtools", *arguments, "--format", "json", "-q"]
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, cwd=FIXTURES, check=True, capture_output=True)
        if not json.loads(done.stdout)["models"][0].get("omitted"):
            return
    sys.exit("the machine is too busy to draw everything in time: run this again later")


def photograph(page: Path, width: int, height: int, output: Path) -> None:
    """Write what a headless Chromium shows of a page, in a window of some size."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium on PATH: run tests/browser/install.sh as root on Debian")
    with tempfile.TemporaryDirectory() as profile:
        command = [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
            *(f"--user-data-dir={profile}", f"--window-size={width},{height}", "--virtual-time-budget=10000"),
            *(f"--screenshot={output}", page.as_uri()),
        ]
        subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    """Write ``export.png`` and ``report.png``."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        drawn, page, shown = (Path(name) / file for file in ("export.png", "report.html", "shown.html"))
        irtools("render", EXPORT, "-o", str(drawn))
        width, height = struct.unpack(">II", drawn.read_bytes()[16:24])
        width, height = width // 2, height // 2  # a whole ratio: other ones blur the lines, and blur takes bytes
        shown.write_text(f'<body style="margin:0"><img src="{drawn.name}" width="{width}">', encoding="utf-8")
        photograph(shown, width, height, FOLDER / "export.png")
        irtools("report", EXPORT, "-o", str(page))
        photograph(page, *PAGE_SIZE, FOLDER / "report.png")


if __name__ == "__main__":
    main()
