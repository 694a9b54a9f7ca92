"""What a proof is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from irtools.errors import OptionError

__all__ = ["STEPS", "Prompt", "Settings"]

STEPS = ("taps", "state", "head", "runtime")
"""Names of the steps, in the order in which they are made."""
_LABEL = 32
_MOST = 1_000_000
"""Tokens beyond which no sequence goes; the runtime takes no number of any size."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What to continue: text, or token ids.

    Attributes
    ----------
    text : str
    token_ids : tuple of int
        What the numeric steps use; the runtime gets the text where there is some.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The prompt on one short line."""
        shown = repr(self.text) if self.text else " ".join(map(str, self.token_ids))
        return shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 3]}..."


@dataclass(frozen=True, slots=True)
class Settings:
    """What to prove, and with what.

    Attributes
    ----------
    draft : Path or None
        Directory of a draft model, such as a DFlash one; None: the export's own MTP head if it has one.
    device : str
        OpenVINO device.
    prompts : tuple of str
        Given as they are; empty: those that suit the export (:mod:`irtools.prove.prompts`).
    token_ids : tuple of tuple of int
        Prompts as token ids, instead of text.
    max_new_tokens : int
        Tokens to generate for each prompt; the end-of-text token does not stop it.
    assistant_tokens : tuple of int
        Numbers of tokens to draft per pass of the target, each measured by itself.
    min_acceptance : float or None
        Accepted share of all drafted tokens, at the smallest of ``assistant_tokens``, below which the proof fails.
    chat_template : bool
        Put prompts through the export's chat template.
    steps : tuple of str
        Which of ``taps``, ``state``, ``head`` and ``runtime`` to make.
    seed : int
        Of the token ids that stand in for prompts when there is no tokenizer, and of all other chance.
    timeout : float
        Seconds that one load or one generation may take.
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
    timeout: float = 1800.0

    def __post_init__(self) -> None:
        """Refuse what makes no sense for any export.

        Raises
        ------
        OptionError
        """
        for fault in self._faults():
            raise OptionError(fault)

    def _faults(self) -> list[str]:
        unknown = [step for step in self.steps if step not in STEPS]
        runs = "runtime" in self.steps
        few = [ids for ids in self.token_ids if len(ids) < 2]
        faults = {
            f"there is no step {', '.join(unknown)!r}; the steps are {', '.join(STEPS)}": bool(unknown),
            "no step is left to make; leave --steps out to make all": not self.steps,
            "prompts are given either as text or as token ids": bool(self.prompts and self.token_ids),
            "a prompt is empty; give some text, or --token-ids": any(not prompt for prompt in self.prompts),
            "the runtime takes prompts of at least two tokens": bool(few),
            "a token id is negative; ids count from 0": any(token < 0 for ids in self.token_ids for token in ids),
            f"{self.max_new_tokens} new tokens: at least 2 are needed to draft one": self.max_new_tokens < 2,
            f"{self.max_new_tokens} new tokens are more than {_MOST}": self.max_new_tokens > _MOST,
            "the numbers of assistant tokens are at least 1": any(number < 1 for number in self.assistant_tokens),
            f"the numbers of assistant tokens are at most {_MOST}": any(n > _MOST for n in self.assistant_tokens),
            "there are no numbers of assistant tokens; leave the option out for 1, 2 and 3": not self.assistant_tokens,
            f"the acceptance {self.min_acceptance} does not lie between 0 and 1": self.min_acceptance is not None
            and not 0 <= self.min_acceptance <= 1,
            "an acceptance is measured by the step runtime, which is left out": self.min_acceptance is not None
            and not runs,
        }
        return [fault for fault, present in faults.items() if present]
