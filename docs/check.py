"""Run the sessions in the README and in docs/ again and compare what they print.

    python docs/check.py          exit code 1 and a diff where a page says something else
    python docs/check.py --fix    write what the commands print into the pages

A session is a fenced block marked ``console``: a line that starts with ``$ `` is a command for the
shell, the lines up to the next one are what it prints (stdout and stderr). The sessions of a page
share one empty directory, in which ``fixtures`` leads to those of the repository. Blocks marked
``python`` run there afterwards, each on its own, and must not fail.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command: str, directory: Path) -> str:
    """What a command prints in a terminal-less shell that finds this Python's own irtools."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "ignore", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode("utf-8", "backslashreplace")


def replay(text: str) -> tuple[str, int]:
    """Page with every session's output as it is now, and how many Python examples failed."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "fixtures").symlink_to(ROOT / "fixtures")

        def session(match: re.Match[str]) -> str:
            commands = [line for line in match[1].splitlines() if line.startswith("$ ")]
            lines = [f"{command}\n{run(command[2:], directory)}" for command in commands]
            return "```console\n" + "".join(lines) + "```"

        fresh = _SESSION.sub(session, text)
        examples = [subprocess.run([sys.executable, "-c", code], cwd=directory) for code in _EXAMPLE.findall(text)]
        return fresh, sum(done.returncode != 0 for done in examples)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, or with ``--fix`` rewrite, the pages named or all of them."""
    parser = argparse.ArgumentParser(description="Run the sessions in the documentation again.")
    parser.add_argument("--fix", action="store_true", help="write the output into the pages")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    subprocess.run([sys.executable, str(ROOT / "fixtures" / "pack.py")], check=True, stdout=subprocess.DEVNULL)
    wrong = 0
    for page in options.pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        fresh, failed = replay(text)
        wrong += failed
        if fresh == text:
            continue
        if options.fix:
            page.write_text(fresh)
        else:
            wrong += 1
            names = (str(page), f"{page}, run now")
            sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), fresh.splitlines(True), *names))
    if wrong:
        command = shlex.join([sys.executable, "docs/check.py", "--fix"])
        sys.stdout.write(f"The documentation is wrong; `{command}` writes what is printed now into it.\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
