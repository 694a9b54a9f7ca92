"""Check the pages: sessions, Python examples, names in the code, links and files, and the picture of the layers.

    python docs/check.py          exit code 1 and a diff or a line for each fault
    python docs/check.py --fix    write the output of the commands into the pages

A session is a fenced block marked ``console``: a line that starts with ``$ `` is a command for the
shell, the lines up to the next one are its output (stdout and stderr). The sessions of a page
share one empty directory, in which ``fixtures`` leads to those of the repository. Blocks marked
``python`` run there afterwards, each on its own, and must not fail.

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
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
PIECES = ROOT / "CONTRIBUTING.md"
"""Page whose blocks are not run, because they are pieces of files to write."""
_SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the given pages or all of them; ``--fix`` rewrites the sessions."""
    parser = argparse.ArgumentParser(description="Check the documentation.")
    parser.add_argument("--fix", action="store_true", help="write the output of the sessions into the pages")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    subprocess.run([sys.executable, str(ROOT / "fixtures" / "pack.py")], check=True, stdout=subprocess.DEVNULL)
    stale = wrong = 0
    for page in options.pages or [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]:
        for fault in faults(page.resolve()):
            wrong += 1
            sys.stdout.write(f"{page}: {fault}\n")
        if page.resolve() == PIECES:
            continue
        text = page.read_text()
        fresh, failed = replay(text)
        wrong += failed
        if fresh == text:
            continue
        if options.fix:
            page.write_text(fresh)
        else:
            stale += 1
            names = (str(page), f"{page}, run now")
            sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), fresh.splitlines(True), *names))
    if not options.pages:
        wrong += subprocess.run([sys.executable, str(ROOT / "docs" / "layers.py"), "--check"]).returncode
    if stale:
        command = shlex.join([sys.executable, "docs/check.py", "--fix"])
        sys.stdout.write(f"The documentation is wrong; `{command}` writes the present output into it.\n")
    return 1 if wrong or stale else 0


if __name__ == "__main__":
    sys.exit(main())
