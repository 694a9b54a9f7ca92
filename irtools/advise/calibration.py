"""Times of target and draft on this machine, from a record of a benchmark or from runs, and speeds computed from them.

Bytes alone do not predict time: a pass also has a fixed cost, for ops that read no weights, and small weights are read
at another rate than large ones. The time of a drafted token lies on straight lines between measured sizes of the draft:

- ``measure`` times the draft with its present head and, on temporary copies, with two smaller ones;
- a record has one size of the draft. The cost without weights is derived from the plain pass of the target, with the
  assumption that a decoder layer of the target has the same fixed cost as one of the MTP head.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from irtools.advise.traffic import Traffic
from irtools.bench.copies import grafted
from irtools.bench.figures import Row, draft_time, pass_time
from irtools.bench.samples import Attempt, Contender
from irtools.bench.shipped import prompts
from irtools.errors import OptionError, UsageError
from irtools.model.directory import ModelDirectory
from irtools.prove.evidence import other_file
from irtools.runtime.child import Progress
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob, Outcome
from irtools.text import plural

__all__ = ["Calibration", "from_record", "measure"]

_ROUNDS = 3
_PROMPTS = 4
_TOKENS = 12
_DRAFTS = (3, 1, 8)  # 3 first, as with the present head: later runs of a process are faster
"""Numbers of assistant tokens that are timed; passes of other lengths are interpolated."""
_BUSY = 1.5
"""Ratio of the slowest quarter of the runs to the fastest above which the machine was busy with other work."""
_SHARE = 8
"""The smaller draft head has about this fraction of the vocabulary, so that the two sizes differ clearly."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Times on one machine, in seconds.

    Attributes
    ----------
    source : str
        ``record`` or ``runs``.
    plain : float
        Plain decoding, per token.
    drafts : tuple of tuple of int and float
        Drafted token: bytes of weights that it reads, and its time; at least two, by bytes.
    passes : mapping of int to float
        Pass of the target that verifies this number of drafted tokens, with everything else in the cycle that is not
        the draft.
    acceptance : float or None
        Measured probability that a drafted token is accepted if all before it were; None if nothing was drafted.
    busy : bool
        True if the runs differed so much that the machine must have had other work.
    """

    source: str
    plain: float
    drafts: tuple[tuple[int, float], ...]
    passes: Mapping[int, float]
    acceptance: float | None = None
    busy: bool = False

    def draft(self, read: int) -> float:
        """Time of one drafted token that reads ``read`` bytes, between and beyond the measured sizes on a line."""
        return max(_on_lines(self.drafts, read), self.drafts[0][1] / 2)

    def verify(self, drafts: int) -> float:
        """Time of a pass that verifies ``drafts`` tokens, between and beyond the measured ones on a line."""
        known = sorted(self.passes.items())
        return max(_on_lines(known if len(known) > 1 else [(0, self.plain), *known], drafts), self.plain / 2)

    def tokens_per_second(self, tokens_per_pass: float, drafts: int, read: int) -> float:
        """Speed with ``drafts`` drafted tokens per pass, each of which reads ``read`` bytes; 0 drafts: plain."""
        if not drafts:
            return 1 / self.plain
        return tokens_per_pass / (self.verify(drafts) + drafts * self.draft(read))


def _on_lines(points: Sequence[tuple[int, float]], place: int) -> float:
    """Value at a place, on the line through the two points beside it, or through the two nearest."""
    after = min(max(bisect(points, place, key=lambda point: point[0]), 1), len(points) - 1)
    (low, start), (high, end) = points[after - 1 : after + 1]
    return start + (end - start) * (place - low) / (high - low)


# -- from a record ---------------------------------------------------------------------


_WRITE = "`irtools bench MODEL_DIR -o FILE.json`"


def from_record(export: ModelDirectory, traffic: Traffic, record: Mapping[str, Any]) -> Calibration:
    """Take the times of a benchmark of this export, with its MTP head.

    Raises
    ------
    OptionError
        The record is not one of a benchmark, is about other files, is damaged, or has no times of drafting with the
        MTP head.
    """
    if record.get("kind") != "bench":
        raise OptionError(f"only the record of a benchmark has times; write one with {_WRITE}, or give --calibrate")
    try:
        return _from_record(export, traffic, record)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise OptionError(f"the record is damaged; write it again with {_WRITE}, or give --calibrate") from error


def _from_record(export: ModelDirectory, traffic: Traffic, record: Mapping[str, Any]) -> Calibration:
    _require_same_files(export, record)
    rows = [_row(row) for row in record["rows"] if _own(row)]
    plain = next((pass_time(row) for row in rows if not row.contender.assistant_tokens), None)
    passes, drafts, acceptances = {}, [], []
    for row in rows:
        number, whole, draft = row.contender.assistant_tokens, pass_time(row), draft_time(row)
        if not number or whole is None or draft is None:
            continue
        passes[number] = whole - number * draft  # a steady pass has all drafted tokens
        drafts.append(draft)
        runs = [run for one in row.runs().values() for run in one]
        accepted, cycles = sum(run.accepted for run in runs), sum(len(run.passes) for run in runs)
        acceptances.append(acceptance_of(accepted / cycles, number))
    if plain is None or not drafts:
        raise OptionError(
            "the record has no times of decoding with and without the MTP head of this export; write one with "
            f"{_WRITE}, or give --calibrate"
        )
    if plain <= 0:
        raise ValueError(f"plain decoding took {plain} s")
    draft = median(drafts)
    points = ((0, _fixed(traffic, plain, draft)), (traffic.per_draft(traffic.present), draft))
    return Calibration("record", plain, points, passes, median(acceptances))


def _own(row: Mapping[str, Any]) -> bool:
    """True for a row of the export as it is: plain, or with its own MTP head."""
    drafts = row["strategy"] == "mtp" and row["draft"] == row["model"]
    return not row["copy"] and (drafts or row["strategy"] == "plain")


def _row(row: Mapping[str, Any]) -> Row:
    """A row with its times, which decide what a record says."""
    contender = Contender(row["name"], row["strategy"], Path(row["model"]), None, row["assistant_tokens"])
    return Row(contender, tuple(map(Attempt.from_json, row["samples"])))


def _require_same_files(export: ModelDirectory, record: Mapping[str, Any]) -> None:
    """Compare the IRs and their weights; other files do not change the times."""
    if other := other_file(export, record.get("model")):
        raise OptionError(
            f"the record describes other files: {other}; run `irtools bench` on this export again, or give --calibrate"
        )


def _fixed(traffic: Traffic, plain: float, draft: float) -> float:
    """Cost of a draft without weights, if each decoder layer has the same."""
    big, small = traffic.per_pass, traffic.per_draft(traffic.present)
    layers, own = traffic.target.layers or 1, traffic.draft.layers or 1
    # plain = layers * c + big * p;  draft = own * c + small * p
    determinant = layers * small - own * big
    cost = (plain * small - draft * big) / determinant if determinant else 0.0
    return min(max(own * cost, 0.0), draft / 2)


def acceptance_of(accepted: float, drafts: int) -> float:
    """Probability that a drafted token is accepted, from the mean number accepted of ``drafts`` tokens.

    The inverse of ``a + a**2 + ... + a**drafts``.
    """
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if sum(middle**power for power in range(1, drafts + 1)) < accepted:
            low = middle
        else:
            high = middle
    return high


# -- from runs -------------------------------------------------------------------------


def measure(
    export: ModelDirectory,
    traffic: Traffic,
    *,
    device: str = "CPU",
    timeout: float = 1800.0,
    progress: Progress | None = None,
) -> Calibration:
    """Time plain decoding, drafting with the present head, and drafting with smaller ones.

    A smaller head is in a temporary directory with a changed copy of the target's XML and links to all other files.
    All are run in turn, in processes of their own, three times; the median of the runs counts.

    Raises
    ------
    UsageError
        The runtime cannot decode the export, links are impossible, or the times make no sense.
    """
    small, *others = _smaller(traffic)
    say = progress or (lambda text: None)
    runs: dict[int, dict[int, list[Outcome]]] = {}  # by tokens of the draft head, 0 without a draft
    with ExitStack() as stack:
        work: list[tuple[int, Path, tuple[int, ...]]] = [
            (0, export.directory, (0,)),
            (traffic.present, export.directory, (3,)),
        ]
        for rows in (small, *others):
            copy = stack.enter_context(grafted(export, rows, "give a record of `irtools bench` instead of --calibrate"))
            work.append((rows, copy, _DRAFTS if rows == small else (3,)))
        for number in range(_ROUNDS):
            for rows, directory, drafts in work:
                title = f"drafting with {plural(rows, 'token')}" if rows else "plain decoding"
                say(f"timing {title}, round {number + 1} of {_ROUNDS}")
                for count, outcomes in _run(directory, drafts, device, timeout).items():
                    runs.setdefault(rows, {}).setdefault(count, []).extend(outcomes)
    plain = [outcome.timing.decode / (len(outcome.tokens) - 1) for outcome in runs[0][0]]
    # All with 3 drafts: the first one of a pass takes longer than the others.
    times = {rows: _per_draft(runs[rows][3]) for rows in (small, *others, traffic.present)}
    low, high = median(times[small]), median(times[traffic.present])
    if low >= high:
        raise UsageError(
            f"the timed runs are inconsistent: drafting with {small} tokens was not faster than with "
            f"{traffic.present}; try again when the machine has no other work"
        )
    points = tuple((traffic.per_draft(rows), min(max(median(found), low), high)) for rows, found in times.items())
    passes = {count: median(map(_cycle, outcomes)) for count, outcomes in sorted(runs[small].items())}
    present = runs[traffic.present][3]
    accepted = [acceptance_of(outcome.accepted / max(outcome.steps - 1, 1), 3) for outcome in present]
    busy = any(_spread(found) > _BUSY for found in (plain, times[traffic.present]))
    return Calibration("runs", median(plain), points, passes, sum(accepted) / len(accepted), busy)


def _smaller(traffic: Traffic) -> list[int]:
    """Tokens of the smaller heads: a power of two that is clearly fewer than now, and one about halfway if there is."""
    rows = 1 << max((traffic.head.vocabulary // _SHARE).bit_length() - 1, 3)
    while rows > 8 and rows * 2 > traffic.present:
        rows //= 2
    if rows >= traffic.present:
        raise UsageError(
            f"the present draft head covers only {plural(traffic.present, 'token')}, too few to time a smaller one; "
            "remove it with `irtools graft --remove`, or give --bench"
        )
    middle = 1 << round(math.log2(rows * traffic.present) / 2)
    return [rows, middle] if 2 * rows <= middle < traffic.present else [rows]


def _run(directory: Path, drafts: Sequence[int], device: str, timeout: float) -> dict[int, list[Outcome]]:
    """Outcomes by number of assistant tokens, from one process and one pipeline, after a warm-up for each number."""
    chosen = [prompt.text for prompt in prompts() if prompt.kind != "chat"][:_PROMPTS]
    base = GenerationJob(str(directory), max_new_tokens=_TOKENS, device=device, chat_template=False, reuse=True)
    jobs = []
    for count in drafts:
        with_draft = replace(base, draft=str(directory), assistant_tokens=count) if count else base
        jobs += [replace(with_draft, prompt=text) for text in (chosen[0], *chosen)]
    results: dict[int, list[Outcome]] = {}
    with closing(iterate(jobs, timeout=timeout)) as outcomes:
        for number, outcome in enumerate(outcomes):
            if outcome.stage != "ran":
                raise UsageError(
                    f"the runtime cannot decode this export with its MTP head ({outcome.message}); `irtools prove` "
                    "looks for the cause"
                )
            count, place = divmod(number, len(chosen) + 1)
            if place:
                results.setdefault(drafts[count], []).append(outcome)
    return results


def _per_draft(outcomes: Sequence[Outcome]) -> list[float]:
    return [run.timing.draft / run.drafted for run in outcomes if run.drafted]


def _cycle(outcome: Outcome) -> float:
    """Time of a cycle without the draft."""
    return (outcome.timing.decode - outcome.timing.draft) / max(outcome.steps - 1, 1)


def _spread(times: Sequence[float]) -> float:
    """Ratio of the third quartile to the first."""
    low, _, high = quantiles(times, n=4, method="inclusive")
    return high / low if low else 1.0
