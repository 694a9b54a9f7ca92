"""Drafting with and without a draft head: rows of ``make bench``.

The weights are pseudo-random, so the text says nothing: where two tokens are nearly equally likely, it changes from
process to process. No token is accepted, so the numbers of passes are equal.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from irtools.export import open_export
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob, Outcome

PROMPT = "A draft reads the weights of its head for each token. " * 12
TOKENS, DRAFTS = 46, 3


@dataclass(frozen=True)
class Figures:
    """Medians over the runs of one export.

    Attributes
    ----------
    draft : float
        Seconds in the draft, for equally many passes.
    plain, first : float
        Seconds per token and to the first token, without a draft.
    peak : float
        Bytes of a process that drafts.
    """

    draft: float
    plain: float
    first: float
    peak: float


def wide_export(scratch: Path) -> Path:
    """Write an export with the proportions of a small Qwen3.5 and pseudo-random weights, 0.6 GB.

    The archive has the graphs, made by the exporter, the small constants and the script that writes the others.
    """
    with tarfile.open(Path(__file__).with_name("wide.tar.xz")) as archive:
        archive.extractall(scratch / "packed")
    directory = scratch / "wide"
    subprocess.run([sys.executable, scratch / "packed" / "wide" / "make_weights.py", directory], check=True)
    return directory


def linked(directory: Path, copy: Path) -> Path:
    """Copy an export; the weights are hard links."""
    copy.mkdir()
    for path in directory.iterdir():
        if path.suffix == ".bin":
            (copy / path.name).hardlink_to(path)
        else:
            shutil.copy(path, copy)
    return copy


def measure(exports: Mapping[str, Path], runs: int) -> dict[str, Figures]:
    """Run plain and drafted decoding by turns, each in a process of its own."""
    jobs = [
        (name, GenerationJob(str(path), prompt=PROMPT, max_new_tokens=TOKENS, **draft))
        for name, path in exports.items()
        for draft in ({}, {"draft": str(path), "assistant_tokens": DRAFTS})
    ]
    outcomes: dict[tuple[str, bool], list[Outcome]] = {}
    for _ in range(runs):
        for name, job in jobs:
            outcome = next(iterate([job]))
            if outcome.stage != "ran":
                raise SystemExit(f"{name}: {outcome.message}")
            outcomes.setdefault((name, job.draft is not None), []).append(outcome)
    return {name: _figures(outcomes[name, False], outcomes[name, True]) for name in exports}


def _figures(plain: Sequence[Outcome], drafted: Sequence[Outcome]) -> Figures:
    if {outcome.accepted for outcome in drafted} != {0}:
        raise SystemExit("a draft was accepted, so the numbers of passes are not equal")
    return Figures(
        statistics.median(outcome.timing.draft for outcome in drafted),
        statistics.median(outcome.timing.decode / (TOKENS - 1) for outcome in plain),
        statistics.median(outcome.timing.first_token for outcome in plain),
        statistics.median(outcome.timing.peak_memory for outcome in drafted),
    )


def head_bytes(directory: Path) -> int:
    """Bytes of lm_head, which the runtime copies."""
    return open_export(directory).graft(1).head_bytes
