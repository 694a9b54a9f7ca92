"""Rows of a benchmark: plain decoding, each draft, and copies with another draft head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from irtools.bench.copies import grafted
from irtools.bench.samples import REFUSED, Attempt, Contender
from irtools.bench.settings import BenchSettings
from irtools.errors import UsageError
from irtools.model.decoding import DECODING
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
    found: list[Contender] = [Contender(PLAIN, PLAIN, export.directory)]
    refused: dict[str, Attempt] = {}
    opened = [export]
    setups = [draft_setup(export, None)] if export.mtp is not None else []
    setups += [draft_setup(export, ModelDirectory.open(path)) for path in settings.drafts]
    for setup, label in zip(setups, _labels(setups), strict=True):
        _add(found, refused, export, setup, label, settings)
    for size in settings.graft:
        if export.mtp is None:
            raise UsageError("there is no MTP head, so no copy with a smaller draft head can be compared")
        copy = ModelDirectory.open(scratch.enter_context(grafted(export, size, "graft a copy and give --against")))
        label = f"graft {_thousands(size)}"
        recipe = f"{label} of {export.path}"
        _add_export(found, refused, copy, label, f"draft head over {size} tokens", settings, recipe)
    for path in settings.against:
        other = ModelDirectory.open(path)
        opened.append(other)
        _add_export(found, refused, other, _name(path), "another export", settings)
    return _with_stateful(found, refused, opened, settings)


def _with_stateful(
    found: Sequence[Contender], refused: dict[str, Attempt], opened: Sequence[ModelDirectory], settings: BenchSettings
) -> Field:
    """The rows, with those of targets that cannot be paged on the stateful path, which decodes only plainly."""
    results = convert([one.target.path for one in opened], timeout=settings.timeout)
    unpaged = {
        one.directory: result.fault
        for one, result in zip(opened, results, strict=True)
        if result.unpaged and PartFacts(one.target).input("inputs_embeds") is None
    }
    for one in found:
        if one.model in unpaged and one.assistant_tokens:
            why = f"the target runs only on the stateful path, which does not support drafting: {unpaged[one.model]}"
            refused[one.name] = Attempt(0, REFUSED, why)
    return Field(tuple(replace(one, stateful=one.model in unpaged) for one in found), refused)


def _add_export(
    found: list[Contender],
    refused: dict[str, Attempt],
    other: ModelDirectory,
    label: str,
    copy: str,
    settings: BenchSettings,
    recipe: str = "",
) -> None:
    found.append(Contender(f"{label} {PLAIN}", PLAIN, other.directory, copy=copy, recipe=recipe))
    if other.mtp is not None:
        _add(found, refused, other, draft_setup(other, None), f"{label} mtp", settings, copy, recipe)


def _add(
    found: list[Contender],
    refused: dict[str, Attempt],
    export: ModelDirectory,
    setup: DraftSetup,
    label: str,
    settings: BenchSettings,
    copy: str = "",
    recipe: str = "",
) -> None:
    """Add a row for each number of assistant tokens."""
    for number in sorted(set(settings.assistant_tokens)):
        name = f"{label} {number}"
        if any(other.name == name for other in found):
            raise UsageError(f"the row {name} would be in the table twice; give each directory once")
        found.append(Contender(name, setup.name, export.directory, setup.draft, number, copy, recipe))
        if why := _unsuitable(setup, number):
            refused[name] = Attempt(0, REFUSED, why)


def _unsuitable(setup: DraftSetup, number: int) -> str:
    """Reason not to run a row; ``""`` if there is none. The runtime crashes or says nothing in these cases."""
    installed = genai.installed_version()
    if installed and (missing := DECODING[setup.name].missing(installed)):
        return f"{missing}, and {installed} is installed"
    if setup.name == "dflash" and setup.draft is not None:
        draft = ModelDirectory.open(setup.draft)
        most = most_assistant_tokens(read_draft(PartFacts(draft.target)), draft)
        if most is not None and number > most:
            return f"the draft was trained for at most {most} assistant tokens (its block_size is {most + 1})"
    return ""


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
