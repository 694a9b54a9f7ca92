"""Rows of a benchmark: plain decoding, each draft, and copies with another draft head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from irtools.bench.copies import grafted
from irtools.bench.samples import REFUSED, Attempt, Contender
from irtools.bench.settings import BenchSettings
from irtools.errors import UsageError
from irtools.model.directory import ModelDirectory
from irtools.model.draft import draft as read_draft
from irtools.model.draft import most_assistant_tokens
from irtools.model.part import PartFacts
from irtools.prove.speculate import DraftSetup, draft_setup
from irtools.runtime import genai
from irtools.runtime.conversion import convert

__all__ = ["PLAIN", "Field", "contenders"]

PLAIN = "plain"


@dataclass(frozen=True)
class Field:
    """The contenders of a benchmark.

    Attributes
    ----------
    contenders : tuple of Contender
        The first decodes the export plainly.
    refused : mapping of str to Attempt
        By name of a contender: why it is not run.
    """

    contenders: tuple[Contender, ...]
    refused: dict[str, Attempt]


def contenders(export: ModelDirectory, settings: BenchSettings, scratch: ExitStack) -> Field:
    """The contenders of a benchmark, plain decoding first.

    Parameters
    ----------
    scratch : ExitStack
        Keeps the temporary copies until it is closed.

    Raises
    ------
    UsageError
        A copy was asked for of an export without MTP head, or cannot be made.
    ExportError
        A directory does not exist.
    """
    found = [(Contender(PLAIN, PLAIN, export.directory), "")]
    opened = [export]
    setups = [draft_setup(export, None)] if export.mtp is not None else []
    setups += [draft_setup(export, ModelDirectory.open(path)) for path in settings.drafts]
    for setup, label in zip(setups, _labels(setups), strict=True):
        found += _drafting(Contender(label, setup.name, export.directory), setup, settings)
    for size in settings.graft:
        if export.mtp is None:
            raise UsageError("there is no MTP head, so no copy with a smaller draft head can be compared")
        copy = ModelDirectory.open(scratch.enter_context(grafted(export, size, "graft a copy and give --against")))
        label = f"graft {_thousands(size)}"
        changed, recipe = f"draft head over {size} tokens", f"{label} of {export.path}"
        found += _other(Contender(label, PLAIN, copy.directory, copy=changed, recipe=recipe), copy, settings)
    for path in settings.against:
        opened.append(ModelDirectory.open(path))
        base = Contender(_name(path), PLAIN, opened[-1].directory, copy="another export")
        found += _other(base, opened[-1], settings)
    name, times = Counter(one.name for one, _ in found).most_common(1)[0]
    if times > 1:
        raise UsageError(f"the row {name} would be in the table twice; give each directory once")
    unpaged = _unpaged(opened, settings.timeout)
    refused = {one.name: Attempt(0, REFUSED, why) for one, why in found if why}
    for one, _ in found:
        if one.model in unpaged and one.assistant_tokens:
            why = f"the target runs only on the stateful path, which does not support drafting: {unpaged[one.model]}"
            refused[one.name] = Attempt(0, REFUSED, why)
    return Field(tuple(replace(one, stateful=one.model in unpaged) for one, _ in found), refused)


def _unpaged(exports: Sequence[ModelDirectory], timeout: float) -> dict[Path, str]:
    """Reason why a target cannot be paged and runs on the stateful path, which decodes only plainly, by directory."""
    results = convert([one.target.path for one in exports], timeout=timeout)
    return {
        one.directory: result.fault
        for one, result in zip(exports, results, strict=True)
        if result.unpaged and PartFacts(one.target).input("inputs_embeds") is None
    }


def _other(base: Contender, other: ModelDirectory, settings: BenchSettings) -> Iterator[tuple[Contender, str]]:
    """Rows of another export as those of :func:`_drafting`: plain, and with its MTP head."""
    yield replace(base, name=f"{base.name} {PLAIN}"), ""
    if other.mtp is not None:
        yield from _drafting(replace(base, name=f"{base.name} mtp"), draft_setup(other, None), settings)


def _drafting(base: Contender, setup: DraftSetup, settings: BenchSettings) -> Iterator[tuple[Contender, str]]:
    """A row for each number of assistant tokens, and the reason not to run it or ``""``.

    In these cases the runtime would crash or say nothing.
    """
    absent, most = genai.missing(setup.name), None
    if setup.name == "dflash" and setup.draft is not None:
        draft = ModelDirectory.open(setup.draft)
        most = most_assistant_tokens(read_draft(PartFacts(draft.target)), draft)
    for number in sorted(set(settings.assistant_tokens)):
        why = absent
        if not why and most is not None and number > most:
            why = f"the draft was trained for at most {most} assistant tokens (its block_size is {most + 1})"
        name = f"{base.name} {number}"
        yield replace(base, name=name, strategy=setup.name, draft=setup.draft, assistant_tokens=number), why


def _labels(setups: Sequence[DraftSetup]) -> Iterator[str]:
    """Names of drafts: the strategy, with the directory if several have the same."""
    names = [setup.name for setup in setups]
    for setup in setups:
        several = names.count(setup.name) > 1 and setup.draft is not None
        yield f"{setup.name} {_name(setup.draft)}" if several and setup.draft else setup.name


def _name(path: Path) -> str:
    return path.resolve().name


def _thousands(size: int) -> str:
    return f"{size // 1024}k" if size % 1024 == 0 else str(size)
