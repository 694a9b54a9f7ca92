"""Decode prompts in GenAI: plainly, and with a draft that proposes one, two or more tokens at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from irtools.prove.advice import Totals
from irtools.prove.settings import Prompt, Settings
from irtools.runtime.genai import Job, Outcome, iterate

__all__ = ["Decoded", "Difference", "Runs", "decode", "first_difference"]

_IMAGE_SIDE = 128
_IMAGE_PROMPT = "Describe the image."


@dataclass(frozen=True, slots=True)
class Runs:
    """What one process did: the prompts, decoded in one way.

    Attributes
    ----------
    outcomes : tuple of Outcome
        In the order of the prompts.
    image : Outcome or None
        What came of a prompt with an image.
    refused : Outcome or None
        What ended it early.
    """

    outcomes: tuple[Outcome, ...] = ()
    image: Outcome | None = None
    refused: Outcome | None = None

    @property
    def totals(self) -> Totals:
        """Sums over the prompts."""
        return Totals.of(self.outcomes)

    @property
    def peak_memory(self) -> int:
        """Largest resident set of the process, in bytes."""
        return max((one.timing.peak_memory for one in self.outcomes), default=0)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where drafted decoding departed from plain decoding.

    Attributes
    ----------
    assistant_tokens, prompt, position : int
        The prompt and the generated token are counted from 0.
    plain, drafted : int or None
        The token there; None where one had ended.
    """

    assistant_tokens: int
    prompt: int
    position: int
    plain: int | None
    drafted: int | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """Everything that was decoded.

    Attributes
    ----------
    prompts : tuple of Prompt
    plain : Runs
    drafted : mapping of int to Runs
        By number of assistant tokens; empty without a draft.
    """

    prompts: tuple[Prompt, ...]
    plain: Runs
    drafted: Mapping[int, Runs] = field(default_factory=dict)

    @property
    def refused(self) -> Outcome | None:
        """What ended the drafted runs early."""
        return next((runs.refused for runs in self.drafted.values() if runs.refused), None)

    def differences(self) -> list[Difference]:
        """The first difference of each prompt and number."""
        found = []
        for number, runs in self.drafted.items():
            for prompt, (plain, drafted) in enumerate(zip(self.plain.outcomes, runs.outcomes, strict=False)):
                position = first_difference(plain.tokens, drafted.tokens)
                if position is not None:
                    found.append(Difference(number, prompt, position, *_at(position, plain, drafted)))
        return found


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first position at which two sequences differ; None when they are equal."""
    if tuple(one) == tuple(other):
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(one), len(other)))


def _at(position: int, *outcomes: Outcome) -> Iterator[int | None]:
    for outcome in outcomes:
        yield outcome.tokens[position] if position < len(outcome.tokens) else None


def decode(
    model: Path,
    prompts: Sequence[Prompt],
    settings: Settings,
    *,
    draft: Path | None = None,
    stateful: bool = False,
    image: bool = False,
    as_text: bool = False,
    exact: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Decoded:
    """Decode prompts greedily, plainly and with a draft.

    The plain runs are made in a process of their own, which ends before the draft is loaded; the
    drafted ones share a process and a pipeline, whatever number of tokens is drafted.

    Parameters
    ----------
    model : Path
        Directory of the target.
    prompts : sequence of Prompt
    settings : Settings
    draft : Path, optional
        Directory of the draft; the target's own for its MTP head.
    stateful : bool
        On the path without paged attention.
    image : bool
        Also with an image.
    as_text : bool
        Give token ids as the text that they stand for.
    exact : bool
        With as little rounding as the device can do.
    progress : callable, optional
    """
    say = progress or (lambda text: None)
    base = Job(
        str(model),
        device=settings.device,
        max_new_tokens=settings.max_new_tokens,
        chat_template=settings.chat_template,
        stateful=stateful,
        as_text=as_text,
        exact=exact,
        reuse=True,
    )
    plain = next(_runs([base], prompts, settings, image, lambda job: say("decoding without a draft")))
    if draft is None or plain.refused:
        return Decoded(tuple(prompts), plain)
    jobs = [replace(base, draft=str(draft), assistant_tokens=number) for number in sorted(settings.assistant_tokens)]
    runs = _runs(jobs, prompts, settings, image, lambda job: say(f"decoding with {job.assistant_tokens} drafted"))
    return Decoded(tuple(prompts), plain, {job.assistant_tokens: found for job, found in zip(jobs, runs, strict=False)})


def _runs(
    bases: Sequence[Job], prompts: Sequence[Prompt], settings: Settings, image: bool, say: Callable[[Job], None]
) -> Iterator[Runs]:
    """One for each job that the others are made from, until one cannot be finished."""
    jobs = [job for number, base in enumerate(bases) for job in _jobs(base, prompts, image and number == 0)]
    with closing(iterate(jobs, timeout=settings.timeout)) as outcomes:
        for number, base in enumerate(bases):
            say(base)
            found = _collect(outcomes, len(prompts), image and number == 0)
            yield found
            if found.refused:
                return


def _jobs(base: Job, prompts: Sequence[Prompt], image: bool) -> Iterable[Job]:
    made = [replace(base, prompt=prompt.text, token_ids=() if prompt.text else prompt.token_ids) for prompt in prompts]
    # A whole run that does not count: the device compiles for each length that it meets, and the first of
    # several numbers of candidates would pay for all of them.
    warm_up = made[0]
    text = next((prompt.text for prompt in prompts if prompt.text), _IMAGE_PROMPT)
    return [warm_up, *made, *([replace(base, prompt=text, image=_IMAGE_SIDE)] if image else [])]


def _collect(outcomes: Iterator[Outcome], prompts: int, image: bool) -> Runs:
    first = next(outcomes)
    if first.stage != "ran":
        return Runs(refused=first)
    found: list[Outcome] = []
    for _ in range(prompts):
        outcome = next(outcomes)
        if outcome.stage != "ran":
            return Runs(tuple(found), refused=outcome)
        found.append(outcome)
    return Runs(tuple(found), next(outcomes) if image else None)
