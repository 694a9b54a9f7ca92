"""``irtools graft``: make drafting faster with a smaller draft head."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from irtools.cli.common import PATH, Ui, models_argument, output_options, run_models
from irtools.cli.writing import Writing, finish, writer_options
from irtools.errors import UsageError
from irtools.report.json import ModelResult
from irtools.text import plural

if TYPE_CHECKING:
    from irtools.export import Export

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])
ALL, AUTO, CORPUS = "all", "auto", "corpus"

_NUMBER = re.compile(r"(\d{1,18})(k?)", re.ASCII | re.IGNORECASE)


class Vocabulary(click.ParamType):  # type: ignore[type-arg]  # older click is not generic
    """A number of tokens, ``all`` or ``auto``; ``32k`` is 32,768."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Parse the value."""
        if value in (ALL, AUTO):
            return str(value)
        match = _NUMBER.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a number of tokens such as 32768 or 32k, nor auto or all", param, ctx)
        return int(match[1]) * (1024 if match[2] else 1)


@dataclass(frozen=True, slots=True)
class Advising:
    """Options for the advice."""

    corpus: tuple[Path, ...] = ()
    generate: int | None = None
    acceptance: float | None = None
    proof: Path | None = None
    calibrate: bool = False

    def given(self) -> dict[str, Any]:
        """Arguments of :meth:`irtools.Export.advise` that the user gave."""
        values = {name: getattr(self, name) for name in ("corpus", "generate", "acceptance", "proof", "calibrate")}
        return {name: value for name, value in values.items() if value not in (None, (), False)}


def _advice_options(function: F) -> F:
    """Add the options for the advice, which the function gets as ``advising``."""

    @click.option(
        "--corpus", metavar="FILE", type=PATH, multiple=True, help="Text to count tokens in; can be repeated."
    )
    @click.option("--generate", metavar="N", type=int, help="Count tokens in N tokens that the target writes.")
    @click.option(
        "--acceptance", metavar="X", type=float, help="Acceptance rate with the whole lm_head.  [default: 0.8]"
    )
    @click.option("--proof", metavar="FILE", type=PATH, help="Record of `irtools prove` to take times from.")
    @click.option("--calibrate", is_flag=True, help="Time plain decoding and drafting in GenAI, to predict speeds.")
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        corpus: tuple[Path, ...],
        generate: int | None,
        acceptance: float | None,
        proof: Path | None,
        calibrate: bool,
        **kwargs: Any,
    ) -> Any:
        advising = Advising(corpus, generate, acceptance, proof, calibrate)
        return function(*args, advising=advising, **kwargs)

    return wrapper  # type: ignore[return-value]


@click.command("graft")
@models_argument
@click.option("--vocabulary", type=Vocabulary(), help="Tokens that the draft head covers, such as 32k; auto: the best.")
@click.option("--own-head", is_flag=True, help="Add the draft head to the MTP part, with new weights.")
@click.option(
    "--tokens", metavar="FILE", help="Token ids for a head of its own, one on each line; corpus: the most frequent."
)
@click.option("--draft", metavar="DIR", type=PATH, help="A DFlash draft that gets a head of its own, in --output-dir.")
@click.option("--weights", type=click.Choice(("int4", "int8")), help="Compress a head of its own with NNCF.")
@click.option("--remove", is_flag=True, help="Remove the draft head; with --own-head that of the MTP part.")
@click.option("--advise", is_flag=True, help="Show what draft heads of several sizes cover and cost; write nothing.")
@_advice_options
@writer_options
@click.option("--force", is_flag=True, help="Replace another draft head that irtools added.")
@click.option("--no-check", is_flag=True, help="Do not check the new file with OpenVINO.")
@output_options()
def command(
    models: tuple[Path, ...],
    vocabulary: int | str | None,
    own_head: bool,
    tokens: str | None,
    draft: Path | None,
    weights: str | None,
    remove: bool,
    advise: bool,
    advising: Advising,
    writing: Writing,
    force: bool,
    no_check: bool,
    ui: Ui,
) -> int:
    """Make drafting faster with a draft head over fewer tokens; the text stays the same.

    The runtime copies lm_head into the draft and computes all its rows for each drafted token. --advise shows what
    fewer tokens would cover and cost. Take

    --vocabulary 32k for MTP, if no other draft uses this target: only the XML changes, the runtime copies the small
    head, and the least memory is needed;

    --own-head for MTP, if DFlash or EAGLE-3 drafts use the target too, or if --tokens chooses the tokens: the MTP part
    gets new weights, and the target is untouched;

    --draft DIR for a DFlash draft, which is copied: all tokens unless --vocabulary or --tokens is given.

    --weights int4 compresses a head of its own with NNCF. A head of 8 bits is decompressed first, piece by piece.
    """
    if advise:
        if (
            vocabulary is not None
            or own_head
            or tokens
            or draft
            or weights
            or remove
            or force
            or no_check
            or writing != Writing()
        ):
            raise UsageError("--advise writes nothing, so it takes no option that changes files")
        return run_models(ui, "graft", models, functools.partial(_advise, ui, advising))
    _require(vocabulary, own_head or draft is not None, tokens, weights, remove)
    if advising.given() and vocabulary != AUTO and tokens != CORPUS:
        raise UsageError(f"--{next(iter(advising.given()))} needs --advise, --vocabulary auto or --tokens corpus")
    if draft is not None and (remove or own_head or force or writing.output_dir is None or len(models) != 1):
        raise UsageError(
            "--draft writes a copy of the draft: give one MODEL_DIR and --output-dir, no --own-head, --remove, --force"
        )
    destinations = writing.destinations(models)

    def work(path: Path) -> ModelResult:
        from irtools.export import open_export
        from irtools.report.grafting import grafting_entries, grafting_text

        export = open_export(path)
        changed = open_export(draft) if draft is not None else export
        if not no_check and not writing.dry_run:
            from irtools.runtime.check import warm_up

            warm_up()
        with ui.working(f"{'Compressing lm_head of' if weights else 'Looking through'} {export.target.path}"):
            if remove:
                head = export.ungraft(own_head=own_head)
            else:
                rows, chosen = _selection(export, vocabulary, tokens, advising)
                head = export.graft(
                    rows,
                    own_head=own_head,
                    tokens=chosen,
                    draft=changed if draft is not None else None,
                    weights=weights,
                    force=force,
                )
        return finish(
            ui,
            writing,
            path,
            changed,
            head.patch,
            destinations[path],
            check=not no_check,
            nothing_to_do=f"{head.patch.path} has {'no draft head' if remove else 'this draft head already'}",
            heading="" if remove else grafting_text(head, ui.style),
            details=grafting_entries(head, removed=remove),
        )

    return run_models(ui, "graft", models, work)


def _advise(ui: Ui, advising: Advising, path: Path) -> ModelResult:
    from irtools.export import open_export
    from irtools.report.advice import advice_details, advice_text

    with ui.working(f"Counting tokens for {path}"):
        advice = open_export(path).advise(**advising.given())
    return ModelResult(str(path), "ok", details=advice_details(advice), text=advice_text(advice, ui.style))


def _require(
    vocabulary: int | str | None, own_head: bool, tokens: str | None, weights: str | None, remove: bool
) -> None:
    """Require options that go together; ``own_head`` is True for any draft head with weights of its own."""
    if remove and any(option is not None for option in (vocabulary, tokens, weights)):
        raise UsageError("--remove takes neither --vocabulary nor --tokens nor --weights")
    if tokens is not None and not own_head:
        raise UsageError("--tokens needs --own-head; a draft head in the target covers the first tokens")
    if weights is not None and not own_head:
        raise UsageError(
            "--weights needs --own-head or --draft; a draft head in the target shares the bytes of lm_head"
        )
    if not remove and vocabulary is None and (tokens == CORPUS or not own_head):
        raise UsageError("--vocabulary is missing: give a number of tokens such as 32k")
    if vocabulary == ALL and not own_head:
        raise UsageError("--vocabulary all is for --own-head and --draft; a draft head in the target has fewer tokens")


def _selection(
    export: Export, vocabulary: int | str | None, tokens: str | None, advising: Advising
) -> tuple[int | None, Sequence[int] | None]:
    """Number of first tokens, or the token ids that a head of its own covers."""
    from irtools.surgery.graft.directory import token_file
    from irtools.surgery.graft.writer import lm_head

    rows = vocabulary
    if vocabulary == ALL:
        rows = lm_head(export.target.graph)[0].vocabulary
    advice = None
    if vocabulary == AUTO or tokens == CORPUS:
        given = advising.given()
        if vocabulary == AUTO and advising.proof is None:
            given["calibrate"] = True
        advice = export.advise(**given)
    if vocabulary == AUTO:
        best = advice.best if advice is not None else None
        if best is None or best.drafts == 0 or best.tokens == lm_head(export.target.graph)[0].vocabulary:
            raise UsageError("no draft head is predicted to be faster; `--advise` shows the figures")
        rows = best.tokens
    if tokens == CORPUS and advice is not None:
        return None, advice.most_frequent(int(rows or 0))
    if tokens is not None:
        ids = token_file(Path(tokens))
        if rows is not None and len(ids) < int(rows):
            raise UsageError(f"{tokens} has {plural(len(ids), 'token id')}, fewer than --vocabulary {rows}")
        return None, ids[: int(rows) if rows is not None else None]
    return (int(rows) if rows is not None else None), None
