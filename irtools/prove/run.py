"""Prove an export: the steps in order, and a record of it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from irtools.decoder import locate
from irtools.decoder.stack import DecoderStack
from irtools.errors import ExportError, IrtoolsError, LocateRefusedError, OptionError, UsageError
from irtools.model.directory import ModelDirectory
from irtools.model.part import Part
from irtools.prove.drive import Files
from irtools.prove.model import FAILED, NOT_APPLICABLE, Step
from irtools.prove.prompts import default_prompts
from irtools.prove.record import record
from irtools.prove.refusal import Evidence
from irtools.prove.settings import STEPS, Prompt, Settings
from irtools.prove.speculate import Way, speculate, way_of
from irtools.prove.worker import Worker
from irtools.runtime import genai
from irtools.runtime.lines import Progress
from irtools.runtime.probe import Probe, probe

__all__ = ["Proof", "prove"]

_RANDOM_PROMPTS = 3
_RANDOM_LENGTH = 16
_FEWEST = 2
_FIRST_ORDINARY = 3
"""The ids before it mostly stand for padding, beginning and end."""


@dataclass(frozen=True)
class Proof:
    """What came of proving an export.

    Attributes
    ----------
    export : ModelDirectory
    settings : Settings
    way : Way
        How it was decoded.
    steps : tuple of Step
        In the order in which they were made.
    record : mapping
        Everything that reproduces the proof, as JSON; valid against ``irtools.prove.record.schema()``.
    """

    export: ModelDirectory
    settings: Settings
    way: Way
    steps: tuple[Step, ...]
    record: Mapping[str, Any] = field(repr=False)

    @property
    def failed(self) -> bool:
        """Whether a step failed."""
        return any(step.status == FAILED for step in self.steps)

    @property
    def nothing(self) -> bool:
        """Whether no step applies: nothing was proved."""
        return bool(self.steps) and all(step.status == NOT_APPLICABLE for step in self.steps)

    @property
    def why_nothing(self) -> str:
        """Why the first step does not apply."""
        step = self.steps[0]
        return step.why or next((check.why for check in step.checks), "")

    @property
    def exit_code(self) -> int:
        """What the command exits with: 1 when a step failed, 2 when none applies."""
        return 2 if self.nothing else int(self.failed)


def prove(export: ModelDirectory, settings: Settings | None = None, progress: Progress | None = None) -> Proof:
    """Prove an export by running it.

    Parameters
    ----------
    export : ModelDirectory
    settings : Settings, optional
    progress : callable, optional
        Takes what is being done, as a clause.

    Returns
    -------
    Proof

    Raises
    ------
    ExportError
        There is no target, or no draft where one was named.
    InvalidIRError
        The target cannot be read.
    UsageError
        openvino-genai is not installed, or an option makes no sense for the export.
    """
    settings = settings or Settings()
    if "runtime" in settings.steps and not genai.available():
        raise UsageError(genai.NOT_INSTALLED)
    draft = ModelDirectory.open(settings.draft) if settings.draft is not None else None
    if draft is not None:
        _ = draft.target
    _ = export.target.graph
    way = way_of(export, draft)
    if settings.min_acceptance is not None and way.draft is None:
        raise UsageError("an acceptance needs something that drafts: there is no MTP head; give --draft")
    say = progress or (lambda text: None)
    say("looking at the device and the prompts")
    prompts, seen = _prompts(export, settings)
    _check_prompts(export, prompts, drafting="runtime" in settings.steps and way.draft is not None)
    steps = tuple(_steps(export, way, prompts, settings, say))
    return Proof(export, settings, way, steps, record(export, way, prompts, settings, seen, steps))


def _prompts(export: ModelDirectory, settings: Settings) -> tuple[tuple[Prompt, ...], Probe]:
    """The prompts with their token ids, and what runs here.

    When they cannot be tokenized, token ids from a fixed seed stand in. The runtime gets those too where it takes
    ids and there is no tokenizer; what it says of a faulty one is worth hearing.
    """
    texts = () if settings.token_ids else settings.prompts or default_prompts()
    seen = probe(settings.device, export.directory, texts, chat_template=settings.chat_template)
    if seen.unusable:
        raise UsageError(
            f"{seen.unusable}; install the extra again (in a checkout: pip install --force-reinstall '.[runtime]')"
        )
    if not seen.properties and not seen.ended:
        raise OptionError(f"there is no device {settings.device!r}; OpenVINO sees {', '.join(seen.devices)}")
    if settings.token_ids:
        return tuple(Prompt(token_ids=ids) for ids in settings.token_ids), seen
    if seen.tokens:
        return tuple(Prompt(text, ids) for text, ids in zip(texts, seen.tokens, strict=True)), seen
    made = _random_ids(export, settings.seed, len(texts) if settings.prompts else _RANDOM_PROMPTS)
    needless = Part(export.target).input("input_ids") and not (export.directory / "openvino_tokenizer.xml").exists()
    given = () if needless else settings.prompts
    return tuple(Prompt(text, ids) for text, ids in zip(given or ("",) * len(made), made, strict=True)), seen


def _check_prompts(export: ModelDirectory, prompts: tuple[Prompt, ...], *, drafting: bool) -> None:
    vocabulary = _vocabulary(export)
    for prompt in prompts:
        if vocabulary and max(prompt.token_ids) >= vocabulary:
            raise UsageError(f"the token id {max(prompt.token_ids)} is not in the vocabulary of {vocabulary}")
        if drafting and len(prompt.token_ids) < _FEWEST:
            raise UsageError(f"the prompt {prompt.label} is one token, and the runtime drafts after two or more")


def _random_ids(export: ModelDirectory, seed: int, count: int) -> list[tuple[int, ...]]:
    """Token ids for ``count`` prompts, the same for the same seed and vocabulary."""
    chance = random.Random(seed)
    last = max(_vocabulary(export) - 1, _FIRST_ORDINARY)
    return [tuple(chance.randint(_FIRST_ORDINARY, last) for _ in range(_RANDOM_LENGTH)) for _ in range(count)]


def _vocabulary(export: ModelDirectory) -> int:
    from irtools.decoder.head import find_head

    try:
        return find_head(export.target.graph).vocabulary
    except LocateRefusedError:
        return 0


def _steps(
    export: ModelDirectory, way: Way, prompts: tuple[Prompt, ...], settings: Settings, say: Progress
) -> Iterator[Step]:
    """The steps that were asked for. One process runs the numbers of the first three, and ends before the last."""
    wanted = [name for name in STEPS if name in settings.steps]
    numeric = [name for name in wanted if name != "runtime"]
    if numeric:
        stack = _located(export)
        with Worker(Files.of(export, settings.device), timeout=settings.timeout) as worker:
            for name in numeric:
                try:
                    step = _numeric(name, export, worker, prompts, stack, settings.seed, _about(name, say))
                except IrtoolsError as error:  # a file that this step reads and others do not
                    step = Step(name, why=str(error), broken=True)
                yield _explained(step, Evidence(export, way.name, settings.draft)) if step.broken else step
    if "runtime" in wanted:
        yield speculate(export, way, prompts, settings, _about("runtime", say))


def _explained(step: Step, evidence: Evidence) -> Step:
    """A step that the runtime would not let be finished, with the rule that says why."""
    named = evidence.named(step.why)
    return replace(step, why=f"{step.why.rstrip('.!')}. {named}") if named else step


def _about(step: str, say: Progress) -> Progress:
    return lambda text: say(f"{step}: {text}")


def _located(export: ModelDirectory) -> DecoderStack | LocateRefusedError:
    """The decoder stack, or why it is refused; without a config.json that cannot be read."""
    try:
        return locate(export.target, config=export.config)
    except LocateRefusedError as error:
        return error
    except ExportError:
        pass
    try:
        return locate(export.target, config={})
    except LocateRefusedError as error:
        return error


def _numeric(
    name: str,
    export: ModelDirectory,
    worker: Worker,
    prompts: tuple[Prompt, ...],
    stack: DecoderStack | LocateRefusedError,
    seed: int,
    say: Progress,
) -> Step:
    """One of the steps that compare numbers."""
    tokens = [prompt.token_ids for prompt in prompts]
    if name == "taps":
        from irtools.prove.taps import taps

        return taps(export, worker, tokens[0], stack, say)
    if name == "state":
        from irtools.prove.state import state

        return state(export, worker, tokens[0], say)
    from irtools.prove.head import head

    return head(export, worker, tokens, say, stack=stack, seed=seed)
