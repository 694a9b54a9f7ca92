"""A simulated runtime with known times and acceptance, and records of benchmarks in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass
class Machine:
    """A runtime with known times.

    Attributes
    ----------
    plain, draft, verify : float
        Seconds of a plain pass, of a drafted token, and that a pass takes longer for each token to verify.
    acceptance : mapping of str to float
        Probability by workload class that a drafted token is accepted if all before it were.
    noise : sequence of float
        Factors of the time of a pass, drawn with equal probability.
    between : float
        Standard deviation of the logarithm of a factor that a whole process has.
    """

    plain: float = 0.020
    draft: float = 0.002
    verify: float = 0.001
    acceptance: dict[str, float] = field(default_factory=lambda: {"code": 0.9, "prose": 0.7, "chat": 0.3})
    noise: Sequence[float] = (0.98, 0.99, 1.0, 1.0, 1.01, 1.02, 1.3)
    between: float = 0.01
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def cycle(self, drafts: int) -> float:
        """Seconds of a pass with this number of drafted tokens."""
        return self.plain + drafts * (self.draft + self.verify)

    def tokens(self, kind: str, drafts: int) -> float:
        """Expected tokens of a pass."""
        return sum(self.acceptance[kind] ** number for number in range(drafts + 1))

    def attempt(self, contender: Contender, repetition: int, prompts: Sequence[Prompt], tokens: int = 64) -> Attempt:
        """One contender in one repetition."""
        factor = self.chance.lognormvariate(0, self.between)
        runs = tuple(
            self.run(number, prompt.kind, contender.assistant_tokens, tokens, factor)
            for number, prompt in enumerate(prompts)
        )
        return Attempt(
            repetition, "ran", "", 2.5 * factor, 0.4 * factor, (900 + 100 * bool(contender.draft)) << 20, 0.3, runs
        )

    def run(self, number: int, kind: str, drafts: int, tokens: int, factor: float) -> PromptRun:
        """One generation."""
        left, passes, counts, accepted, drafted = tokens - 1, [], [], 0, 0
        while left > 0:
            now = min(drafts, left - 1)
            hits = 0
            while hits < now and self.chance.random() < self.acceptance[kind]:
                hits += 1
            counts.append(hits + 1)
            passes.append(self.cycle(drafts) * factor * self.chance.choice(self.noise))
            left, accepted, drafted = left - hits - 1, accepted + hits, drafted + now
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
