"""Run the steps of a proof in order and build its record."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from irtools.decoder import locate
from irtools.decoder.stack import DecoderStack
from irtools.display import Tabular
from irtools.errors import ExportError, IrtoolsError, LocateRefusedError, UsageError
from irtools.model.directory import ModelDirectory
from irtools.model.draft import draft as read_draft
from irtools.model.draft import most_assistant_tokens
from irtools.model.part import PartFacts
from irtools.prove.evidence import Evidence
from irtools.prove.files import Files
from irtools.prove.prompts import DEFAULT_PROMPTS
from irtools.prove.record import record
from irtools.prove.refusal import RefusalEvidence
from irtools.prove.settings import STEPS, Prompt, ProveSettings
from irtools.prove.speculate import DraftSetup, draft_setup, speculate
from irtools.prove.steps import FAILED, NOT_APPLICABLE, Step
from irtools.prove.worker import Worker
from irtools.runtime import genai
from irtools.runtime.child import Progress
from irtools.runtime.probe import RuntimeFacts, probe
from irtools.text import short_repr

__all__ = ["Proof", "prove"]

_RANDOM_PROMPTS = 3
_RANDOM_LENGTH = 16
_FEWEST = 2
_FIRST_ORDINARY = 3
"""Lower token ids usually are special tokens: padding, beginning and end of text."""


@dataclass(frozen=True)
class Proof(Tabular):
    """Result of proving an export.

    Attributes
    ----------
    setup : DraftSetup
        Decoding strategy.
    steps : tuple of Step
        In the order of execution.
    record : mapping
        Settings and figures of the proof as JSON; valid against ``irtools.prove.record.schema()``.
    """

    export: ModelDirectory
    settings: ProveSettings
    setup: DraftSetup
    steps: tuple[Step, ...]
    record: Mapping[str, Any]

    def __repr__(self) -> str:
        return short_repr(self, str(self.export.path), *(f"{step.name} {step.status}" for step in self.steps))

    @property
    def failed(self) -> bool:
        """True if a step failed."""
        return any(step.status == FAILED for step in self.steps)

    @property
    def nothing(self) -> bool:
        """True if no step applies, so that nothing was proved."""
        return bool(self.steps) and all(step.status == NOT_APPLICABLE for step in self.steps)

    @property
    def why_nothing(self) -> str:
        """Reason why the first step does not apply."""
        step = self.steps[0]
        return step.why or next((check.why for check in step.checks), "")

    @property
    def exit_code(self) -> int:
        """Exit code of the command, which is 1 if a step failed, 2 if no step applies."""
        return 2 if self.nothing else int(self.failed)


def prove(
    export: ModelDirectory,
    settings: ProveSettings | None = None,
    progress: Progress | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Proof:
    """Prove an export by running it.

    Parameters
    ----------
    on_step : callable, optional
        Called with each step as soon as it has ended.

    Raises
    ------
    ExportError
        The target, or the draft in the settings, does not exist.
    InvalidIRError
        The target cannot be read.
    UsageError
        A setting is invalid for the export; or openvino-genai is not installed, and no other step than ``runtime`` is
        selected or a setting needs it.
    """
    settings = settings or ProveSettings()
    absent = "runtime" in settings.steps and not genai.available()
    if absent and (settings.steps == ("runtime",) or settings.min_acceptance is not None or settings.repeat > 1):
        raise UsageError(genai.NOT_INSTALLED)
    draft = ModelDirectory.open(settings.draft) if settings.draft is not None else None
    if draft is not None:
        _ = draft.target
    _ = export.target.graph
    setup = draft_setup(export, draft)
    settings = _within_block(settings, setup)
    if settings.min_acceptance is not None and setup.draft is None:
        raise UsageError("the acceptance rate can only be measured with a draft: there is no MTP head; give --draft")
    if "runtime" in settings.steps and not absent:
        _check_release(setup)
    say = progress or (lambda text: None)
    say("querying the device and tokenizing the prompts")
    prompts, seen = _prompts(export, settings)
    _check_prompts(export, prompts, drafting="runtime" in settings.steps and setup.draft is not None)
    evidence = _evidence(export, setup, settings, seen, say)
    done = on_step or (lambda step: None)
    steps = []
    for step in _steps(export, setup, prompts, settings, say):
        done(step)
        steps.append(step)
    return Proof(export, settings, setup, tuple(steps), record(setup, prompts, settings, evidence, steps))


def _evidence(
    export: ModelDirectory, setup: DraftSetup, settings: ProveSettings, seen: RuntimeFacts, say: Progress
) -> Evidence:
    """Conditions of the proof; the models are compiled for their properties only if the runtime will load them."""
    models, compiled, draft = {"model": export}, {"target": export.target.path}, setup.export
    if draft is not None:
        models |= {"draft": draft} if draft is not export else {}
        compiled |= {"mtp": draft.mtp.path} if draft.mtp is not None else {"draft": draft.target.path}
    return Evidence.take(
        settings.device,
        seen,
        models,
        compiled if "runtime" in settings.steps else None,
        whole=settings.hash_weights,
        timeout=settings.timeout,
        progress=say,
    )


def _within_block(settings: ProveSettings, setup: DraftSetup) -> ProveSettings:
    """The settings with as many assistant tokens as a DFlash draft can draft; numbers that a user chose are refused."""
    draft = setup.export
    if draft is None or setup.name != "dflash":
        return settings
    most = most_assistant_tokens(read_draft(PartFacts(draft.target)), draft)
    beyond = [number for number in settings.assistant_tokens if most is not None and number > most]
    if most is None or not beyond:
        return settings
    if settings.assistant_tokens != ProveSettings().assistant_tokens:
        raise UsageError(
            f"{beyond[0]} assistant tokens are more than the draft was trained for: "
            f"its block_size is {most + 1}, so give --assistant-tokens of at most {most}",
            path=draft.path,
        )
    return replace(settings, assistant_tokens=tuple(n for n in settings.assistant_tokens if n <= most))


def _check_release(setup: DraftSetup) -> None:
    if reason := genai.missing(setup.name):
        raise UsageError(
            f"{setup.name} needs a newer runtime: {reason}",
            hint="Install the newer openvino-genai, or leave out the step `runtime` (--steps taps,state,head).",
        )


def _prompts(export: ModelDirectory, settings: ProveSettings) -> tuple[tuple[Prompt, ...], RuntimeFacts]:
    """Prompts with their token ids, and the properties of the device.

    Prompts that cannot be tokenized are replaced by token ids from a fixed seed. The runtime gets these ids too if
    it accepts ids and there is no tokenizer. With a faulty tokenizer the runtime gets the text, to report its message.
    """
    texts = () if settings.token_ids else settings.prompts or DEFAULT_PROMPTS
    seen = probe(settings.device, export.directory, texts, chat_template=settings.chat_template)
    seen.require(settings.device)
    if settings.token_ids:
        return tuple(Prompt(token_ids=ids) for ids in settings.token_ids), seen
    if seen.tokens:
        return tuple(Prompt(text, ids) for text, ids in zip(texts, seen.tokens, strict=True)), seen
    ids = _random_ids(export, settings.seed, len(texts) if settings.prompts else _RANDOM_PROMPTS)
    needless = (
        PartFacts(export.target).input("input_ids") and not (export.directory / "openvino_tokenizer.xml").exists()
    )
    texts = (() if needless else settings.prompts) or ("",) * len(ids)
    return tuple(Prompt(text, made) for text, made in zip(texts, ids, strict=True)), seen


def _check_prompts(export: ModelDirectory, prompts: tuple[Prompt, ...], *, drafting: bool) -> None:
    vocabulary = _vocabulary(export)
    for prompt in prompts:
        if vocabulary and max(prompt.token_ids) >= vocabulary:
            raise UsageError(f"token id {max(prompt.token_ids)} is outside the vocabulary of {vocabulary} tokens")
        if drafting and len(prompt.token_ids) < _FEWEST:
            raise UsageError(f"the prompt {prompt.label} has one token, but the runtime needs two or more to draft")


def _random_ids(export: ModelDirectory, seed: int, count: int) -> list[tuple[int, ...]]:
    """Token ids for ``count`` prompts; they depend only on the seed and the vocabulary."""
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
    export: ModelDirectory, setup: DraftSetup, prompts: tuple[Prompt, ...], settings: ProveSettings, say: Progress
) -> Iterator[Step]:
    """Results of the selected steps. One process runs the first three steps and ends before the last one."""
    wanted = [name for name in STEPS if name in settings.steps]
    numeric = [name for name in wanted if name != "runtime"]
    if numeric:
        stack = _located(export)
        with Worker(Files.of(export, settings.device), timeout=settings.timeout) as worker:
            for name in numeric:
                try:
                    step = _numeric(name, export, worker, prompts, stack, settings.seed, _about(name, say))
                except IrtoolsError as error:  # a file that only this step reads
                    step = Step(name, why=str(error), broken=True)
                named = RefusalEvidence(export, setup.name, settings.draft).named(step.why) if step.broken else ""
                yield replace(step, why=f"{step.why.rstrip('.!')}. {named}") if named else step
    if "runtime" in wanted and not genai.available():
        yield Step("runtime", why=genai.NOT_INSTALLED)
    elif "runtime" in wanted:
        yield speculate(export, setup, prompts, settings, _about("runtime", say))


def _about(step: str, say: Progress) -> Progress:
    return lambda text: say(f"{step}: {text}")


def _located(export: ModelDirectory) -> DecoderStack | LocateRefusedError:
    """The decoder stack, or the refusal to locate it. An unreadable config.json is ignored."""
    try:
        try:
            return locate(export.target, config=export.config)
        except ExportError:
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
    tokens = [prompt.token_ids for prompt in prompts]
    if name == "taps":
        from irtools.prove.taps import taps

        return taps(export, worker, tokens[0], stack, say)
    if name == "state":
        from irtools.prove.state import state

        return state(export, worker, tokens[0], say)
    from irtools.prove.head import head

    return head(export, worker, tokens, say, stack=stack, seed=seed)
