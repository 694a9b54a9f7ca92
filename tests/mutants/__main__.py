"""How many small changes to the code does a test notice? ``make mutants MUTANTS=100 SEED=1``.

Changes are drawn at random from the packages below, in the given numbers, and made in a copy of the checkout. First
all tests run once without a change: those that fail count for no change, and each shows which functions it calls. Then
the tests that call a changed function run with each change alone, the fastest first. The changes that are left are made
together, and all fast tests of their areas run, then the slow ones; a test that fails runs again with each change
alone. A change that no test of its area notices counts as unnoticed; tests of other areas do not run. Equivalent
changes are not recognised: read the list.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from tests.mutants.changes import Change, changes
from tests.mutants.forks import FAST, SLOW, Function, Selection, Server

ROOT = Path(__file__).resolve().parents[2]
AREAS = {
    "irtools/decoder": (20, "tests/decoder tests/anatomy tests/cli/test_locate.py tests/cli/test_annotate.py"),
    "irtools/ir": (
        18,
        "tests/ir tests/graph tests/model tests/surgery tests/hostile tests/fuzz/test_finds.py tests/remote",
    ),
    "irtools/surgery": (
        15,
        "tests/surgery tests/cli/test_annotate.py tests/cli/test_extract.py tests/cli/test_expose.py tests/hostile",
    ),
    "irtools/lint": (10, "tests/lint tests/cli/test_verify.py tests/rules tests/report/test_verification.py"),
    "rules": (15, "tests/rules tests/lint/test_clean.py tests/lint tests/decoder tests/model"),
    "irtools/prove": (10, "tests/prove tests/cli/test_prove.py"),
    "irtools/graph": (5, "tests/graph tests/decoder tests/surgery tests/model"),
    "irtools/model": (7, "tests/model tests/rules tests/lint tests/report tests/cli"),
}
_OF_FILE, _LIKELY, _TOGETHER = 6, 40, 30
_SECONDS = {FAST: 20, SLOW: 200}
"""Time of the processor after which a test is in a loop without end."""
_COSTLY = {"tests/cli", "tests/report"}
"""Tests that are not run first: most start processes, of which the calls are not seen."""


def draw(number: int, seed: int) -> list[Change]:
    """Random changes, spread over the areas as given, and over the lines of each evenly."""
    rng = random.Random(seed)
    total = sum(share for share, _ in AREAS.values())
    drawn: list[Change] = []
    for area, (share, _) in AREAS.items():
        files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / area).rglob("*.py"))
        found = [change for file in files for change in changes(ROOT, file)]
        lines = sorted({(change.file, change.line) for change in found})
        for file, line in rng.sample(lines, round(number * share / total)):
            here = [change for change in found if (change.file, change.line) == (file, line)]
            drawn.append(rng.choice(here))
    rng.shuffle(drawn)
    return drawn


def copy_tree(to: Path) -> None:
    """Copy what the tests need; fixtures are links, so nothing may write in them."""
    for name in ("irtools", "rules", "tests", "docs"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copyfile(ROOT / name, to / name)
    (to / "fixtures").symlink_to(ROOT / "fixtures")
    # An editable install maps irtools.rules to the checkout; a package in the folder goes before it.
    (to / "irtools" / "rules").symlink_to(to / "rules")


@dataclass
class Judge:
    """Makes changes in a copy, one after the other, and runs the tests."""

    server: Server
    called: dict[Function, dict[str, float]] = field(default_factory=dict)
    """For each function the tests that call it, with their seconds."""
    bad: frozenset[str] = frozenset()
    """Tests that fail without a change."""
    times: int = 0
    seconds: float = 0.0
    """Of the processor, for the last change."""

    def learn(self, tests: list[str]) -> None:
        """Run the tests once without a change."""
        self.server.preload(tests)

        def traced() -> list[object]:
            from tests.mutants.plugin import Run, Trace

            run, trace = Run(Selection(), self.server.tree / "running", _SECONDS[FAST]), Trace(f"{self.server.tree}/")
            self.server.run(tests, run, trace)
            return [run.failed, [(name, seconds, list(found)) for name, (seconds, found) in trace.called.items()]]

        answer = self.server.fork(traced)
        if answer is None:
            raise SystemExit("The tests were killed before any change was made.")
        failed, called = answer
        self.bad = frozenset(failed)
        for name, seconds, functions in called:
            for file, function, line in functions:
                # irtools/rules is a link in the copy
                key = (file.replace("irtools/rules/", "rules/"), function, line)
                self.called.setdefault(key, {})[name] = seconds

    def judge_all(self, changes: list[Change]) -> Iterator[tuple[Change, str]]:
        """Each change and why it is noticed; empty if it is not.

        First the likely tests run with each change alone. The changes that are left are then made together, and
        all tests run, the fast ones first; what fails runs again with each change alone, until nothing fails.
        """
        left: list[Change] = []
        for change in changes:
            why = self.alone(change, self._likely(change))
            if why:
                yield change, why
            else:
                left.append(change)
        for marked in (FAST, SLOW):
            while left and (failed := self._together(left, marked)):
                found: list[Change] = []
                for change in left:
                    names = [name for name in failed if name.startswith(tuple(_places(change)))]
                    if why := self.alone(change, names, marked):
                        found.append(change)
                        yield change, why
                if not found:  # only together, in an order of their own, or without any change
                    self.bad |= frozenset(failed)
                left = [change for change in left if change not in found]
        for change in left:
            yield change, ""

    def alone(self, change: Change, names: list[str], marked: str = FAST) -> str:
        """The test that fails with one change, of those that are given; empty if there is none."""
        self.seconds = 0.0
        try:
            ast.parse(change.apply((self.server.tree / change.file).read_text()))
        except SyntaxError:
            return "no syntax"
        if not names:
            return ""
        with self._made([change]):
            failed = self._failed(files_of(names), Selection(only=names, without=self.bad), 1, marked)
        self.seconds = self.server.seconds
        return " ".join(next(iter(failed.items()))) if failed else ""

    def _together(self, changes: list[Change], marked: str) -> dict[str, str]:
        places = sorted({place for change in changes for place in _places(change)})
        with self._made(changes):
            failed = self._failed(places, Selection(without=self.bad), _TOGETHER, marked)
        done = f"{self.server.seconds:.0f} s, {len(failed)} tests fail"
        print(f"{len(changes)} changes together, tests {marked}: {done}", flush=True)
        return failed

    def _failed(self, places: list[str], selection: Selection, most: int, marked: str) -> dict[str, str]:
        def run() -> list[object]:
            from tests.mutants.plugin import Run

            plugin = Run(selection, self.server.tree / "running", _SECONDS[marked])
            return [self.server.run(places, plugin, most=most, marked=marked), plugin.failed]

        answer = self.server.fork(run)
        if answer is None:
            return {(self.server.tree / "running").read_text(): "killed"}
        code, failed = answer
        if not failed and code not in (0, 5):  # a conftest.py cannot be imported
            return dict.fromkeys(places, f"pytest ended with {code}")
        return dict(failed)

    @contextmanager
    def _made(self, changes: list[Change]) -> Iterator[None]:
        """Changes in the copy; they are taken back at the end."""
        files = {change.file for change in changes}
        before = {path: (path.read_text(), path.stat()) for path in (self.server.tree / file for file in files)}
        # Byte code is valid for a time in seconds and a size: each changed file has a time of its own.
        self.times += 1
        try:
            for path, (source, status) in before.items():
                # From the end of the file, so that the places of those before it stay.
                for change in sorted(changes, key=lambda change: (change.line, change.start), reverse=True):
                    if self.server.tree / change.file == path:
                        source = change.apply(source)
                path.write_text(source)
                os.utime(path, (status.st_mtime + self.times, status.st_mtime + self.times))
            yield
        finally:
            for path, (source, status) in before.items():
                path.write_text(source)
                os.utime(path, (status.st_mtime, status.st_mtime))

    def _likely(self, change: Change) -> list[str]:
        """Tests that call the changed function, the fastest and a few of each file, and its doctests."""
        source = (self.server.tree / change.file).read_text()
        calling = self.called.get(_function(change, source), {})
        return _spread(sorted(calling.keys() - self.bad, key=lambda name: calling[name]))


def files_of(names: list[str]) -> list[str]:
    """The files of tests, each once."""
    return list(dict.fromkeys(name.partition("::")[0] for name in names))


def _places(change: Change) -> list[str]:
    """Where the tests of a change are."""
    (places,) = (places for area, (_, places) in AREAS.items() if change.file.startswith(f"{area}/"))
    doctests = [change.file] if ">>>" in (ROOT / change.file).read_text() else []
    return [*doctests, *places.split()]


def _spread(names: list[str]) -> list[str]:
    """A few of each file."""
    kept: list[str] = []
    files: Counter[str] = Counter()
    for name in names:
        file = name.partition("::")[0]
        files[file] += 1
        if files[file] <= _OF_FILE and len(kept) < _LIKELY:
            kept.append(name)
    return kept


def _function(change: Change, source: str) -> Function:
    """The innermost function that has the changed line."""

    def inside(code: CodeType) -> Iterator[CodeType]:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from inside(constant)

    at = [
        code
        for code in inside(compile(source, change.file, "exec"))
        if any(line == change.line for _, _, line in code.co_lines()) and not code.co_qualname.endswith("comp>")
    ]
    last = max(at, key=lambda code: code.co_firstlineno, default=None)
    return (change.file, last.co_qualname, last.co_firstlineno) if last else (change.file, "", 0)


def main() -> int:
    """Draw, run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "mutants.jsonl", help="a draw goes on from here")
    parser.add_argument("--list", action="store_true", help="print the changes and run nothing")
    options = parser.parse_args()
    drawn = draw(options.number, options.seed)
    print(f"seed {options.seed}: {len(drawn)} changes", flush=True)
    if options.list:
        print("\n".join(map(shown, drawn)))
        return 0
    options.log.parent.mkdir(parents=True, exist_ok=True)
    known = judged(options.log, options.seed)
    waiting = [change for change in drawn if shown(change) not in known]
    if waiting:
        _judge_all(waiting, options.seed, options.log)
    known = judged(options.log, options.seed)
    missed = [name for change in drawn if not known[name := shown(change)]]
    print(f"seed {options.seed}: {len(drawn)} changes, {len(drawn) - len(missed)} noticed, {len(missed)} not:")
    print("\n".join(f"  {name}" for name in missed))
    return 0


def _judge_all(waiting: list[Change], seed: int, log: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="irtools-mutants-") as scratch:
        tree = Path(scratch).resolve()
        copy_tree(tree)
        judge = Judge(Server(tree))
        judge.learn(sorted({place for change in waiting for place in _places(change)} - _COSTLY))
        print(
            f"tests: {judge.server.seconds:.0f} s, {len(judge.bad)} fail without a change",
            *judge.bad,
            sep="\n  ",
            flush=True,
        )
        for change, why in judge.judge_all(waiting):
            found, seconds = bool(why), judge.seconds
            print(f"{'noticed' if found else 'UNNOTICED'} {seconds:.1f} s  {shown(change)}  {why}", flush=True)
            entry = {
                "seed": seed,
                "change": shown(change),
                "noticed": found,
                "by": why[:200],
                "seconds": round(seconds, 1),
            }
            with log.open("a") as lines:
                lines.write(json.dumps(entry) + "\n")


def judged(log: Path, seed: int) -> dict[str, bool]:
    """Changes of the same draw that the log has, and whether they were noticed."""
    entries = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return {entry["change"]: entry["noticed"] for entry in entries if entry["seed"] == seed}


def shown(change: Change) -> str:
    """Place, line and new text of a change."""
    line = (ROOT / change.file).read_text().splitlines()[change.line - 1].encode()
    after = (
        line[: change.start]
        + b"["
        + line[change.start : change.end]
        + b" -> "
        + change.new.encode()
        + b"]"
        + line[change.end :]
    ).decode()
    return f"{change.file}:{change.line} {after.strip()}"


if __name__ == "__main__":
    sys.exit(main())
