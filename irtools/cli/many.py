"""The work of a command on many exports: the engine, what the work says, the table of failures."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, redirect_stderr
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from irtools.cli.common import Ui, attempt, interrupt_code, print_entry, remote_notes, run_models, write_stdout
from irtools.cli.defects import show_tracebacks, tracebacks_shown
from irtools.cli.progress import Progress
from irtools.errors import OptionError, SaveError
from irtools.remote import as_path
from irtools.remote.meter import METER, Traffic, traffic
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.terminal import Column, Style, table
from irtools.text import is_url, plural

if TYPE_CHECKING:
    from irtools.fleet import Outcome
    from irtools.fleet.state import State

__all__ = ["Ended", "Many", "entry_of", "failures_text", "naming"]

_WRITTEN = "written"
_SAID = ("note", "error", "line")
_run = [""]
"""Key of the run whose parent is this process."""


@dataclass(frozen=True, slots=True)
class Many:
    """The exports of a command, and how to work on them.

    Attributes
    ----------
    models : tuple of Path
        The exports, in the order of the command line; those of a pattern or of ``--recursive`` sorted.
    roots : tuple of Path
        Directories of ``--recursive``.
    jobs : int
        Number of processes.
    timeout : float or None
        Seconds that one export may take.
    resume : Path or None
        File of results that earlier runs kept.
    scheduler : str or None
        Address of a Dask scheduler.
    notes : tuple of str
        Notes about what was left out when exports were found.
    options : str
        Options of the command that its results depend on; results that were kept count only for the same.
    """

    models: tuple[Path, ...]
    roots: tuple[Path, ...] = ()
    jobs: int = 1
    timeout: float | None = None
    resume: Path | None = None
    scheduler: str | None = None
    notes: tuple[str, ...] = ()
    options: str = ""

    @property
    def single(self) -> bool:
        """True for one export without an option for many: the work is then done and shown directly."""
        elsewhere = self.jobs > 1 or self.timeout is not None or self.scheduler is not None
        return len(self.models) == 1 and not (self.roots or elsewhere or self.resume is not None)

    def run(self, ui: Ui, command: str, work: Callable[[Ui, Path], ModelResult]) -> int:
        """Do the work for each export, print the results and return the highest exit code.

        An error in one export does not stop the others. After an interrupt, what is finished is reported, and the
        interrupt is raised again.

        Parameters
        ----------
        command : str
            Name in the JSON envelope.
        work : callable
            A function of a module, or a ``functools.partial`` of one, because it is pickled.
        """
        if self.single:
            return run_models(ui, command, self.models, functools.partial(work, ui))
        entries: list[ModelResult] = []
        printed = [False]

        def take(outcome: Outcome) -> None:
            entry = entry_of(outcome)
            entries.append(entry if ui.format == "json" else replace(entry, text="", details={}))
            print_entry(ui, entry, first=not printed[0])
            printed[0] = printed[0] or bool(entry.text)

        ended = self.each(
            ui,
            functools.partial(_result_row, work),
            take,
            read=lambda row: ModelResult(**row),
            failed=lambda row: row["error"] is not None,
            kept=lambda row: row["status"] != "failed",
        )
        code = ended.code(max((entry.exit_code for entry in entries), default=0))
        if ui.format == "json":
            interrupted = {"interrupted": True} if ended.interrupt is not None else {}
            write_stdout(to_json(envelope(command, entries, {"exit_code": code, **interrupted})), "json")
        ended.tell(ui, [(entry.path, entry.error) for entry in entries if entry.error is not None], len(self.models))
        return code

    def each(
        self,
        ui: Ui,
        work: Callable[[Ui, Path], Any],
        take: Callable[[Outcome], None],
        *,
        read: Callable[[Any], object],
        failed: Callable[[Any], bool],
        kept: Callable[[Any], bool],
    ) -> Ended:
        """Do the work for each export, with the line of progress, and print what the work says.

        Parameters
        ----------
        work : callable
            As for :meth:`run`; returns what JSON can express, which becomes ``row`` of the outcome.
        take : callable
            Gets each outcome, in the order of the exports, as soon as all earlier ones are there.
        read : callable
            Restores what the work returned; raises an exception for a row of another form.
        failed : callable
            True if a row counts as failed in the line of progress.
        kept : callable
            True if a row may be kept for ``--resume``.

        Returns
        -------
        Ended
            Why outcomes are missing, if any are.
        """
        from irtools.fleet.order import InOrder
        from irtools.ir.reading import given_read_limit

        for note in self.notes:
            ui.note(note)
        order = InOrder()
        plain = replace(ui, style=Style()) if self.resume is not None else ui  # a kept text must fit every terminal
        _run[0] = token_hex()
        offline = any(map(is_url, map(str, self.models))) and _is_offline()
        unit = _Unit(work, plain, given_read_limit(), tracebacks_shown(), offline, _run[0])
        done = 0
        with (
            Progress(len(self.models), shown=not ui.quiet) as progress,
            self._state(read) as state,
            closing(self._outcomes(unit, state, kept)) as outcomes,
        ):

            def show(ready: Iterator[Outcome]) -> None:
                nonlocal done
                for one in ready:
                    done += 1
                    with progress.paused():
                        take(_told(ui, one))

            interrupt = None
            try:
                for outcome in outcomes:
                    row = outcome.row
                    wrong = row is None or (not row["stop"] and failed(row["value"]))
                    progress.count(failed=wrong, known=outcome.known)
                    show(order.add(outcome))
            except KeyboardInterrupt as error:
                interrupt = error
                outcomes.close()
                show(order.rest())
        return Ended(done, interrupt, state.failure if state is not None else None)

    def _outcomes(
        self, unit: _Unit, state: State | None, kept: Callable[[Any], bool]
    ) -> Generator[Outcome, None, None]:
        """Outcomes as they come; new rows are kept for a later run."""
        from irtools.fleet import run

        key = f"{self.options} {unit.ui.format} {unit.ui.verbose} {unit.ui.quiet}"

        def known(path: str) -> Any | None:
            row = state.known(path, key) if state is not None else None
            return row if row is not None and all(map(os.path.lexists, _written(row["value"]))) else None

        how: dict[str, Any] = {"jobs": self.jobs, "scheduler": self.scheduler, "timeout": self.timeout}
        with closing(run(unit, map(str, self.models), known=known if state else None, **how)) as outcomes:
            for outcome in outcomes:
                row = outcome.row
                if state is not None and row is not None and not (outcome.known or row["stop"]) and kept(row["value"]):
                    state.remember(outcome.path, key, row, written=bool(_written(row["value"])))
                yield outcome

    def _state(self, read: Callable[[Any], object]) -> AbstractContextManager[State | None]:
        """The file of ``--resume``."""
        if self.resume is None:
            return nullcontext()
        from irtools.fleet.state import State

        def check(row: Any) -> None:
            read(row["value"])
            if row["stop"] or not all(kind in _SAID and isinstance(text, str) for kind, text in row["said"]):
                raise ValueError("a row of another form")

        return State(self.resume, check)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the work on many exports ended.

    Attributes
    ----------
    done : int
        Number of exports that are done.
    interrupt : KeyboardInterrupt or None
        The interrupt, after which outcomes are missing.
    failure : SaveError or None
        Why the file of ``--resume`` does not have all results.
    """

    done: int
    interrupt: KeyboardInterrupt | None = None
    failure: SaveError | None = None

    def code(self, highest: int) -> int:
        """Exit code of the process; ``highest`` is that of the exports."""
        if self.interrupt is not None:
            return interrupt_code(self.interrupt)
        return max(highest, 2 if self.failure is not None else 0)

    def tell(self, ui: Ui, failures: Sequence[tuple[str, str]], total: int) -> None:
        """Print the failures, each with its path and reason, and raise the interrupt again if there was one."""
        if failures and total > 1:
            ui.summary(functools.partial(failures_text, failures, total))
        if self.failure is not None:
            ui.error(str(self.failure))
        if self.interrupt is not None:
            ui.note(f"{self.done:,} of {plural(total, 'export')} done before the interrupt")
            raise self.interrupt


def failures_text(failures: Sequence[tuple[str, str]], total: int, style: Style) -> str:
    """Paths and reasons of the exports that failed, as a table."""
    rows = [(path, _without(path, reason)) for path, reason in failures]
    title = f"{len(failures):,} of {plural(total, 'export')} failed:"
    return f"{title}\n{table((Column('', fold='anywhere'), Column('', fold='words')), rows, style, indent=2)}"


def _without(path: str, reason: str) -> str:
    """The reason without the path of the export before it, or before the file in it."""
    rest = reason.removeprefix(path)
    return rest[1:].lstrip() if rest != reason and rest[:1] in (":", os.sep) else reason


def naming(path: str, message: str) -> str:
    """A message with the path of the export before it, unless it has that already."""
    return message if path in message else f"{path}: {message}"


def entry_of(outcome: Outcome) -> ModelResult:
    """The result of a command for an export, or why there is none."""
    if outcome.row is None:
        return ModelResult(outcome.path, "failed", 2, f"{outcome.path}: {outcome.failure}")
    return ModelResult(**outcome.row)


def _written(value: Mapping[str, Any]) -> list[str]:
    """Files that a result says were written."""
    return list(value.get("details", {}).get(_WRITTEN, ()))


# -- the unit of work, perhaps in another process --------------------------------------


@dataclass(frozen=True, slots=True)
class _Unit:
    """The work of a command on one export; what it says is part of the row, and the parent prints it."""

    work: Callable[[Ui, Path], Any]
    ui: Ui
    read_limit: int
    traced: bool
    offline: bool
    run: str

    def __call__(self, path: str) -> dict[str, Any]:
        from irtools.ir.reading import set_read_limit

        set_read_limit(self.read_limit)
        show_tracebacks(["--verbose"] if self.traced else [])
        if self.offline:
            from irtools.remote import set_offline

            set_offline(True)
        before = traffic()
        said: list[tuple[str, str]] = []
        ui = replace(self.ui, said=said)
        value, stop = None, ""
        with redirect_stderr(io.StringIO()) as other, ui.telling_steps():
            try:
                value = self.work(ui, as_path(path))
            except OptionError as error:  # every export would raise it
                stop = str(error)
        said += [("line", line) for line in other.getvalue().splitlines()]
        said += [("note", note) for note in remote_notes()]
        taken = traffic() - before if _run[0] != self.run else Traffic()
        return {"value": value, "said": said, "stop": stop, "elsewhere": [taken.bytes, taken.requests]}


def _is_offline() -> bool:
    from irtools.remote import is_offline

    return is_offline()


def _told(ui: Ui, outcome: Outcome) -> Outcome:
    """Print what a unit said, and return the outcome with the value of its work for a row."""
    if outcome.row is None:
        METER.partial = True
        return outcome
    if not outcome.known:
        received, requests = outcome.row["elsewhere"]
        METER.add(bytes_=received, requests=requests)
    for kind, message in outcome.row["said"]:
        ui.say(kind, naming(outcome.path, message) if kind == "note" else message)
    if outcome.row["stop"]:
        raise OptionError(outcome.row["stop"])
    return replace(outcome, row=outcome.row["value"])


def _result_row(work: Callable[[Ui, Path], ModelResult], ui: Ui, path: Path) -> dict[str, Any]:
    """The result of a command in plain values, without what the format does not show."""
    entry = attempt(path, functools.partial(work, ui), passing=OptionError)
    if ui.format == "json":
        return asdict(replace(entry, text=""))
    written = {key: value for key, value in entry.details.items() if key == _WRITTEN}
    return asdict(replace(entry, details=written))
