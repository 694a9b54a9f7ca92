"""Settings of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from irtools.errors import OptionError
from irtools.text import given_fields, short_repr

__all__ = ["BenchSettings"]

_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """Settings of a benchmark.

    Attributes
    ----------
    drafts : tuple of Path
        Directories of drafts to compare, each with every number of assistant tokens; the export's own MTP head, if it
        has one, is always a row.
    against : tuple of Path
        Other exports of the same model, such as a grafted copy, to compare: plain and with their own MTP head.
    graft : tuple of int
        Sizes of draft heads; for each, a temporary copy of the export, made of links, gets such a head.
    assistant_tokens : tuple of int
        Numbers of tokens to draft per pass of the target.
    repeat : int
        Repetitions of each row, each in a fresh process.
    device : str
        OpenVINO device.
    properties : mapping of str to str
        Device properties for the compilation.
    prompts : Path or None
        File of prompts; None: the shipped workload classes.
    classes : tuple of str
        Workload classes to run; empty: all.
    context : int
        Least number of tokens of a prompt; shorter ones are padded. 0: no padding.
    max_new_tokens : int
        Tokens to generate per prompt; the end-of-text token does not stop generation.
    keep_loaded : bool
        Load each pipeline once and interleave the rows in one process; memory is then not measured.
    min_speedup : float or None
        Speed-up below which the benchmark fails.
    min_acceptance : float or None
        Acceptance rate below which the benchmark fails.
    timeout : float
        Seconds without a sign of life after which a row counts as hung.
    hash_weights : bool
        Hash weights of more than 1 GiB whole, and not only samples of them.
    """

    drafts: tuple[Path, ...] = ()
    against: tuple[Path, ...] = ()
    graft: tuple[int, ...] = ()
    assistant_tokens: tuple[int, ...] = (1, 2, 3)
    repeat: int = 5
    device: str = "CPU"
    properties: Mapping[str, str] = field(default_factory=dict)
    prompts: Path | None = None
    classes: tuple[str, ...] = ()
    context: int = 0
    max_new_tokens: int = 64
    keep_loaded: bool = False
    min_speedup: float | None = None
    min_acceptance: float | None = None
    timeout: float = 600.0
    hash_weights: bool = False

    def __repr__(self) -> str:
        return short_repr(self, *given_fields(self))

    def __post_init__(self) -> None:
        """Refuse settings that are invalid for every export, with an ``OptionError``."""
        acceptance, speed_up = self.min_acceptance, self.min_speedup
        faults = {
            "there are no numbers of assistant tokens; leave the option out for 1-3": not self.assistant_tokens,
            "the numbers of assistant tokens must be from 1 to 1000": any(
                not 1 <= number <= 1000 for number in self.assistant_tokens
            ),
            f"{self.repeat} repetitions: at least 1 is needed": self.repeat < 1,
            f"{self.max_new_tokens} new tokens: at least 8 are needed to time them": self.max_new_tokens < 8,
            f"{self.max_new_tokens} new tokens are more than {_MOST}": self.max_new_tokens > _MOST,
            f"a context of {self.context} tokens is not between 0 and {_MOST}": not 0 <= self.context <= _MOST,
            f"the acceptance rate {acceptance} is not between 0 and 1": acceptance is not None
            and not 0 <= acceptance <= 1,
            f"the speed-up {speed_up} is not above 0": speed_up is not None and not speed_up > 0,
            "a draft head needs at least 1 token": any(size < 1 for size in self.graft),
            f"a timeout of {self.timeout} s is not above 0": not self.timeout > 0,
        }
        for fault, present in faults.items():
            if present:
                raise OptionError(fault)
