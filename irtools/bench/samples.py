"""What a benchmark runs and measures: contenders, and the attempts of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from irtools.runtime.jobs import Outcome

__all__ = ["CRASHED", "HUNG", "RAN", "REFUSED", "Attempt", "Contender", "PromptRun"]

RAN, REFUSED, CRASHED, HUNG = "ran", "refused", "crashed", "hung"


@dataclass(frozen=True, slots=True)
class Contender:
    """A row of the table: a target, a draft, and the number of tokens to draft.

    Attributes
    ----------
    name : str
        Unique in the table.
    strategy : str
        A name of :data:`irtools.model.decoding.STRATEGIES`.
    model : Path
        Directory of the target.
    draft : Path or None
        Directory of the draft; that of the target for its own MTP head; None for plain decoding.
    assistant_tokens : int
        Tokens to draft per pass; 0 for plain decoding.
    copy : str
        What was changed in a temporary copy of the export; ``""`` for the files as they are.
    recipe : str
        How to make that copy; it stands in records for its path, which is gone afterwards.
    stateful : bool
        True for a target that runs only on the stateful path of ``LLMPipeline``.
    """

    name: str
    strategy: str
    model: Path
    draft: Path | None = None
    assistant_tokens: int = 0
    copy: str = ""
    recipe: str = ""
    stateful: bool = False

    @property
    def shown_model(self) -> str:
        """Directory of the target, or how a temporary one is made."""
        return self.recipe or str(self.model)

    @property
    def shown_draft(self) -> str | None:
        """Directory of the draft as :attr:`shown_model`; None without a draft."""
        if self.draft is None:
            return None
        return self.recipe if self.recipe and self.draft == self.model else str(self.draft)


@dataclass(frozen=True, slots=True)
class PromptRun:
    """One generation.

    Attributes
    ----------
    prompt : int
        Index of the prompt.
    first_token, seconds, draft, verify, cpu : float
        Seconds, see :class:`~irtools.runtime.jobs.Timing`; ``seconds`` is the whole generation.
    passes : tuple of float
        Seconds of each pass of the target after the prefill, with the drafting before it.
    pass_tokens : tuple of int
        Tokens from each of these passes.
    accepted, drafted : int
        Drafted tokens.
    """

    prompt: int
    prompt_tokens: int
    first_token: float
    seconds: float
    draft: float
    verify: float
    cpu: float
    passes: tuple[float, ...]
    pass_tokens: tuple[int, ...]
    accepted: int = 0
    drafted: int = 0

    @classmethod
    def of(cls, prompt: int, outcome: Outcome) -> PromptRun:
        """Take the measurements of an outcome that ran."""
        timing, passes = outcome.timing, outcome.timing.passes
        tokens = outcome.pass_tokens[1:]
        if len(tokens) != len(passes):  # a runtime that does not report them
            tokens = (1,) * len(passes)
        return cls(
            prompt,
            outcome.prompt_tokens,
            timing.first_token,
            timing.seconds,
            timing.draft,
            timing.verify,
            timing.cpu,
            passes,
            tokens,
            outcome.accepted,
            outcome.drafted,
        )

    @property
    def tokens(self) -> int:
        """Tokens after the first one."""
        return sum(self.pass_tokens)

    @property
    def decode(self) -> float:
        """Seconds from the first token to the last."""
        return sum(self.passes)

    def _whole(self, drafts: int) -> list[bool]:
        """True for each pass with ``drafts`` drafted tokens.

        The runtime drafts no further than the last token that is asked for, so that the last passes may be shorter.
        """
        left, whole = self.tokens, []
        for tokens in self.pass_tokens:
            whole.append(left - 1 >= drafts)
            left -= tokens
        return whole if any(whole) else [True] * len(whole)

    def steady_passes(self, drafts: int) -> tuple[float, ...]:
        """Seconds of the passes after the first, which also fills the draft, with ``drafts`` drafted tokens."""
        times = zip(self.passes[1:], self._whole(drafts)[1:], strict=True)
        return tuple(seconds for seconds, whole in times if whole) or self.passes

    def steady_tokens(self, drafts: int) -> tuple[int, int]:
        """Number of passes with ``drafts`` drafted tokens, and tokens from them."""
        tokens = [one for one, whole in zip(self.pass_tokens, self._whole(drafts), strict=True) if whole]
        return len(tokens), sum(tokens)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PromptRun:
        """Rebuild a run from its JSON."""
        lists = {name: tuple(value[name]) for name in ("passes", "pass_tokens")}
        return cls(**{**value, **lists})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One contender in one repetition.

    Attributes
    ----------
    status : str
        ``ran``, ``refused``, ``crashed`` or ``hung``; the runs before a failure are kept.
    message : str
        How it failed.
    load, warm_up : float
        Seconds before the timed runs.
    peak_memory : int
        Largest resident set of the process in bytes; 0 if it is not that of this row alone.
    load_average : float or None
        Load of the machine before the process started.
    """

    repetition: int
    status: str
    message: str = ""
    load: float = 0.0
    warm_up: float = 0.0
    peak_memory: int = 0
    load_average: float | None = None
    runs: tuple[PromptRun, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All measurements; the inverse of :meth:`from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Attempt:
        """Rebuild an attempt from its JSON."""
        return cls(**{**value, "runs": tuple(map(PromptRun.from_json, value["runs"]))})
