"""``irtools graft``: make drafting faster with a smaller draft head."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from irtools.cli.common import PATH, Ui, output_options
from irtools.cli.many import Many
from irtools.cli.many_options import many_options
from irtools.cli.next_step import next_step
from irtools.cli.sizes import read_tokens
from irtools.cli.writing import Writing, finish, writer_options
from irtools.errors import UsageError
from irtools.report.json import ModelResult
from irtools.text import plural

if TYPE_CHECKING:
    from irtools.export import Export
    from irtools.surgery.graft.own import DraftHead

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])
ALL, AUTO, CORPUS = "all", "auto", "corpus"


class Vocabulary(click.ParamType):  # type: ignore[type-arg]  # older click is not generic
    """A number of tokens, ``all`` or ``auto``; ``32k`` is 32,768."""

    name = "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Parse the value."""
        if value in (ALL, AUTO):
            return str(value)
        number = read_tokens(str(value))
        if number is None:
            self.fail(f"{value!r} is not a number of tokens such as 32768 or 32k, nor auto or all", param, ctx)
        return number


@dataclass(frozen=True, slots=True)
class Advising:
    """Options for the advice."""

    corpus: tuple[Path, ...] = ()
    generate: int | None = None
    acceptance: float | None = None
    bench: Path | None = None
    calibrate: bool = False

    def given(self) -> dict[str, Any]:
        """Arguments of :meth:`irtools.Export.advise` that the user gave."""
        pairs = ((entry, getattr(self, entry.name)) for entry in fields(self))
        return {entry.name: value for entry, value in pairs if value != entry.default}


@dataclass(frozen=True, slots=True)
class Request:
    """Options that say what to change."""

    vocabulary: int | str | None = None
    own_head: bool = False
    tokens: str | None = None
    draft: Path | None = None
    weights: str | None = None
    remove: bool = False
    force: bool = False
    no_check: bool = False

    def require(self, advising: Advising, *, copied: bool) -> None:
        """Refuse options that contradict each other; ``copied`` is True for one export and an output directory."""
        separate = self.own_head or self.draft is not None
        chosen = (self.vocabulary, self.tokens, self.weights)
        unused = next(iter(advising.given()), "")
        refusals = (
            (
                self.remove and any(option is not None for option in chosen),
                "--remove takes neither --vocabulary nor --tokens nor --weights",
            ),
            (
                self.tokens is not None and not separate,
                "--tokens needs --own-head; a draft head in the target covers the first tokens",
            ),
            (
                self.weights is not None and not separate,
                "--weights needs --own-head or --draft; a draft head in the target shares the bytes of lm_head",
            ),
            (
                self.vocabulary == ALL and (not separate or self.tokens == CORPUS),
                "--vocabulary all is for --own-head and --draft, without --tokens corpus; give a number such as 32k",
            ),
            (
                self.vocabulary is None and not self.remove and (self.tokens == CORPUS or not separate),
                "--vocabulary is missing: give a number of tokens such as 32k",
            ),
            (
                bool(unused) and self.vocabulary != AUTO and self.tokens != CORPUS,
                f"--{unused} needs --advise, --vocabulary auto or --tokens corpus",
            ),
            (
                self.draft is not None and (self.remove or self.own_head or self.force or not copied),
                "--draft writes a copy of the draft: give one MODEL_DIR and --output-dir, no --own-head, --remove, "
                "--force",
            ),
        )
        for refused, message in refusals:
            if refused:
                raise UsageError(message)


def _advice_options(function: F) -> F:
    """Add the options for the advice, which the function gets as ``advising``."""

    @click.option(
        "--corpus", metavar="FILE", type=PATH, multiple=True, help="Text to count tokens in; can be repeated."
    )
    @click.option("--generate", metavar="N", type=int, help="Count tokens in N tokens that the target writes.")
    @click.option(
        "--acceptance", metavar="X", type=float, help="Acceptance rate with the complete lm_head.  [default: 0.8]"
    )
    @click.option(
        "--bench", "--proof", "bench", metavar="FILE", type=PATH, help="Record of `irtools bench` to take times from."
    )
    @click.option("--calibrate", is_flag=True, help="Time plain decoding and drafting in GenAI, to predict speeds.")
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        corpus: tuple[Path, ...],
        generate: int | None,
        acceptance: float | None,
        bench: Path | None,
        calibrate: bool,
        **kwargs: Any,
    ) -> Any:
        advising = Advising(corpus, generate, acceptance, bench, calibrate)
        return function(*args, advising=advising, **kwargs)

    return wrapper  # type: ignore[return-value]


@click.command("graft")
@many_options
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
def command(many: Many, advise: bool, advising: Advising, writing: Writing, ui: Ui, **options: Any) -> int:
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
    request = Request(**options)
    if advise:
        if request != Request() or writing != Writing():
            raise UsageError("--advise writes nothing, so it takes no option that changes files")
        return many.run(ui, "graft", functools.partial(_advise, advising=advising))
    request.require(advising, copied=writing.output_dir is not None and len(many.models) == 1)
    writing = writing.among(many.models, many.roots)
    work = functools.partial(_graft, request=request, advising=advising, writing=writing)
    return many.run(ui, "graft", work)


def _graft(ui: Ui, path: Path, *, request: Request, advising: Advising, writing: Writing) -> ModelResult:
    from irtools.export import open_export
    from irtools.report.grafting import grafting_entries, grafting_text

    export = open_export(path)
    ui.keep(export)
    draft = open_export(request.draft) if request.draft is not None else None
    if not request.no_check and not writing.dry_run:
        from irtools.runtime.check import warm_up

        warm_up()
    with ui.working(f"{'Compressing lm_head of' if request.weights else 'Looking through'} {export.target.path}"):
        head = _changed(export, draft, request, advising)
    return finish(
        ui,
        writing,
        path,
        draft or export,
        head.patch,
        check=not request.no_check,
        nothing_to_do=f"{head.patch.path} {'has no' if request.remove else 'already has this'} draft head",
        heading="" if request.remove else grafting_text(head, ui.style),
        details=grafting_entries(head, removed=request.remove),
        next_step=None if request.remove else functools.partial(_next_step, path, request, writing),
    )


def _next_step(target: Path, request: Request, writing: Writing, written: Path) -> str:
    if request.draft is not None:
        return next_step("graft", target, draft=written)
    return next_step("graft", written, before=target if writing.output_dir is not None else None)


def _advise(ui: Ui, path: Path, *, advising: Advising) -> ModelResult:
    from irtools.export import open_export
    from irtools.report.advice import advice_details, advice_text

    with ui.working(f"Counting tokens for {path}"):
        advice = open_export(path).advise(**advising.given())
    return ModelResult(str(path), "ok", details=advice_details(advice), text=advice_text(advice, ui.style))


def _changed(export: Export, draft: Export | None, request: Request, advising: Advising) -> DraftHead:
    if request.remove:
        return export.ungraft(own_head=request.own_head)
    rows, tokens = _selection(export, request, advising)
    return export.graft(
        rows, own_head=request.own_head, tokens=tokens, draft=draft, weights=request.weights, force=request.force
    )


def _selection(export: Export, request: Request, advising: Advising) -> tuple[int | None, Sequence[int] | None]:
    """Number of first tokens, None for all, or the token ids that a head of its own covers."""
    rows = request.vocabulary if isinstance(request.vocabulary, int) else None
    if request.vocabulary == AUTO or request.tokens == CORPUS:
        calibrate = advising.calibrate or (request.vocabulary == AUTO and advising.bench is None)
        advice = export.advise(**{**advising.given(), "calibrate": calibrate})
    if request.vocabulary == AUTO:
        best = advice.best
        if best is None or best.drafts == 0 or best.tokens == advice.traffic.head.vocabulary:
            raise UsageError("no draft head is predicted to be faster; `--advise` shows the figures")
        rows = best.tokens
    if request.tokens == CORPUS:
        return None, advice.most_frequent(rows or 0)
    if request.tokens is None:
        return rows, None
    from irtools.surgery.graft.directory import token_file

    ids = token_file(Path(request.tokens))
    if rows is not None and len(ids) < rows:
        raise UsageError(f"{request.tokens} has {plural(len(ids), 'token id')}, fewer than --vocabulary {rows}")
    return None, ids[:rows]
