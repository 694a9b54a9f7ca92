"""Decode prompts in GenAI without a draft, and with a draft for each number of assistant tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from irtools.prove.settings import Prompt, ProveSettings
from irtools.runtime.genai import iterate
from irtools.runtime.jobs import GenerationJob, Outcome

__all__ = ["Decoded", "FirstDifference", "Runs", "Totals", "decode", "decode_again", "first_difference"]

_IMAGE_SIDE = 128
_IMAGE_PROMPT = "Describe the image."


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over prompts.

    Attributes
    ----------
    tokens : int
        Generated tokens.
    passes : int
        Passes of the target, prefill included.
    accepted, drafted : int
        Drafted tokens.
    """

    tokens: int = 0
    passes: int = 0
    accepted: int = 0
    drafted: int = 0

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Totals:
        """Add up outcomes that ran."""
        counts = (sum(getattr(one, name) for one in outcomes) for name in ("steps", "accepted", "drafted"))
        return cls(sum(len(one.tokens) for one in outcomes), *counts)

    @property
    def acceptance(self) -> float | None:
        """Acceptance rate; None if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class Runs:
    """Outcomes of the prompts in one decoding strategy.

    Attributes
    ----------
    outcomes : tuple of Outcome
        In the order of the prompts.
    image : Outcome or None
        Outcome of a prompt with an image.
    refused : Outcome or None
        Outcome of the job that failed and ended the runs.
    """

    outcomes: tuple[Outcome, ...] = ()
    image: Outcome | None = None
    refused: Outcome | None = None

    @property
    def totals(self) -> Totals:
        """Sums over the prompts."""
        return Totals.of(self.outcomes)


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """First token at which drafted decoding differs from plain decoding.

    Attributes
    ----------
    prompt, position : int
        Indices of the prompt and of the generated token, from 0.
    plain, drafted : int or None
        Token id at this position; None after the end of the sequence.
    """

    assistant_tokens: int
    prompt: int
    position: int
    plain: int | None
    drafted: int | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """Runs without and with a draft.

    Attributes
    ----------
    drafted : mapping of int to Runs
        By number of assistant tokens; empty without a draft.
    """

    prompts: tuple[Prompt, ...]
    plain: Runs
    drafted: Mapping[int, Runs] = field(default_factory=dict)

    @property
    def refused(self) -> Outcome | None:
        """Outcome of the job that failed and ended the drafted runs."""
        return next((runs.refused for runs in self.drafted.values() if runs.refused), None)

    def differences(self) -> list[FirstDifference]:
        """First difference for each prompt and number of assistant tokens."""
        differences = []
        for number, runs in self.drafted.items():
            for prompt, (plain, drafted) in enumerate(zip(self.plain.outcomes, runs.outcomes, strict=False)):
                position = first_difference(plain.tokens, drafted.tokens)
                if position is not None:
                    tokens = (one.tokens[position] if position < len(one.tokens) else None for one in (plain, drafted))
                    differences.append(FirstDifference(number, prompt, position, *tokens))
        return differences


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """First position at which two sequences differ; None if they are equal."""
    if tuple(one) == tuple(other):
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(one), len(other)))


def decode(
    base: GenerationJob,
    prompts: Sequence[Prompt],
    settings: ProveSettings,
    *,
    draft: Path | None = None,
    image: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Decoded:
    """Decode prompts greedily without and with a draft.

    The plain runs have a process of their own, which ends before the draft is loaded. All drafted runs
    share one process and one pipeline.

    Parameters
    ----------
    base : GenerationJob
        Target and options of all runs.
    draft : Path, optional
        Directory of the draft; the directory of the target for its MTP head.
    image : bool
        Also decode a prompt with an image.
    """
    say = progress or (lambda text: None)
    plain = next(_runs([base], prompts, settings, image, lambda job: say("decoding without a draft")))
    if draft is None or plain.refused:
        return Decoded(tuple(prompts), plain)
    jobs = [replace(base, draft=str(draft), assistant_tokens=number) for number in sorted(settings.assistant_tokens)]
    runs = _runs(jobs, prompts, settings, image, lambda job: say(f"decoding with {job.assistant_tokens} drafted"))
    return Decoded(tuple(prompts), plain, {job.assistant_tokens: one for job, one in zip(jobs, runs, strict=False)})


def decode_again(
    base: GenerationJob,
    decoded: Decoded,
    settings: ProveSettings,
    *,
    draft: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Runs]:
    """Decode the prompts in further fresh processes, with the smallest number of assistant tokens if there is a draft.

    Parameters
    ----------
    decoded : Decoded
        The first decoding, which counts as one of the repetitions.
    """
    say = progress or (lambda text: None)
    if draft is not None:
        base = replace(base, draft=str(draft), assistant_tokens=min(decoded.drafted))
    for number in range(2, settings.repeat + 1):
        say(f"decoding in fresh process {number} of {settings.repeat}")
        yield from _runs([base], decoded.prompts, settings, False, lambda job: None)


def _runs(
    bases: Sequence[GenerationJob],
    prompts: Sequence[Prompt],
    settings: ProveSettings,
    image: bool,
    say: Callable[[GenerationJob], None],
) -> Iterator[Runs]:
    """Runs of each base job, up to the first that fails."""
    jobs = [job for number, base in enumerate(bases) for job in _jobs(base, prompts, image and number == 0)]
    with closing(iterate(jobs, timeout=settings.timeout)) as outcomes:
        for number, base in enumerate(bases):
            say(base)
            runs = _collect(outcomes, len(prompts), image and number == 0)
            yield runs
            if runs.refused:
                return


def _jobs(base: GenerationJob, prompts: Sequence[Prompt], image: bool) -> Iterable[GenerationJob]:
    jobs = [replace(base, prompt=prompt.text, token_ids=() if prompt.text else prompt.token_ids) for prompt in prompts]
    text = next((prompt.text for prompt in prompts if prompt.text), _IMAGE_PROMPT)
    return [*jobs, *([replace(base, prompt=text, image=_IMAGE_SIDE)] if image else [])]


def _collect(outcomes: Iterator[Outcome], prompts: int, image: bool) -> Runs:
    ran: list[Outcome] = []
    for _ in range(prompts):
        outcome = next(outcomes)
        if outcome.stage != "ran":
            return Runs(tuple(ran), refused=outcome)
        ran.append(outcome)
    return Runs(tuple(ran), next(outcomes) if image else None)
