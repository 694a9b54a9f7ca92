"""Fuzz irtools for a given time: ``make fuzz SECONDS=120 SEED=7``.

Every input follows from the seed and from the lines that earlier inputs reached, so a seed replays a run. An
input that breaks a promise is reduced and written as JSON; ``--replay FILE`` runs it again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.fuzz.case import Case
from tests.fuzz.commands import NAME, Commands
from tests.fuzz.guard import Broken, Coverage, Hang, limit_memory
from tests.fuzz.targets import TARGETS

HERE = Path(__file__).resolve().parent
FINDS = HERE / "finds"
"""Inputs that once broke something. Those with a key ``open`` still do: they are counted, and do not fail."""
_SHARES = {NAME: 12, "scan": 2, "op": 2, "rt_info": 2, "annotation": 1, "config": 1, "matcher": 2}
_KEPT = 400


class Fuzzer:
    """All targets, and the inputs that reached new lines."""

    def __init__(self, directory: Path, names: list[str]) -> None:
        self.targets = {**TARGETS, NAME: Commands(directory)}
        self.names = names
        self.coverage = Coverage()
        self.kept: dict[str, list[Case]] = {name: [] for name in names}
        self.counts: Counter[str] = Counter()

    def step(self, rng: random.Random, *, trace: bool) -> tuple[Case, str]:
        """Run one input; returns its signature if it broke something."""
        name = rng.choices(self.names, [_SHARES[name] for name in self.names])[0]
        target, kept = self.targets[name], self.kept[name]
        case = target.mutated(rng, rng.choice(kept)) if kept and rng.random() < 0.4 else target.case(rng)
        self.counts[name] += 1
        if not trace:
            return case, self.judge(case)
        with self.coverage.over():
            signature = self.judge(case)
        if self.coverage.new and not signature and len(case.edits) < 12:
            kept.append(case)
            del kept[:-_KEPT]
        return case, signature

    def judge(self, case: Case) -> str:
        """Signature of what the input broke; empty if nothing."""
        return judge(self.targets[case.target], case)

    def reduced(self, case: Case, signature: str) -> Case:
        """The input with as few edits as still break the same."""
        index = 0
        while index < len(case.edits):
            smaller = case.without(index)
            if self.judge(smaller) == signature:
                case = smaller
            else:
                index += 1
        return case


def judge(target: object, case: Case) -> str:
    """Run one input; the signature names the exception and the function of irtools that it left."""
    try:
        target.run(case)  # type: ignore[attr-defined]
    except Broken as broken:
        return f"broken: {broken}"
    except (Exception, Hang) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename]
        places = [frame for frame in frames if "/irtools/" in frame.filename or "/rules/" in frame.filename]
        place = places[-1] if places else None
        where = f"{Path(place.filename).parent.name}/{Path(place.filename).name}" if place else f"? ({error})"
        if place and not isinstance(error, RecursionError):  # whose innermost function differs
            where += f":{place.name}"
        return f"{type(error).__name__} at {where}"
    return ""


def short_form(signature: str) -> str:
    """A signature without numbers and names of one input."""
    return "".join("#" if letter.isdigit() else letter for letter in signature.split("irtools-fuzz-")[0])[:110]


def main() -> int:
    """Parse the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--target", choices=sorted(_SHARES), action="append")
    parser.add_argument("--finds", type=Path, default=Path("build/fuzz"), help="where reduced inputs are written")
    parser.add_argument("--replay", type=Path, help="run one input again and show the traceback")
    parser.add_argument("--log", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="irtools-fuzz-") as directory:
        fuzzer = Fuzzer(Path(directory), options.target or sorted(_SHARES))
        if options.replay:
            fuzzer.targets[(case := Case.of_json(options.replay.read_text())).target].run(case)
            return 0
        return run(fuzzer, options)


def run(fuzzer: Fuzzer, options: argparse.Namespace) -> int:
    """Fuzz until the time is over; returns the exit code."""
    limit_memory()
    known = {json.loads(path.read_text()).get("open") for path in FINDS.glob("*.json")} - {None}
    found: Counter[str] = Counter()
    print(f"seed {options.seed}: make fuzz SEED={options.seed} replays this run", flush=True)
    started, number = time.monotonic(), 0
    with suppress(KeyboardInterrupt):
        while time.monotonic() - started < options.seconds:
            number += 1
            case, signature = fuzzer.step(random.Random(f"{options.seed}/{number}"), trace=number % 3 != 0)
            if not signature:
                continue
            short = short_form(signature)
            found[short] += 1
            if found[short] == 1:
                _keep(fuzzer, options.finds, case, signature, number, known=short in known)
    commands = fuzzer.targets[NAME]
    assert isinstance(commands, Commands)
    commands.reader.close()
    spent = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    new = {short: count for short, count in found.items() if short not in known}
    inputs = f"seed {options.seed}: {number} inputs ({fuzzer.counts[NAME]} of commands)"
    figures = f"{inputs}, {fuzzer.coverage.lines} lines reached, {spent / 60:.1f} core-minutes"
    figures += f", {len(new)} finds, {len(found) - len(new)} known"
    print(figures)
    if options.log:
        with options.log.open("a") as log:
            log.write(f"{figures}\n")
    for short, count in sorted(new.items()):
        print(f"  {count:5d} x {short}")
    return 1 if new else 0


def _keep(fuzzer: Fuzzer, folder: Path, case: Case, signature: str, number: int, *, known: bool) -> None:
    case = fuzzer.reduced(case, signature) if "took" not in signature and "Hang" not in signature else case
    text = case.to_json()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(short_form(signature).encode()).hexdigest()[:10]}.json"
    path.write_text(text)
    print(
        f"{'known' if known else 'FIND'} (input {number}): {signature[:300]}\n"
        f"  {path}: {case.arguments} on {case.base}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
