"""The work of a command on many exports: the engine, what the work says, the table of failures."""

from __future__ import annotations

import functools
import io
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, redirect_stderr
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtools.cli.common import Ui, attempt, interrupt_code, print_entry, run_models, write_stdout
from irtools.cli.defects import show_tracebacks, tracebacks_shown
from irtools.cli.progress import Progress
from irtools.errors import OptionError
from irtools.ir.reading import given_read_limit, set_read_limit
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.terminal import Column, Style, table
from irtools.text import plural

if TYPE_CHECKING:
    from irtools.fleet import Outcome
    from irtools.fleet.state import State

__all__ = ["Many", "entry_of", "failures_text"]

_WRITTEN = "written"


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

        interrupt = self.each(
            ui,
            functools.partial(_result_row, work),
            take,
            failed=lambda row: row["error"] is not None,
            kept=lambda row: row["status"] != "failed",
        )
        code = max((entry.exit_code for entry in entries), default=0)
        if ui.format == "json":
            interrupted = {"exit_code": interrupt_code(interrupt), "interrupted": True} if interrupt is not None else {}
            write_stdout(to_json(envelope(command, entries, interrupted)), "json")
        self.finish(ui, [(entry.path, entry.error) for entry in entries if entry.error is not None], len(entries))
        if interrupt is not None:
            raise interrupt
        return code

    def each(
        self,
        ui: Ui,
        work: Callable[[Ui, Path], Any],
        take: Callable[[Outcome], None],
        *,
        failed: Callable[[Any], bool],
        kept: Callable[[Any], bool],
    ) -> KeyboardInterrupt | None:
        """Do the work for each export, with the line of progress, and print what the work says.

        Parameters
        ----------
        work : callable
            As for :meth:`run`; returns what JSON can express, which becomes ``row`` of the outcome.
        take : callable
            Gets each outcome, in the order of the exports, as soon as all earlier ones are there.
        failed : callable
            True if a row counts as failed in the line of progress.
        kept : callable
            True if a row may be kept for ``--resume``.

        Returns
        -------
        KeyboardInterrupt or None
            The interrupt, after which outcomes are missing.
        """
        from irtools.fleet.order import InOrder

        for note in self.notes:
            ui.note(note)
        order = InOrder()
        plain = replace(ui, style=Style()) if self.resume is not None else ui  # a kept text must fit every terminal
        unit = _Unit(work, plain, given_read_limit(), tracebacks_shown())
        with (
            Progress(len(self.models), shown=not ui.quiet) as progress,
            closing(self._outcomes(unit, kept)) as outcomes,
        ):

            def show(ready: Iterator[Outcome]) -> None:
                for one in ready:
                    with progress.paused():
                        take(_told(ui, one))

            try:
                for outcome, known in outcomes:
                    row = outcome.row
                    progress.count(failed=row is None or (not row["stop"] and failed(row["value"])), known=known)
                    show(order.add(outcome))
            except KeyboardInterrupt as error:
                outcomes.close()
                show(order.rest())
                return error
        return None

    def _outcomes(self, unit: _Unit, kept: Callable[[Any], bool]) -> Iterator[tuple[Outcome, bool]]:
        """Outcomes as they come, each with True if it was known from an earlier run."""
        from irtools.fleet import Outcome, run

        state, key = self._state(unit.ui)
        numbers: list[int] = []
        known: deque[Outcome] = deque()

        def unknown() -> Iterator[str]:
            for number, path in enumerate(map(str, self.models)):
                row = state.known(path, key) if state is not None else None
                if row is not None and _still_there(row["value"]):
                    known.append(Outcome(number, path, row, None, 0.0))
                else:
                    numbers.append(number)
                    yield path

        with closing(run(unit, unknown(), jobs=self.jobs, scheduler=self.scheduler, timeout=self.timeout)) as outcomes:
            for outcome in outcomes:
                while known:
                    yield known.popleft(), True
                row = outcome.row
                if state is not None and row is not None and not row["stop"] and kept(row["value"]):
                    state.remember(outcome.path, key, row)
                yield replace(outcome, number=numbers[outcome.number]), False
        while known:
            yield known.popleft(), True

    def _state(self, ui: Ui) -> tuple[State | None, str]:
        """The file of ``--resume``, and what results depend on beside the export."""
        if self.resume is None:
            return None, ""
        from irtools.fleet.state import State

        return State(self.resume), f"{self.options} {ui.format} {ui.verbose} {ui.quiet}"

    def finish(self, ui: Ui, failures: Sequence[tuple[str, str]], done: int) -> None:
        """Print the failures, each with its reason, and how many exports an interrupt left out."""
        if failures and len(self.models) > 1:
            ui.summary(functools.partial(failures_text, failures, len(self.models)))
        if done < len(self.models):
            ui.note(f"{done:,} of {plural(len(self.models), 'export')} done before the interrupt")


def failures_text(failures: Sequence[tuple[str, str]], total: int, style: Style) -> str:
    """Paths and reasons of the exports that failed, as a table."""
    rows = [(path, reason.removeprefix(f"{path}: ")) for path, reason in failures]
    title = f"{len(failures):,} of {plural(total, 'export')} failed:"
    return f"{title}\n{table((Column('', fold='anywhere'), Column('', fold='words')), rows, style, indent=2)}"


def entry_of(outcome: Outcome) -> ModelResult:
    """The result of a command for an export, or why there is none."""
    if outcome.row is None:
        return ModelResult(outcome.path, "failed", 2, f"{outcome.path}: {outcome.failure}")
    return ModelResult(**outcome.row)


def _still_there(value: Mapping[str, Any]) -> bool:
    """True if the files that a kept result says were written are there."""
    return all(os.path.lexists(file) for file in value.get("details", {}).get(_WRITTEN, ()))


# -- the unit of work, perhaps in another process --------------------------------------


@dataclass(frozen=True, slots=True)
class _Unit:
    """The work of a command on one export; what it says is part of the row, and the parent prints it."""

    work: Callable[[Ui, Path], Any]
    ui: Ui
    read_limit: int
    traced: bool

    def __call__(self, path: str) -> dict[str, Any]:
        set_read_limit(self.read_limit)
        show_tracebacks(["--verbose"] if self.traced else [])
        said: list[tuple[str, str]] = []
        ui = replace(self.ui, said=said)
        value, stop = None, ""
        with redirect_stderr(io.StringIO()) as other, ui.telling_steps():
            try:
                value = self.work(ui, Path(path))
            except OptionError as error:  # every export would raise it
                stop = str(error)
        said += [("line", line) for line in other.getvalue().splitlines()]
        return {"value": value, "said": said, "stop": stop}


def _told(ui: Ui, outcome: Outcome) -> Outcome:
    """Print what a unit said, and return the outcome with the value of its work for a row."""
    if outcome.row is None:
        return outcome
    for kind, message in outcome.row["said"]:
        ui.say(kind, message)
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
