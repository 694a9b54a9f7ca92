"""Check the pages: sessions, Python examples, names in the code, links and files, and the picture of the layers.

    python docs/check.py          exit code 1 and a diff or a line for each fault
    python docs/check.py --fix    write the output of the commands into the pages

A session is a fenced block marked ``console``: a line that starts with ``$ `` is a command for the
shell, the lines up to the next one are its output (stdout and stderr). In a session marked ``console varies``, the
values of numbers may differ: times, for example. A block marked ``python`` must not fail; a block ``text output``
right after it is what it prints. The blocks of a page run in their order, in one empty directory, in which
``fixtures`` leads to those of the repository. A block that cannot run here says so: ``sh needs-network``,
``python needs-checkpoint``, ``sh needs-server``.

Outside of fenced blocks, every dotted name that begins with ``irtools.`` must resolve, as must ``Class.member`` in
backquotes for a public class. Relative links and their anchors must lead somewhere. A path in backquotes that begins
with a directory of the repository must exist, except after the words "new file".
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
PIECES = ROOT / "CONTRIBUTING.md"
"""Page whose blocks are not run, because they are pieces of files to write."""
_BLOCK = re.compile(
    r"^```console(?P<varies> varies)?\n(?P<session>.*?)^```$"
    r"|^```python\n(?P<code>.*?)^```$(?:\n\n```text output\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_UNMARKED = re.compile(r"^```((?:sh|bash|shell|python)(?: .*)?)$", re.MULTILINE)
_NEEDS = re.compile(r"(?:sh|python) needs-(?:network|checkpoint|server)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"\birtools(?:\.[A-Za-z_]\w*)+(?![\w/])")
_OWN_FILES = re.compile(r"irtools\.(?:toml|sarif|xml|html)")
_MEMBER = re.compile(r"`([A-Z]\w*\.\w+)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NEW_FILE = re.compile(r"\bnew file\s+`[^`]+`", re.IGNORECASE)
_FILE = re.compile(r"`((?:irtools|rules|tests|docs|fixtures|\.ci)/[\w./-]*)")


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


class Replay:
    """The blocks of one page, run in their order in one empty directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failed = 0

    def page(self, text: str) -> str:
        """Text with the output of each block as it is now."""
        return _BLOCK.sub(self._block, text)

    def _block(self, match: re.Match[str]) -> str:
        if match["session"] is not None:
            return self._session(match)
        done = subprocess.run(
            [sys.executable, "-c", match["code"]], cwd=self.directory, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self.failed += done.returncode != 0
        if match["output"] is None:
            return match[0]
        return f"```python\n{match['code']}```\n\n```text output\n{done.stdout}```"

    def _session(self, match: re.Match[str]) -> str:
        commands = [line for line in match["session"].splitlines() if line.startswith("$ ")]
        lines = [f"{command}\n{run(command[2:], self.directory)}" for command in commands]
        fresh = f"```console{match['varies'] or ''}\n" + "".join(lines) + "```"
        return match[0] if match["varies"] and _masked(fresh) == _masked(match[0]) else fresh


def _masked(block: str) -> str:
    """Block without the values of its numbers, and without what their widths move."""
    return re.sub(r"[ -]+", " ", re.sub(r"\d+(?:[.,]\d+)*", "0", block))


def replay(text: str) -> tuple[str, int]:
    """Page with the present output of every block, and how many Python blocks failed."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "fixtures").symlink_to(ROOT / "fixtures")
        blocks = Replay(directory)
        return blocks.page(text), blocks.failed


def resolves(name: str) -> bool:
    """True if a dotted name is a module, or leads from a module to an attribute or annotated field."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return part == parts[-1] and part in getattr(found, "__annotations__", {})
            found = getattr(found, part)
        return True
    return False


def public(name: str) -> Iterator[ModuleType]:
    """Public modules that have a name."""
    modules = (
        importlib.import_module(module)
        for module in ("irtools", "irtools.authoring", "irtools.edits", "irtools.errors")
    )
    return (module for module in modules if name in module.__all__)


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def faults(page: Path, root: Path = ROOT) -> Iterator[str]:
    """Names, links and files of a page that do not exist."""
    text = _FENCED.sub("", page.read_text())
    for name in sorted(set(_NAME.findall(text))):
        if not _OWN_FILES.fullmatch(name) and not resolves(name):
            yield f"there is no {name}"
    for name in sorted(set(_MEMBER.findall(text))):
        if not all(resolves(f"{module.__name__}.{name}") for module in public(name.partition(".")[0])):
            yield f"there is no {name}"
    for link in sorted(set(_LINK.findall(text))):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if ":" in path:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"the link {link} leads nowhere"
    for file in sorted(set(_FILE.findall(_NEW_FILE.sub("", text)))):
        if not (root / file).exists():
            yield f"there is no {file}"
    for mark in sorted(set(_UNMARKED.findall(page.read_text()))) if page != PIECES else ():
        if mark != "python" and not _NEEDS.fullmatch(mark):
            yield f"a block marked {mark!r} is not run: make it `console` or `python`, or say what it needs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the given pages or all of them; ``--fix`` rewrites the sessions."""
    parser = argparse.ArgumentParser(description="Check the documentation.")
    parser.add_argument("--fix", action="store_true", help="write the output of the sessions into the pages")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    subprocess.run([sys.executable, str(ROOT / "fixtures" / "pack.py")], check=True, stdout=subprocess.DEVNULL)
    pages = options.pages or [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = sum(pool.map(lambda page: check(page.resolve(), fix=options.fix), pages))
    if not options.pages:
        wrong += subprocess.run([sys.executable, str(ROOT / "docs" / "layers.py"), "--check"]).returncode
    return 1 if wrong else 0


def check(page: Path, *, fix: bool) -> int:
    """Number of faults of a page, after telling each."""
    lines = [f"{page}: {fault}\n" for fault in faults(page)]
    wrong = len(lines)
    if page != PIECES:
        text = page.read_text()
        fresh, failed = replay(text)
        if failed:
            lines.append(f"{page}: {failed} Python blocks failed\n")
            wrong += failed
        if fresh != text and fix:
            page.write_text(fresh)
        elif fresh != text:
            wrong += 1
            lines.extend(difflib.unified_diff(text.splitlines(True), fresh.splitlines(True), str(page), "run now"))
            command = shlex.join([sys.executable, "docs/check.py", "--fix", str(page)])
            lines.append(f"The page is wrong; `{command}` writes the present output into it.\n")
    sys.stdout.write("".join(lines))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
