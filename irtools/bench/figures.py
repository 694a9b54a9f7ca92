"""Figures of the rows of a benchmark, from the attempts of all repetitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

from irtools.bench.intervals import Estimate, Figure, Ratio, estimate, figure, ratios, undisturbed
from irtools.bench.samples import RAN, Attempt, Contender, PromptRun

__all__ = [
    "Row",
    "acceptance",
    "break_even",
    "by_position",
    "draft_time",
    "pass_time",
    "row_figures",
    "speed_ups",
    "time_per_token",
]

_NORMAL = 1.96
_FEW = 30
"""Passes below which the normal distribution is no approximation."""


@dataclass(frozen=True)
class Row:
    """A contender with all its attempts, in the order of the repetitions."""

    contender: Contender
    attempts: tuple[Attempt, ...] = ()

    @property
    def status(self) -> str:
        """``ran``, or how the first attempt that failed did."""
        return next((one.status for one in self.attempts if one.status != RAN), RAN)

    @property
    def message(self) -> str:
        """Message of the first attempt that failed."""
        return next((one.message for one in self.attempts if one.status != RAN), "")

    def runs(self, prompts: Collection[int] | None = None) -> dict[int, list[PromptRun]]:
        """Runs by repetition, of attempts that completed all prompts; only of these prompts if given."""
        return {
            one.repetition: [run for run in one.runs if prompts is None or run.prompt in prompts]
            for one in self.attempts
            if one.status == RAN and one.runs
        }


def _steady_passes(runs: Mapping[int, Sequence[PromptRun]], drafts: int) -> dict[int, float]:
    """Undisturbed seconds of a pass, by prompt, from the passes of all repetitions together."""
    times: dict[int, list[float]] = {}
    for run in (run for one in runs.values() for run in one):
        times.setdefault(run.prompt, []).extend(run.steady_passes(drafts))
    return {prompt: undisturbed(passes) for prompt, passes in times.items() if passes}


def _time_per_token(runs: Mapping[int, Sequence[PromptRun]], drafts: int) -> float:
    """Undisturbed seconds per token: of each prompt the steady pass, weighted by its passes; 0 without tokens."""
    steady = _steady_passes(runs, drafts)
    every = [(run.prompt, *run.steady_tokens(drafts)) for one in runs.values() for run in one if run.prompt in steady]
    tokens = sum(of_passes for _, _, of_passes in every)
    return sum(steady[prompt] * passes for prompt, passes, _ in every) / tokens if tokens else 0.0


def pass_time(row: Row) -> float | None:
    """Undisturbed seconds of a steady pass with its drafting, as the mean of the prompts; None if it did not run."""
    steady = _steady_passes(row.runs(), row.contender.assistant_tokens)
    return mean(steady.values()) if steady else None


def draft_time(row: Row) -> float | None:
    """Undisturbed seconds of a drafted token, as the median of the runs; None if nothing was drafted.

    The first pass also fills the draft with the prompt: what it takes longer than a steady pass is not of a token.
    Other work on the machine slows drafts as much as the passes of the run that they are part of.
    """
    drafts, times = row.contender.assistant_tokens, []
    steady = _steady_passes(row.runs(), drafts)
    for run in (run for one in row.runs().values() for run in one if run.drafted and run.passes):
        usual = median(run.steady_passes(drafts))
        filling = max(run.passes[0] - usual, 0.0)
        times.append(max(run.draft - filling, 0.0) / run.drafted * steady[run.prompt] / usual)
    return median(times) if times else None


def time_per_token(row: Row, prompts: Collection[int] | None = None) -> Estimate | None:
    """Steady seconds per token of a row, without the first token and the first pass; None if it did not run."""
    drafts = row.contender.assistant_tokens
    return estimate(row.runs(prompts), lambda runs: _time_per_token(runs, drafts))


def speed_ups(rows: Iterable[Row], plain: Row | None, prompts: Collection[int] | None = None) -> dict[str, Ratio]:
    """Ratio of the steady speed of each row to that of plain decoding.

    Its limit is the number of tokens per pass where the target is the same: a pass that drafts and verifies cannot be
    shorter than one that computes a single token.
    """
    before = time_per_token(plain, prompts) if plain is not None else None
    if plain is None or before is None:
        return {}
    others = {row.contender.name: row for row in rows if row.contender.name != plain.contender.name}
    after = {name: one for name, row in others.items() if (one := time_per_token(row, prompts)) is not None}
    found = ratios(before, after)
    same = {name for name in found if others[name].contender.model == plain.contender.model}
    return {
        name: replace(one, limit=_tokens_per_pass(others[name], prompts)) if name in same else one
        for name, one in found.items()
    }


def _tokens_per_pass(row: Row, prompts: Collection[int] | None) -> float:
    """Tokens of a steady pass, as the mean of all runs; infinite without such a pass."""
    counts = [run.steady_tokens(row.contender.assistant_tokens) for one in row.runs(prompts).values() for run in one]
    return _share(sum(tokens for _, tokens in counts), sum(passes for passes, _ in counts)) or math.inf


def _by_prompt(runs: Iterable[PromptRun]) -> Iterable[list[PromptRun]]:
    """Runs of each prompt."""
    groups: dict[int, list[PromptRun]] = {}
    for run in runs:
        groups.setdefault(run.prompt, []).append(run)
    return groups.values()


def _typical(runs: Sequence[PromptRun], value: Callable[[PromptRun], float]) -> float:
    """Mean over the prompts of the median over the runs of each."""
    return mean(median(map(value, same)) for same in _by_prompt(runs)) if runs else 0.0


def row_figures(row: Row, prompts: Collection[int] | None = None) -> dict[str, Figure | None]:
    """Figures of a row by name; None where nothing was measured. Seconds, bytes, or counts, as the unit says."""
    runs = row.runs(prompts)
    drafting = row.contender.assistant_tokens > 0

    def over(value: Callable[[Sequence[PromptRun]], float], unit: str) -> Figure | None:
        return figure([value(one) for one in runs.values()], unit)

    whole = [one for one in row.attempts if one.status == RAN]
    return {
        "prompt_tokens_per_second": over(
            lambda one: _share(
                _typical(one, lambda run: run.prompt_tokens), _typical(one, lambda run: run.first_token)
            ),
            "tokens/s",
        ),
        "first_token": over(lambda one: _typical(one, lambda run: run.first_token), "s"),
        "first_pass": over(lambda one: _typical(one, lambda run: run.passes[0] if run.passes else 0.0), "s"),
        "tokens_per_second": over(
            lambda one: _share(sum(run.tokens for run in one), sum(run.decode for run in one)), "tokens/s"
        ),
        "time_per_token": steady.figure("s") if (steady := time_per_token(row, prompts)) else None,
        "tokens_per_pass": over(
            lambda one: _share(sum(run.tokens for run in one), sum(len(run.passes) for run in one)), "tokens"
        ),
        "acceptance": acceptance(row, prompts) if drafting else None,
        "draft_share": over(lambda one: _share(sum(run.draft for run in one), sum(run.decode for run in one)), "share")
        if drafting
        else None,
        "peak_memory": figure([one.peak_memory for one in whole if one.peak_memory], "bytes"),
        "cpu": over(lambda one: _share(sum(run.cpu for run in one), sum(run.seconds for run in one)), "cores"),
        "load": figure([one.load for one in whole if one.load], "s"),
        "warm_up": figure([one.warm_up for one in whole if one.warm_up], "s"),
    }


def acceptance(row: Row, prompts: Collection[int] | None = None) -> Figure | None:
    """Acceptance rate of all runs, for these prompts.

    The interval is that of a ratio of sums over passes, stratified by prompt (Cochran 1977, "Sampling Techniques",
    section 6.11). Repetitions mostly draft the same tokens again, so they do not make it narrower.
    """
    repetitions = row.runs(prompts)
    totals: dict[int, list[int]] = {}
    for run in (run for runs in repetitions.values() for run in runs):
        count = totals.setdefault(run.prompt, [0, 0])
        count[0] += run.accepted
        count[1] += run.drafted
    accepted, drafted = (sum(count[place] for count in totals.values()) for place in (0, 1))
    if not drafted:
        return None
    rate, passes, square = accepted / drafted, 0, 0.0
    for run in (run for runs in repetitions.values() for run in runs):
        one, of = totals[run.prompt]
        passes += len(run.passes)
        square += sum(
            (tokens - 1 - one / max(of, 1) * run.drafted / len(run.passes)) ** 2 for tokens in run.pass_tokens
        )
    if square == 0 or passes < _FEW:
        return Figure(rate, *_wilson(accepted / len(repetitions), drafted / len(repetitions)), "share")
    half = _NORMAL * math.sqrt(square * len(repetitions)) / drafted
    return Figure(rate, max(rate - half, 0.0), min(rate + half, 1.0), "share")


def by_position(row: Row, prompts: Collection[int] | None = None) -> list[Figure]:
    """Share of the drafted tokens that are accepted, by their position in the pass, from the first on.

    The runtime drafts no further than the last token that is asked for, so that late passes draft fewer.
    """
    wanted = row.contender.assistant_tokens
    accepted, drafted = [0] * wanted, [0] * wanted
    repetitions = len(row.runs(prompts))
    for runs in row.runs(prompts).values():
        for run in runs:
            left = run.tokens
            for tokens in run.pass_tokens:
                for position in range(min(wanted, left - 1)):
                    drafted[position] += 1
                    accepted[position] += tokens - 1 > position
                left -= tokens
    return [
        Figure(one / of, *_wilson(one / repetitions, of / repetitions), "share")
        for one, of in zip(accepted, drafted, strict=True)
        if of
    ]


def break_even(row: Row, plain: Row, prompts: Collection[int] | None = None) -> float | None:
    """Acceptance rate at which drafting would be as fast as plain decoding, from the times of both.

    With ``t`` seconds of a plain pass, ``c`` of a drafting pass, and ``d`` drafted tokens per pass, a pass yields
    ``1 + d * a`` tokens at acceptance rate ``a``; plain decoding takes as long at ``a = (c / t - 1) / d``.

    Returns
    -------
    float or None
        Above 1: drafting is slower at any rate. Below 0: a drafting pass is faster than a plain one. None: nothing
        was drafted.
    """
    before = _steady_passes(plain.runs(prompts), 0)
    after = _steady_passes(row.runs(prompts), row.contender.assistant_tokens)
    runs = [run for one in row.runs(prompts).values() for run in one]
    drafted, passes = sum(run.drafted for run in runs), sum(len(run.passes) for run in runs)
    both = before.keys() & after.keys()
    if not both or not drafted:
        return None
    longer = sum(after[prompt] for prompt in both) / sum(before[prompt] for prompt in both)
    return (longer - 1) / (drafted / passes)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _wilson(part: float, whole: float) -> tuple[float, float]:
    """Wilson's interval of a share."""
    rate, square = part / whole, _NORMAL**2 / whole
    center = (rate + square / 2) / (1 + square)
    half = math.sqrt(rate * (1 - rate) * square + square**2 / 4) / (1 + square)
    return max(min(center - half, rate), 0.0), min(max(center + half, rate), 1.0)
