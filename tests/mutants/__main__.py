"""How many small changes to the code does a test notice? ``make mutants MUTANTS=100 SEED=1``.

Changes are drawn at random from the packages below, in the given numbers. Each is made in a copy of the
checkout. The tests of the area run first, until one fails; with ``--coverage`` those that run the changed line
run before them. A change that no test of the area notices counts as unnoticed; tests of other areas and slow
ones do not run. Equivalent changes are not recognised: read the list.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.mutants.changes import Change, changes

ROOT = Path(__file__).resolve().parents[2]
AREAS = {
    "irtools/decoder": (20, "tests/decoder tests/anatomy tests/cli/test_locate.py tests/cli/test_annotate.py"),
    "irtools/ir": (
        18,
        "tests/ir tests/graph tests/model tests/surgery/test_annotating.py tests/surgery/test_transaction.py",
    ),
    "irtools/surgery": (
        15,
        "tests/surgery tests/cli/test_annotate.py tests/cli/test_extract.py tests/cli/test_expose.py",
    ),
    "irtools/lint": (10, "tests/lint tests/cli/test_verify.py tests/rules tests/report/test_verification.py"),
    "rules": (15, "tests/rules tests/lint/test_clean.py tests/lint tests/decoder tests/model"),
    "irtools/prove": (10, "tests/prove tests/cli/test_prove.py"),
    "irtools/graph": (5, "tests/graph tests/decoder tests/surgery tests/model"),
    "irtools/model": (7, "tests/model tests/rules tests/lint tests/report tests/cli"),
}
_CPU_SECONDS, _SECONDS = 900, 3600
"""A change without end: by the time of the processor, since a busy machine can take any time."""
_DIRECT = 25


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


def covering(database: Path, change: Change) -> list[str]:
    """Tests that run the changed line, a few of each file, by the contexts of a coverage file."""
    query = (
        "select distinct context.context, line_bits.numbits from line_bits join file on file.id = line_bits.file_id "
        "join context on context.id = line_bits.context_id where file.path like ?"
    )
    with sqlite3.connect(database) as connection:
        rows = connection.execute(query, (f"%/{change.file}",)).fetchall()
    at, bit = divmod(change.line, 8)
    hit = [name.partition("|")[0] for name, bits in rows if at < len(bits) and bits[at] >> bit & 1 and "::" in name]
    kept: list[str] = []
    files: Counter[str] = Counter()
    for name in dict.fromkeys(hit):
        files[name.partition("::")[0]] += 1
        if files[name.partition("::")[0]] <= 6:
            kept.append(name)
    return kept[:_DIRECT]


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))


def noticed(tree: Path, tests: list[str]) -> tuple[bool, str]:
    """Whether a test fails, and the last line of pytest."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", "-p", "tests.mutants.plugin"]
    # Byte code is kept for the next change: a run takes seconds, so a file that is changed back has another time.
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            preexec_fn=_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, "no end"
    said = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    last = (said or done.stdout.splitlines() or [""])[-1]
    return done.returncode not in (0, 5), last[:160]


def _named(tests: Path, stem: str) -> list[Path]:
    """Files of tests that are called like a module or its package, the way ``test_extract`` is for ``extraction``."""
    return list(tests.rglob(f"test_{stem.removesuffix('ion')}*.py"))


def judge(tree: Path, change: Change, coverage: Path | None, *, direct_only: bool) -> tuple[bool, str]:
    """Make one change in the copy, run the tests and take it back."""
    path = tree / change.file
    source = path.read_text()
    changed = change.apply(source)
    try:
        ast.parse(changed)
    except SyntaxError:
        return True, "no syntax"
    path.write_text(changed)
    try:
        area = next(area for area in AREAS if change.file.startswith(f"{area}/"))
        direct = covering(coverage, change) if coverage else []
        if direct:
            found, why = noticed(tree, direct)
            if found:
                return found, why
        if direct_only:
            return False, "no test that covers the line"
        first = [change.file] if ">>>" in source else []
        stems = {path.stem if area != "rules" else path.stem.partition("_")[0]}
        stems |= {path.parent.name} - {Path(area).name}
        first += sorted({str(test.relative_to(tree)) for stem in stems for test in _named(tree / "tests", stem)})
        if first:
            found, why = noticed(tree, first)
            if found:
                return found, why
        return noticed(tree, AREAS[area][1].split())
    finally:
        path.write_text(source)


def main() -> int:
    """Draw, run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--coverage", type=Path, help="coverage file with one context for each test")
    parser.add_argument(
        "--direct", action="store_true", help="run only tests that cover the line, and skip changes without one"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="draw no further change after this time")
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "mutants.jsonl")
    parser.add_argument("--reverse", action="store_true", help="begin at the end, beside another run with the same log")
    parser.add_argument("--list", action="store_true", help="print the changes and run nothing")
    options = parser.parse_args()
    drawn = draw(options.number, options.seed)
    print(f"seed {options.seed}: {len(drawn)} changes", flush=True)
    if options.list:
        print("\n".join(map(shown, drawn)))
        return 0
    options.log.parent.mkdir(parents=True, exist_ok=True)
    started, missed, done = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory(prefix="irtools-mutants-") as scratch:
        tree = Path(scratch)
        copy_tree(tree)
        for change in reversed(drawn) if options.reverse else drawn:
            if time.monotonic() - started > options.seconds:
                break
            if shown(change) in judged(options.log, options.seed):
                continue
            if options.direct and not (options.coverage and covering(options.coverage, change)):
                continue
            begun = time.monotonic()
            found, why = judge(tree, change, options.coverage, direct_only=options.direct)
            done += 1
            missed += [] if found else [change]
            print(
                f"{'noticed' if found else 'UNNOTICED'} {time.monotonic() - begun:.0f} s  {shown(change)}  {why}",
                flush=True,
            )
            with options.log.open("a") as log:
                log.write(
                    json.dumps({"seed": options.seed, "change": shown(change), "noticed": found, "by": why}) + "\n"
                )
    print(f"seed {options.seed}: {done} changes, {done - len(missed)} noticed, {len(missed)} not:")
    for change in missed:
        print(f"  {shown(change)}")
    return 0


def judged(log: Path, seed: int) -> set[str]:
    """Changes of the same draw that the log has."""
    entries = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return {entry["change"] for entry in entries if entry["seed"] == seed}


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
