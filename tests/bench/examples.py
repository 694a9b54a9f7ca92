"""A simulated runtime with known times and acceptance, and records of benchmarks in it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from irtools.bench.figures import Row
from irtools.bench.record import record
from irtools.bench.samples import CRASHED, Attempt, Contender, PromptRun
from irtools.bench.settings import BenchSettings
from irtools.bench.workload import Prompt
from irtools.model.directory import ModelDirectory
from irtools.prove.evidence import Evidence
from irtools.runtime.probe import RuntimeFacts

PROMPTS = (
    Prompt("code", "def add(a, b):\n    return "),
    Prompt("code", "for (int i = 0; i < n; i++)"),
    Prompt("prose", "The river rises in the hills"),
    Prompt("chat", "What is the capital of France?"),
)
SEEN = RuntimeFacts(
    ("CPU",),
    {"FULL_DEVICE_NAME": "A processor", "INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "u8"},
    {"python": "3.11.7", "platform": "Linux", "openvino": "2026.4.1", "genai": "2026.4.1.0"},
)


CALM = [[[1.0, 1.01, 0.99, 1.02, 0.98, 1.3, 1.0]], [[1.02, 1.01, 1.0, 1.03, 1.0, 1.01]]]


def recorded(name: str) -> list[list[list[float]]]:
    """Recorded latencies as factors, ``quiet`` or ``busy`` (tests/benchmarks/latencies.py)."""
    processes = json.loads(Path(__file__).with_name("latencies.json").read_text())[name]
    usual = median(seconds for process in processes for run in process for seconds in run)
    return [[[seconds / usual for seconds in run] for run in process] for process in processes]


@dataclass
class Machine:
    """A runtime with known times.

    Attributes
    ----------
    plain, draft, verify : float
        Seconds of a plain pass, of a drafted token, and that a pass takes longer for each token to verify.
    acceptance : mapping of str to float
        Probability by workload class that a drafted token is accepted if all before it were.
    processes : sequence
        Factors of the times of passes by process, run and pass. A process draws one of them, and its runs in turn, so
        that the passes of a process are as alike as they were when they were recorded.
    rounds : int
        How often a process runs the prompts; with fast passes a benchmark runs them several times.
    """

    plain: float = 0.020
    draft: float = 0.002
    verify: float = 0.001
    acceptance: dict[str, float] = field(default_factory=lambda: {"code": 0.9, "prose": 0.7, "chat": 0.3})
    processes: Sequence[Sequence[Sequence[float]]] = field(default_factory=lambda: CALM)
    rounds: int = 1
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def cycle(self, drafts: int) -> float:
        """Seconds of a pass with this number of drafted tokens."""
        return self.plain + drafts * (self.draft + self.verify)

    def tokens(self, kind: str, drafts: int) -> float:
        """Expected tokens of a pass."""
        return sum(self.acceptance[kind] ** number for number in range(drafts + 1))

    def attempt(self, contender: Contender, repetition: int, prompts: Sequence[Prompt], tokens: int = 64) -> Attempt:
        """One contender in one repetition."""
        process = self.chance.choice(self.processes)
        runs = tuple(
            self.run(number, prompt.kind, contender.assistant_tokens, tokens, process[place % len(process)])
            for place, (number, prompt) in enumerate([*enumerate(prompts)] * self.rounds)
        )
        factor = process[0][0]
        return Attempt(
            repetition, "ran", "", 2.5 * factor, 0.4 * factor, (900 + 100 * bool(contender.draft)) << 20, 0.3, runs
        )

    def run(self, number: int, kind: str, drafts: int, tokens: int, factors: Sequence[float]) -> PromptRun:
        """One generation."""
        left, passes, counts, accepted, drafted = tokens - 1, [], [], 0, 0
        while left > 0:
            now = min(drafts, left - 1)
            hits = 0
            while hits < now and self.chance.random() < self.acceptance[kind]:
                hits += 1
            counts.append(hits + 1)
            passes.append(self.cycle(drafts) * self.chance.choice(factors))
            left, accepted, drafted = left - hits - 1, accepted + hits, drafted + now
        factor = self.chance.choice(factors)
        first = 10 * self.plain * factor
        return PromptRun(
            number,
            24,
            first,
            first + sum(passes),
            self.draft * drafted * factor,
            sum(passes) - self.draft * drafted * factor,
            1.8 * (first + sum(passes)),
            tuple(passes),
            tuple(counts),
            accepted,
            drafted,
        )


def contenders(model: Path, numbers: Sequence[int] = (1, 2, 3)) -> list[Contender]:
    """Plain decoding, and the MTP head with each number of assistant tokens."""
    drafted = [Contender(f"mtp {number}", "mtp", model, model, number) for number in numbers]
    return [Contender("plain", "plain", model), *drafted]


def rows(machine: Machine, model: Path, *, repeat: int = 5, prompts: Sequence[Prompt] = PROMPTS) -> list[Row]:
    """Rows of a benchmark in which everything ran."""
    return [
        Row(one, tuple(machine.attempt(one, number, prompts) for number in range(repeat))) for one in contenders(model)
    ]


def example_record(
    export: Path = Path("fixtures/qwen3_5_vl_trained"), machine: Machine | None = None
) -> dict[str, Any]:
    """Record of a benchmark in the simulated runtime, in which a row with 8 assistant tokens crashed."""
    crash = Attempt(0, CRASHED, "the process ended with code -11 (SIGSEGV)", 2.0, load_average=0.3)
    crashed = Row(Contender("mtp 8", "mtp", export, export, 8), (crash,))
    settings = BenchSettings(assistant_tokens=(1, 2, 3, 8))
    evidence = Evidence.take("CPU", SEEN, {"model": ModelDirectory.open(export)})
    return record([*rows(machine or Machine(), export), crashed], PROMPTS, settings, evidence)
