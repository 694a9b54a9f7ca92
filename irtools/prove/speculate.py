"""Step 4: decode the export in OpenVINO GenAI, and compare drafted with plain decoding."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from irtools.errors import InvalidIRError
from irtools.lint.symptoms import explanation, of_check
from irtools.model.directory import TARGET_FILES, ModelDirectory
from irtools.model.draft import draft as draft_facts
from irtools.model.part import PartFacts
from irtools.prove.decoding import Decoded, FirstDifference, decode, decode_again, first_difference
from irtools.prove.figures import acceptance_figures, plain_figures
from irtools.prove.refusal import RefusalEvidence, cite, suspects
from irtools.prove.settings import Prompt, ProveSettings
from irtools.prove.steps import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.runtime.child import Progress
from irtools.runtime.conversion import convert
from irtools.runtime.jobs import GenerationJob, Outcome
from irtools.text import joined, plural

__all__ = ["DraftSetup", "draft_setup", "speculate"]

_MANY = 20
"""Minimum number of drafted tokens for a judgement of the acceptance rate."""
_HARDLY = 0.05
"""Acceptance rate below which the draft is useless."""
_LOW = 0.5
"""Acceptance rate below which findings of the rules are cited."""
_TITLES = {"dflash": "DFlash draft", "eagle3": "EAGLE-3 draft", "draft": "ordinary draft"}
_STAGES = {"load": "loading it", "generate": "generating tokens", "crash": "running it"}


@dataclass(frozen=True, slots=True)
class DraftSetup:
    """Decoding strategy of an export.

    Attributes
    ----------
    name : str
        A name of :data:`irtools.model.decoding.STRATEGIES`.
    title : str
        Kind of the draft; ``""`` without a draft.
    export : ModelDirectory or None
        The draft; that of the target for its own MTP head.
    """

    name: str = "plain"
    title: str = ""
    export: ModelDirectory | None = None

    @property
    def draft(self) -> Path | None:
        """Directory of the draft."""
        return self.export.directory if self.export is not None else None


def draft_setup(export: ModelDirectory, draft: ModelDirectory | None) -> DraftSetup:
    """Decoding strategy of an export: with the given draft, else with its own MTP head, else plain."""
    if draft is not None and draft.directory.resolve() == export.directory.resolve():
        draft = export  # one spelling of the path
    chosen = draft or export
    if chosen.mtp is not None:  # the runtime prefers it to a language model in the same directory
        return DraftSetup("mtp", "MTP head", chosen)
    if draft is None:
        return DraftSetup()
    try:
        kind = draft_facts(PartFacts(draft.target)).kind
    except InvalidIRError:  # the runtime reports it in a later check
        kind = "plain"
    name = "draft" if kind == "plain" else kind
    return DraftSetup(name, _TITLES[name], draft)


def speculate(
    export: ModelDirectory,
    setup: DraftSetup,
    prompts: Sequence[Prompt],
    settings: ProveSettings,
    progress: Progress | None = None,
) -> Step:
    """Decode prompts (at least one) in GenAI without and with the draft, and compare the results."""
    began = time.monotonic()
    why = _no_target(export)
    if why:
        return Step("runtime", _measured((), settings), why=why)
    work = _Decoding(export, setup, tuple(prompts), settings, progress or (lambda text: None))
    checks = _measured(tuple(work.checks()), settings)
    seconds = time.monotonic() - began
    return Step("runtime", checks, work.broken, seconds, bool(work.broken))


def _measured(checks: tuple[Check, ...], settings: ProveSettings) -> tuple[Check, ...]:
    """The checks, with a failed one if a minimum acceptance rate is set and no rate was measured."""
    acceptance = next((check for check in checks if check.name == "acceptance"), None)
    if settings.min_acceptance is None or (acceptance is not None and acceptance.status != NOT_APPLICABLE):
        return checks
    did = "compared the acceptance rate with the required minimum"
    why = acceptance.why if acceptance is not None else "nothing was drafted; see the other checks of this step"
    saw = f"no rate was measured, but at least {settings.min_acceptance:g} is required"
    return (*(check for check in checks if check is not acceptance), Check("acceptance", FAILED, did, saw, why))


def _no_target(export: ModelDirectory) -> str:
    """Reason why the runtime cannot decode an export at all; ``""`` if it may."""
    name = export.target.path.name
    if export.path != export.directory and name not in TARGET_FILES:
        return f"the runtime decodes {' or '.join(TARGET_FILES)}, not {name}"
    part = PartFacts(export.target)
    kind = draft_facts(part).kind
    if kind != "plain":
        return f"this is a {_TITLES[kind]}, not a target: prove its target with --draft {export.path}"
    if part.output("logits") is None and not part.states:
        return "there is no output logits and no state, so this is not a causal language model"
    return ""


@dataclass
class _Decoding:
    export: ModelDirectory
    setup: DraftSetup
    prompts: tuple[Prompt, ...]
    settings: ProveSettings
    say: Progress
    broken: str = ""
    evidence: RefusalEvidence = field(init=False)
    _once_more: Decoded | None = None

    def __post_init__(self) -> None:
        draft = self.setup.draft if self.setup.draft != self.export.directory else None
        self.evidence = RefusalEvidence(self.export, self.setup.name, draft)

    def checks(self) -> Iterator[Check]:
        conversion = self._conversion()
        yield conversion
        if conversion.figures.get("unreadable"):
            return
        if self._textless:
            yield self._no_tokenizer()
            return
        if not self.settings.token_ids and not any(prompt.text for prompt in self.prompts):
            yield self._stand_ins()
        stateful = conversion.status == NOT_APPLICABLE
        decoded = self._decode(self.prompts, self.settings, stateful=stateful)
        if decoded.plain.refused:
            yield self._refused("plain", "decoded the prompts without a draft", decoded.plain.refused)
            return
        yield self._plain(decoded, stateful)
        if self._with_image:
            yield self._image(decoded)
        yield from self._drafting(decoded)
        if self.settings.repeat > 1 and decoded.refused is None:
            yield self._repeated(decoded, stateful)

    @property
    def _with_image(self) -> bool:
        return self.export.find_part("vision_embeddings") is not None

    @property
    def _embeds(self) -> bool:
        return PartFacts(self.export.target).input("inputs_embeds") is not None

    @property
    def _textless(self) -> bool:
        """True if the pipeline accepts only text and there is no tokenizer for it."""
        there = (self.export.directory / "openvino_tokenizer.xml").exists()
        return self._embeds and not there and self.setup.name == "plain"

    def _decode(
        self, prompts: Sequence[Prompt], settings: ProveSettings, *, stateful: bool = False, exact: bool = False
    ) -> Decoded:
        base = replace(self._job(stateful), exact=exact)
        draft, image = self.setup.draft if not stateful else None, self._with_image and not stateful
        return decode(base, prompts, settings, draft=draft, image=image, progress=self.say)

    def _job(self, stateful: bool) -> GenerationJob:
        """The target and the options of all runs."""
        return GenerationJob(
            str(self.export.directory),
            device=self.settings.device,
            max_new_tokens=self.settings.max_new_tokens,
            chat_template=self.settings.chat_template,
            stateful=stateful,
            as_text=self._embeds,
            reuse=True,
        )

    def _repeated(self, decoded: Decoded, stateful: bool) -> Check:
        """Compare tokens and acceptance of fresh processes with those of the first one."""
        number = min(decoded.drafted, default=0)
        draft, first = self.setup.draft if number else None, decoded.drafted.get(number, decoded.plain)
        runs = [first, *decode_again(self._job(stateful), decoded, self.settings, draft=draft, progress=self.say)]
        how = f", drafting {number} at a time" if number else ""
        did = f"decoded the prompts in {plural(len(runs), 'fresh process')}{how}"
        tokens = [[one.tokens for one in run.outcomes] for run in runs]
        counts = [[(one.accepted, one.drafted) for one in run.outcomes] for run in runs]
        totals = [[run.totals.accepted, run.totals.drafted] for run in runs]
        refused = [run.refused.message if run.refused else "" for run in runs]
        text, other = (  # a process that failed has less of both
            [not failed and values[0] != value for value, failed in zip(values, refused, strict=True)]
            for values in (tokens, counts)
        )
        figures = {"processes": len(runs), "acceptance": totals, "text_differs": text, "refused": refused}
        ran = [total for total, failed in zip(totals, refused, strict=True) if not failed]
        rates = joined(dict.fromkeys(f"{accepted} of {drafted}" for accepted, drafted in ran))
        saw = f"accepted: {rates}" if number else plural(decoded.plain.totals.tokens, "token")
        faults = [
            f"{plural(sum(map(bool, refused)), 'process')} failed ({next(filter(None, refused), '')})" * any(refused),
            f"{plural(sum(text), 'process')} wrote different tokens from the first" * any(text),
            f"{plural(sum(other), 'process')} accepted different numbers of tokens from the first" * any(other),
        ]
        if any(faults):
            why = "the same models and prompts must give the same result each time: suspect the driver or the device"
            return Check("repeat", FAILED, did, f"{'; '.join(filter(None, faults))}; {saw}", why, figures)
        return Check("repeat", PASSED, did, f"the same tokens each time; {saw}", figures=figures)

    def _conversion(self) -> Check:
        """Convert the target, and the MTP head if it drafts, to paged attention."""
        self.say("testing the conversion to paged attention")
        head = self.setup.export.mtp if self.setup.name == "mtp" and self.setup.export is not None else None
        documents = [self.export.target, *([head] if head is not None else [])]
        names = " and ".join(document.path.name for document in documents)
        did = f"converted copies of {names} to paged attention, as GenAI does"
        results = convert([document.path for document in documents], timeout=self.settings.timeout)
        for document, result in zip(documents, results, strict=True):
            fault = result.fault
            if result.left:
                are = "is" if len(result.left) == 1 else "are"
                left = f"{plural(len(result.left), 'state op')} {are} left after conversion"
                fault = f"{left}, such as {result.left[0]!r}"
            if not fault:
                continue
            saw = f"{document.path.name}: {fault}"
            unpaged = self.evidence.of("runtime/conversion")
            if self.setup.name == "plain" and unpaged:
                why = f"only the stateful path of LLMPipeline accepts it. {cite(unpaged)}"
                return Check("conversion", NOT_APPLICABLE, did, saw, why)
            figures = {"unreadable": document == self.export.target and result.unreadable}
            return Check("conversion", FAILED, did, saw, self.evidence.explain(fault), figures)
        return Check("conversion", PASSED, did, "the conversion succeeds and leaves no state")

    def _no_tokenizer(self) -> Check:
        why = "GenAI accepts only text for a vision-language export, and there is no tokenizer to convert the token ids"
        did = "decoded the prompts without a draft"
        return Check("plain", NOT_APPLICABLE, did, why=self._with_tokenizer_rule(why))

    def _stand_ins(self) -> Check:
        why = f"there is no tokenizer, so token ids from seed {self.settings.seed} replace the prompts"
        return Check("tokenizer", NOT_APPLICABLE, "tokenized the prompts", why=self._with_tokenizer_rule(why))

    def _with_tokenizer_rule(self, why: str) -> str:
        missing = self.evidence.of("runtime/tokenizer")
        return f"{why}. {cite(suspects('openvino_tokenizer.xml', missing))}" if missing else why

    def _refused(self, name: str, did: str, outcome: Outcome) -> Check:
        saw = f"the runtime refused the export while {_STAGES[outcome.stage]}: {outcome.message}"
        unsupported = explanation(outcome.message)
        if unsupported:
            return Check(name, NOT_APPLICABLE, did, saw, unsupported)
        if outcome.stage == "crash":
            model = "the target" if name == "plain" or not self.setup.title else f"the {self.setup.title}"
            self.broken = saw = f"{outcome.message} while {model} was running"
        return Check(name, FAILED, did, saw, self.evidence.explain(outcome.message))

    def _plain(self, decoded: Decoded, stateful: bool) -> Check:
        path = " on the stateful path" if stateful else ""
        did = f"decoded {plural(len(self.prompts), 'prompt')} greedily{path}, without a draft"
        saw = plural(decoded.plain.totals.tokens, "token")
        return Check("plain", PASSED, did, saw, figures=plain_figures(decoded))

    def _image(self, decoded: Decoded) -> Check:
        did = "decoded a prompt with a generated image"
        plain = decoded.plain.image
        if plain is None:
            return Check("image", NOT_APPLICABLE, did, why="images require the path with paged attention")
        if plain.stage != "ran":
            return self._refused("image", did, plain)
        drafted = next((runs.image for runs in decoded.drafted.values() if runs.image), None)
        figures = {"prompt_tokens": plain.prompt_tokens, "tokens": list(plain.tokens), "continuation": plain.text}
        saw = f"{plural(len(plain.tokens), 'token')} after {plain.prompt_tokens} tokens of prompt and image"
        if drafted is None:
            return Check("image", PASSED, did, saw, figures=figures)
        did = f"{did}, without and with the {self.setup.title}"
        if drafted.stage != "ran":
            return self._refused("image", did, drafted)
        position = first_difference(plain.tokens, drafted.tokens)
        figures |= {"equal": position is None, "position": position}
        if position is None:
            return Check("image", PASSED, did, f"{saw}, the same as without a draft", figures=figures)
        exact = self._exact(decoded)
        again = next((runs.image for runs in exact.drafted.values() if runs.image), None)
        equal = exact.plain.image is not None and again is not None and exact.plain.image.tokens == again.tokens
        saw = f"{saw}, different from those without a draft from token {position} on"
        return self._by_rounding(Check("image", PASSED, did, saw, figures=figures), equal)

    # -- with a draft ------------------------------------------------------------------

    def _drafting(self, decoded: Decoded) -> Iterator[Check]:
        did = f"decoded the prompts with the {self.setup.title}"
        if self.setup.draft is None:
            did = "compared plain with drafted decoding"
            why = "there is no draft: the export has no MTP head, and no --draft was given"
            yield Check("text", NOT_APPLICABLE, did, why=why)
        elif not decoded.drafted:
            yield Check("text", NOT_APPLICABLE, did, why="the stateful path does not support drafting")
        elif decoded.refused:
            yield self._refused("text", did, decoded.refused)
        else:
            yield self._text(decoded)
            yield self._acceptance(decoded)

    def _text(self, decoded: Decoded) -> Check:
        numbers = joined(sorted(decoded.drafted))
        did = f"decoded the prompts with the {self.setup.title}, drafting {numbers} at a time"
        differences = decoded.differences()
        figures = {"equal": not differences, "differences": [asdict(one) for one in differences]}
        if not differences:
            runs = sum(len(one.outcomes) for one in decoded.drafted.values())
            saw = f"the same tokens as without a draft in {plural(runs, 'run')}"
            return Check("text", PASSED, did, saw, figures=figures)
        exact = self._exact(decoded)
        equal = exact.refused is None and exact.plain.refused is None and not exact.differences()
        return self._by_rounding(Check("text", PASSED, did, _described(differences, decoded), figures=figures), equal)

    def _exact(self, decoded: Decoded) -> Decoded:
        """Decode the prompts that differ, and the image, once more with the highest precision of the device."""
        if self._once_more is None:
            self.say("decoding again with the highest precision")
            differences = decoded.differences()
            # The image belongs to the first prompt.
            prompts = sorted({one.prompt for one in differences} | ({0} if self._with_image else set()))
            numbers = {one.assistant_tokens for one in differences} or {min(decoded.drafted)}
            settings = replace(self.settings, assistant_tokens=tuple(numbers))
            self._once_more = self._decode([self.prompts[number] for number in prompts], settings, exact=True)
        return self._once_more

    def _by_rounding(self, check: Check, equal: bool) -> Check:
        """A check whose tokens differ: passed if they are equal with f32 computation, else failed."""
        figures = {**check.figures, "equal_exactly": equal}
        if equal:
            why = (
                "with f32 computation and an f32 cache the tokens are the same: the best candidates are so close that "
                "roundings of this device decide between them"
            )
            return replace(check, why=why, figures=figures)
        why = "drafting must not change the tokens, but they differ with f32 computation and an f32 cache too"
        return replace(check, status=FAILED, why=self._with_suspicion(why), figures=figures)

    def _acceptance(self, decoded: Decoded) -> Check:
        did = f"counted how many tokens drafted by the {self.setup.title} the target accepted"
        totals = {number: runs.totals for number, runs in sorted(decoded.drafted.items())}
        lowest, first = next(iter(totals.items()))
        figures = acceptance_figures(decoded)
        saw = "; ".join(
            f"{n} at a time: {one.accepted} of {one.drafted}"
            + (f" ({one.acceptance:.2f})" if one.acceptance is not None else "")
            for n, one in totals.items()
        )
        if first.acceptance is None:
            why = "nothing was drafted because the sequences ended too early; give more --max-new-tokens"
            return Check("acceptance", NOT_APPLICABLE, did, saw, why, figures)
        wanted = self.settings.min_acceptance
        if wanted is not None and first.acceptance < wanted:
            why = f"the rate {first.acceptance:.3f}, drafting {lowest} at a time, is below the required {wanted:g}"
            return Check("acceptance", FAILED, did, saw, self._with_suspicion(why), figures)
        if wanted is None and first.acceptance < _HARDLY and first.drafted >= _MANY:
            why = "almost no drafted token is accepted, so drafting is slower: the draft is untrained or wired wrong"
            return Check("acceptance", WARNING, did, saw, self._with_suspicion(why), figures)
        if first.acceptance < _LOW and (named := self._suspicion()):
            return Check("acceptance", WARNING, did, saw, f"a low rate, which rules explain. {named}", figures)
        return Check("acceptance", PASSED, did, saw, figures=figures)

    def _suspicion(self) -> str:
        """Findings about the draft as text."""
        findings = of_check("runtime/acceptance", self.evidence.findings())
        return cite(findings) if findings else ""

    def _with_suspicion(self, why: str) -> str:
        named = self._suspicion()
        sources = "the step head and `irtools verify`" if self.setup.name == "mtp" else "`irtools verify`"
        return f"{why}. {named}" if named else f"{why}; look for causes in {sources}"


def _described(differences: Sequence[FirstDifference], decoded: Decoded) -> str:
    one = differences[0]
    where = f"prompt {decoded.prompts[one.prompt].label}, drafting {one.assistant_tokens} at a time"
    more = f"; {plural(len(differences), 'run')} differ" if len(differences) > 1 else ""
    return f"different tokens: {where}, token {one.position} is {one.drafted} instead of {one.plain}{more}"
