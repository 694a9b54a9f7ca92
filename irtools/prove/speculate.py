"""Step 4: whether the runtime takes the export, and drafting change nothing but the speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from irtools.errors import InvalidIRError
from irtools.lint.draft import draft as draft_facts
from irtools.model.directory import TARGET_FILES, ModelDirectory
from irtools.model.part import Part
from irtools.prove.decoding import Decoded, Difference, decode, first_difference
from irtools.prove.figures import acceptance_figures, memory_figures, plain_figures, speed_figures
from irtools.prove.model import FAILED, NOT_APPLICABLE, PASSED, WARNING, Check, Step
from irtools.prove.refusal import Evidence, cite, limit, suspects
from irtools.prove.settings import Prompt, Settings
from irtools.runtime.conversion import UNREADABLE, convert
from irtools.runtime.genai import Outcome
from irtools.text import plural

__all__ = ["Way", "speculate", "way_of"]

_MANY = 20
"""Drafted tokens of which next to none accepted is no chance."""
_HARDLY = 0.05
"""Acceptance that is next to none."""
_LOW = 0.5
"""Acceptance below which it is worth asking the rules why."""
_TITLES = {"dflash": "DFlash draft", "eagle3": "EAGLE-3 draft", "plain": "draft model"}
_PARTS = {"target": "target", "mtp": "MTP head", "draft": "draft"}
_STAGES = {"load": "loading it", "generate": "generating", "crash": "running it"}


@dataclass(frozen=True, slots=True)
class Way:
    """How the export is decoded.

    Attributes
    ----------
    name : str
        ``plain``, ``mtp``, ``dflash`` or ``eagle3``, as the rules call the ways of decoding.
    title : str
        What drafts; ``""`` when nothing does.
    draft : Path or None
        The directory it is in.
    """

    name: str = "plain"
    title: str = ""
    draft: Path | None = None


def way_of(export: ModelDirectory, draft: ModelDirectory | None) -> Way:
    """How an export can be decoded: with the draft that is given, with its own MTP head, or plainly."""
    if draft is not None and draft.directory.resolve() != export.directory.resolve():
        if draft.mtp is not None:  # the runtime prefers it to a language model beside it
            return Way("mtp", "MTP head", draft.directory)
        try:
            kind = draft_facts(Part(draft.target)).kind
        except InvalidIRError:  # the runtime will say it too
            kind = "plain"
        return Way(kind, _TITLES[kind], draft.directory)
    if export.mtp is not None:
        return Way("mtp", "MTP head", export.directory)
    return Way()


def speculate(
    export: ModelDirectory,
    way: Way,
    prompts: Sequence[Prompt],
    settings: Settings,
    progress: Callable[[str], None] | None = None,
) -> Step:
    """Decode prompts in GenAI, plainly and with what drafts, and compare.

    Parameters
    ----------
    export : ModelDirectory
    way : Way
    prompts : sequence of Prompt
        At least one.
    settings : Settings
    progress : callable, optional
        Takes what is being done, as a clause.
    """
    began = time.monotonic()
    why = _no_target(export)
    if why:
        return Step("runtime", _measured((), settings), why=why)
    work = _Work(export, way, tuple(prompts), settings, progress or (lambda text: None))
    checks = _measured(tuple(work.checks()), settings)
    return Step(
        "runtime",
        checks,
        why=work.broken,
        seconds=time.monotonic() - began,
        peak_memory=work.peak_memory,
        broken=bool(work.broken),
    )


def _measured(checks: tuple[Check, ...], settings: Settings) -> tuple[Check, ...]:
    """The checks, of which one fails when an acceptance was asked for and nothing was measured."""
    found = next((check for check in checks if check.name == "acceptance"), None)
    if settings.min_acceptance is None or (found is not None and found.status != NOT_APPLICABLE):
        return checks
    did = "looked for the acceptance that was asked for"
    why = found.why if found is not None else "nothing was drafted; the other checks of this step say why"
    failed = Check("acceptance", FAILED, did, f"none, and at least {settings.min_acceptance:g} is wanted", why)
    return (*(check for check in checks if check is not found), failed)


def _no_target(export: ModelDirectory) -> str:
    """Why an export is nothing that the runtime could decode at all."""
    name = export.target.path.name
    if export.path != export.directory and name not in TARGET_FILES:
        return f"the runtime decodes {' or '.join(TARGET_FILES)}, not {name}"
    part = Part(export.target)
    kind = draft_facts(part).kind
    if kind != "plain":
        return f"this is a {_TITLES[kind]}, not a target: prove its target with --draft {export.path}"
    if part.output("logits") is None and not part.states:
        return "no output is named logits and there are no states: this is no causal language model"
    return ""


@dataclass
class _Work:
    export: ModelDirectory
    way: Way
    prompts: tuple[Prompt, ...]
    settings: Settings
    say: Callable[[str], None]
    broken: str = ""
    peak_memory: int = 0
    evidence: Evidence = field(init=False)
    _once_more: Decoded | None = None

    def __post_init__(self) -> None:
        draft = self.way.draft if self.way.draft != self.export.directory else None
        self.evidence = Evidence(self.export, self.way.name, draft)

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
        found = self._decode(self.prompts, self.settings, stateful=stateful)
        self.peak_memory = max(runs.peak_memory for runs in (found.plain, *found.drafted.values()))
        if found.plain.refused:
            yield self._refused("plain", "decoded the prompts without a draft", found.plain.refused)
            return
        yield self._plain(found, stateful)
        if self._with_image:
            yield self._image(found)
        yield from self._drafting(found)
        if found.refused is None:
            did = "measured the time that decoding takes, after a warm-up"
            yield Check("speed", PASSED, did, "as the table shows", figures=speed_figures(found))
            yield self._memory(found)

    @property
    def _with_image(self) -> bool:
        return self.export.find_part("vision_embeddings") is not None

    @property
    def _embeds(self) -> bool:
        return Part(self.export.target).input("inputs_embeds") is not None

    @property
    def _textless(self) -> bool:
        """Whether nothing can be given to a pipeline that takes text only."""
        there = (self.export.directory / "openvino_tokenizer.xml").exists()
        return self._embeds and not there and self.way.name == "plain"

    def _decode(
        self, prompts: Sequence[Prompt], settings: Settings, *, stateful: bool = False, exact: bool = False
    ) -> Decoded:
        return decode(
            self.export.directory,
            prompts,
            settings,
            draft=self.way.draft if not stateful else None,
            stateful=stateful,
            image=self._with_image and not stateful,
            as_text=self._embeds,
            exact=exact,
            progress=self.say,
        )

    def _conversion(self) -> Check:
        """The conversion to paged attention, of the target and of an MTP head."""
        self.say("rehearsing the conversion to paged attention")
        documents = [self.export.target]
        if self.way.name == "mtp" and self.way.draft is not None:
            own = self.way.draft == self.export.directory
            head = (self.export if own else ModelDirectory.open(self.way.draft)).mtp
            documents += [head] if head is not None else []
        names = " and ".join(document.path.name for document in documents)
        did = f"converted copies of {names} to paged attention, as GenAI does"
        results = convert([document.path for document in documents], timeout=self.settings.timeout)
        for document, result in zip(documents, results, strict=True):
            fault = result.fault
            if result.left:
                fault = f"{plural(len(result.left), 'state op')} are left after it, such as {result.left[0]!r}"
            if not fault:
                continue
            unpaged = self.evidence.of("RUN003", "RUN004")
            if self.way.name == "plain" and unpaged:
                why = f"only the stateful path of LLMPipeline takes it. {cite(unpaged)}"
                return Check("conversion", NOT_APPLICABLE, did, f"{document.path.name}: {fault}", why)
            saw = f"{document.path.name}: {fault}"
            figures = {"unreadable": document == self.export.target and fault.startswith(UNREADABLE)}
            return Check("conversion", FAILED, did, saw, self.evidence.explain(fault), figures)
        return Check("conversion", PASSED, did, "it converts, and no state is left behind")

    def _no_tokenizer(self) -> Check:
        why = "GenAI drives a vision-language export by text only, and there is no tokenizer that makes some of it"
        why = self._with_tokenizer_rule(why)
        return Check("plain", NOT_APPLICABLE, "decoded the prompts without a draft", why=why)

    def _stand_ins(self) -> Check:
        """Why there is no text among the prompts."""
        why = f"without a tokenizer, token ids of the seed {self.settings.seed} stand in for prompts"
        return Check("tokenizer", NOT_APPLICABLE, "tokenized the prompts", why=self._with_tokenizer_rule(why))

    def _with_tokenizer_rule(self, why: str) -> str:
        missing = self.evidence.of("EXP003")
        return f"{why}. {cite(suspects('openvino_tokenizer.xml', missing))}" if missing else why

    def _refused(self, name: str, did: str, outcome: Outcome) -> Check:
        said = f"the runtime refused it while {_STAGES[outcome.stage]}: {outcome.message}"
        tiny = limit(outcome.message)
        if tiny:
            return Check(name, NOT_APPLICABLE, did, said, tiny)
        if outcome.stage == "crash":
            what = "the target" if name == "plain" or not self.way.title else f"the {self.way.title}"
            self.broken = said = f"{outcome.message} while {what} was run"
        return Check(name, FAILED, did, said, self.evidence.explain(outcome.message))

    def _plain(self, found: Decoded, stateful: bool) -> Check:
        path = " on the stateful path" if stateful else ""
        did = f"decoded {plural(len(self.prompts), 'prompt')} greedily{path}, without a draft"
        saw = f"{plural(found.plain.totals.tokens, 'token')}"
        return Check("plain", PASSED, did, saw, figures=plain_figures(found))

    def _image(self, found: Decoded) -> Check:
        did = "gave it a made-up image with a prompt"
        plain = found.plain.image
        if plain is None:
            return Check("image", NOT_APPLICABLE, did, why="images need the path with paged attention")
        if plain.stage != "ran":
            return self._refused("image", did, plain)
        drafted = next((runs.image for runs in found.drafted.values() if runs.image), None)
        figures = {"prompt_tokens": plain.prompt_tokens, "tokens": list(plain.tokens), "continuation": plain.text}
        saw = f"{plural(len(plain.tokens), 'token')} after {plain.prompt_tokens} of prompt and image"
        if drafted is None:
            return Check("image", PASSED, did, saw, figures=figures)
        did = f"{did}, and drafted with the {self.way.title}"
        if drafted.stage != "ran":
            return self._refused("image", did, drafted)
        position = first_difference(plain.tokens, drafted.tokens)
        figures |= {"equal": position is None, "position": position}
        if position is None:
            return Check("image", PASSED, did, f"{saw}, the same as without", figures=figures)
        exact = self._exact(found)
        again = next((runs.image for runs in exact.drafted.values() if runs.image), None)
        equal = exact.plain.image is not None and again is not None and exact.plain.image.tokens == again.tokens
        saw = f"{saw}, other tokens than without from token {position} on"
        return self._by_rounding(Check("image", PASSED, did, saw, figures=figures), equal)

    # -- with a draft ------------------------------------------------------------------

    def _drafting(self, found: Decoded) -> Iterator[Check]:
        if self.way.draft is None:
            yield Check(
                "text",
                NOT_APPLICABLE,
                "compared with drafted decoding",
                why="nothing drafts: the export has no MTP head, and no --draft was given",
            )
            return
        if not found.drafted:
            why = "the stateful path has no drafting for it"
            yield Check("text", NOT_APPLICABLE, f"decoded with the {self.way.title}", why=why)
            return
        if found.refused:
            yield self._refused("text", f"decoded with the {self.way.title}", found.refused)
            return
        yield self._text(found)
        yield self._acceptance(found)

    def _text(self, found: Decoded) -> Check:
        numbers = _listed(sorted(found.drafted))
        did = f"decoded them with the {self.way.title}, drafting {numbers} at a time"
        differences = found.differences()
        figures = {"equal": not differences, "differences": [asdict(one) for one in differences]}
        if not differences:
            runs = sum(len(one.outcomes) for one in found.drafted.values())
            return Check("text", PASSED, did, f"the same tokens as without, in {plural(runs, 'run')}", figures=figures)
        exact = self._exact(found)
        equal = exact.refused is None and exact.plain.refused is None and not exact.differences()
        return self._by_rounding(Check("text", PASSED, did, _described(differences, found), figures=figures), equal)

    def _exact(self, found: Decoded) -> Decoded:
        """What differed once more, text and image, with as little rounding as the device can do."""
        if self._once_more is None:
            self.say("decoding once more with as little rounding as can be")
            differences = found.differences()
            # The first prompt is the one that the image goes with.
            prompts = sorted({one.prompt for one in differences} | ({0} if self._with_image else set()))
            numbers = {one.assistant_tokens for one in differences} or {min(found.drafted)}
            settings = replace(self.settings, assistant_tokens=tuple(numbers))
            self._once_more = self._decode([self.prompts[number] for number in prompts], settings, exact=True)
        return self._once_more

    def _by_rounding(self, check: Check, equal: bool) -> Check:
        """A check of equal tokens that were not equal, and whether they are in f32."""
        figures = {**check.figures, "equal_exactly": equal}
        if equal:
            why = (
                "with f32 computation and an f32 cache the tokens are the same: the candidates are so close that "
                "the roundings of this device decide between them"
            )
            return replace(check, why=why, figures=figures)
        why = "drafting may only change the speed, and the tokens differ with f32 computation and an f32 cache as well"
        return replace(check, status=FAILED, why=self._with_suspicion(why), figures=figures)

    def _acceptance(self, found: Decoded) -> Check:
        did = f"counted what the target accepted of the tokens that the {self.way.title} drafted"
        totals = {number: runs.totals for number, runs in sorted(found.drafted.items())}
        lowest, first = next(iter(totals.items()))
        figures = acceptance_figures(found)
        saw = "; ".join(
            f"{n} at a time: {one.accepted} of {one.drafted}{_rate(one.acceptance)}" for n, one in totals.items()
        )
        if first.acceptance is None:
            why = "nothing was drafted: the prompts ended too early; give more --max-new-tokens"
            return Check("acceptance", NOT_APPLICABLE, did, saw, why, figures)
        wanted = self.settings.min_acceptance
        if wanted is not None and first.acceptance < wanted:
            why = f"{first.acceptance:.3f} drafting {lowest} at a time is below the {wanted:g} asked for"
            return Check("acceptance", FAILED, did, saw, self._with_suspicion(why), figures)
        if wanted is None and first.acceptance < _HARDLY and first.drafted >= _MANY:
            why = "a draft of which next to nothing is accepted costs time: its weights are random, or it is miswired"
            return Check("acceptance", WARNING, did, saw, self._with_suspicion(why), figures)
        if first.acceptance < _LOW and (named := self._suspicion()):
            return Check("acceptance", WARNING, did, saw, f"low, and the rules say why. {named}", figures)
        return Check("acceptance", PASSED, did, saw, figures=figures)

    def _memory(self, found: Decoded) -> Check:
        figures = memory_figures(self.export, self.way.draft, found)
        grown = [
            f"that of the {_PARTS[name]} grows by {plural(sizes['bytes_per_token'], 'byte')} for each token"
            + (f" and has {plural(sizes['fixed_bytes'], 'byte')} besides" if sizes["fixed_bytes"] else "")
            for name, sizes in figures["state"].items()
        ]
        did = "added up the state, in the precision that the IR declares"
        return Check("memory", PASSED, did, "; ".join(grown), figures=figures)

    def _suspicion(self) -> str:
        """The errors that the rules find in what drafts."""
        found = [finding for finding in self.evidence.findings() if finding.code.startswith(("MTP", "DFL", "HID"))]
        return cite(found) if found else ""

    def _with_suspicion(self, why: str) -> str:
        named = self._suspicion()
        look = "the step head and `irtools verify` look" if self.way.name == "mtp" else "`irtools verify` looks"
        return f"{why}. {named}" if named else f"{why}; {look} for reasons"


def _rate(acceptance: float | None) -> str:
    return "" if acceptance is None else f" ({acceptance:.2f})"


def _listed(numbers: Sequence[int]) -> str:
    words = [str(number) for number in numbers]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _described(differences: Sequence[Difference], found: Decoded) -> str:
    one = differences[0]
    where = f"prompt {found.prompts[one.prompt].label}, drafting {one.assistant_tokens} at a time"
    more = f"; {plural(len(differences), 'run')} differ" if len(differences) > 1 else ""
    return f"other tokens: {where}, token {one.position} is {one.drafted} instead of {one.plain}{more}"
