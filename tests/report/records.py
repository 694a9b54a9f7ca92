"""Records and results of proofs and benchmarks, without a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from irtools.export import open_export
from irtools.prove.evidence import Evidence
from irtools.prove.record import record
from irtools.prove.settings import Prompt, ProveSettings
from irtools.prove.speculate import DraftSetup
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.report.json import ModelResult
from irtools.runtime.probe import RuntimeFacts
from tests.bench.examples import example_record

COUNTS = {"accepted": 19, "drafted": 20, "acceptance": 0.95, "passes": 21, "passes_saved": 19, "prompts": []}


def proof_record(directory: Path) -> dict[str, Any]:
    """A proof with each status."""
    seen = RuntimeFacts(("CPU",), {"FULL_DEVICE_NAME": "A Device"}, {"python": "3.11", "platform": "any"})
    runtime = (
        Check("plain", PASSED, "decoded 1 prompt", "40 tokens"),
        Check("acceptance", WARNING, "counted", "19 of 20", "low", {"assistant_tokens": [{"number": 1, **COUNTS}]}),
        Check("image", NOT_APPLICABLE, "decoded an image", why="there is no <vision> part"),
    )
    steps = (
        Step("taps", why="the target has no annotation"),
        Step("state", (Check("reset", FAILED, "reset the state", "it differs", "a | b \x07"),), seconds=1.5),
        Step("head", why="the process ended with code -11", broken=True),
        Step("runtime", runtime, seconds=3.25),
    )
    evidence = Evidence.take("CPU", seen, {"model": open_export(directory)})
    return record(DraftSetup("mtp", "MTP head"), [Prompt("a|b\n", (1, 2))], ProveSettings(), evidence, steps)


def results(directory: Path) -> dict[str, ModelResult]:
    """Results of ``prove`` and ``bench``; the benchmark missed a required minimum."""
    bench = example_record(directory)
    bench["settings"]["min_speedup"] = 100.0
    records = {"prove": ("proof", proof_record(directory)), "bench": ("bench", bench)}
    return {
        command: ModelResult(
            str(directory), "findings", 1, details={kind: json.loads(json.dumps(content))}, text="some text"
        )
        for command, (kind, content) in records.items()
    }
