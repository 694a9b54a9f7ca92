"""Settings of a proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from irtools.errors import OptionError
from irtools.text import given_fields, short_repr

__all__ = ["STEPS", "Prompt", "ProveSettings"]

STEPS = ("taps", "state", "head", "runtime")
"""Names of the steps, in the order of execution."""
_LABEL = 32
_MOST = 1_000_000
"""Upper limit of token counts: longer sequences do not occur, and the runtime accepts only bounded integers."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as text, token ids, or both.

    Attributes
    ----------
    token_ids : tuple of int
        Input of the numeric steps. The runtime gets the text if there is any.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The prompt on one short line."""
        label = repr(self.text) if self.text else " ".join(map(str, self.token_ids))
        return label if len(label) <= _LABEL else f"{label[: _LABEL - 3]}..."


@dataclass(frozen=True, slots=True)
class ProveSettings:
    """Settings of a proof.

    Attributes
    ----------
    draft : Path or None
        Directory of a draft model, such as a DFlash draft; None: the export's own MTP head, if it has one.
    device : str
        OpenVINO device.
    prompts : tuple of str
        Prompts as text; empty: the default prompts (:mod:`irtools.prove.prompts`).
    token_ids : tuple of tuple of int
        Prompts as token ids, instead of text.
    max_new_tokens : int
        Tokens to generate for each prompt; the end-of-text token does not stop generation.
    assistant_tokens : tuple of int
        Numbers of tokens to draft per pass of the target; each decodes all prompts.
    min_acceptance : float or None
        Acceptance rate, at the smallest of ``assistant_tokens``, below which the proof fails.
    chat_template : bool
        Apply the export's chat template to the prompts.
    steps : tuple of str
        Steps to run: ``taps``, ``state``, ``head`` and ``runtime``.
    seed : int
        Seed of all randomness, such as the token ids that replace prompts if there is no tokenizer.
    repeat : int
        Number of fresh processes that decode the prompts, each with new pipelines; all must give the same tokens and
        the same acceptance.
    timeout : float
        Maximum duration of one load or one generation, in seconds.
    hash_weights : bool
        Hash weights of more than 1 GiB whole, and not only samples of them.
    """

    draft: Path | None = None
    device: str = "CPU"
    prompts: tuple[str, ...] = ()
    token_ids: tuple[tuple[int, ...], ...] = ()
    max_new_tokens: int = 40
    assistant_tokens: tuple[int, ...] = (1, 2, 3)
    min_acceptance: float | None = None
    chat_template: bool = False
    steps: tuple[str, ...] = STEPS
    seed: int = 0
    repeat: int = 1
    timeout: float = 1800.0
    hash_weights: bool = False

    def __repr__(self) -> str:
        return short_repr(self, *given_fields(self))

    def __post_init__(self) -> None:
        """Refuse settings that are invalid for every export, with an ``OptionError``."""
        unknown = [step for step in self.steps if step not in STEPS]
        acceptance, numbers = self.min_acceptance, self.assistant_tokens
        faults = {
            f"there is no step {', '.join(unknown)!r}; the steps are {', '.join(STEPS)}": bool(unknown),
            "no step is selected; leave --steps out to run all": not self.steps,
            "give the prompts either as text or as token ids, not both": bool(self.prompts and self.token_ids),
            "a prompt is empty; give some text, or --token-ids": any(not prompt for prompt in self.prompts),
            "the runtime needs prompts of at least two tokens": any(len(ids) < 2 for ids in self.token_ids),
            "a token id is negative; ids count from 0": any(token < 0 for ids in self.token_ids for token in ids),
            f"{self.max_new_tokens} new tokens: at least 2 are needed to draft one": self.max_new_tokens < 2,
            f"{self.max_new_tokens} new tokens are more than {_MOST}": self.max_new_tokens > _MOST,
            "the numbers of assistant tokens must be at least 1": any(number < 1 for number in numbers),
            f"the numbers of assistant tokens must be at most {_MOST}": any(number > _MOST for number in numbers),
            "there are no numbers of assistant tokens; leave the option out for 1, 2 and 3": not numbers,
            f"{self.repeat} repetitions: at least 1 is needed": self.repeat < 1,
            "repetitions are made by the step runtime, which is not selected": self.repeat > 1
            and "runtime" not in self.steps,
            f"the acceptance rate {acceptance} is not between 0 and 1": acceptance is not None
            and not 0 <= acceptance <= 1,
            "the acceptance rate is measured by the step runtime, which is not selected": acceptance is not None
            and "runtime" not in self.steps,
        }
        for fault, present in faults.items():
            if present:
                raise OptionError(fault)
