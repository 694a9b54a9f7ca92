"""Shared parts of the commands: arguments, options, the loop over models, messages."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from irtools.cli.defects import StdoutError, defect_text, is_defect
from irtools.errors import (
    AnnotationDiffersError,
    ExportError,
    IrtoolsError,
    LocateRefusedError,
    about,
    os_reason,
    transferring,
)
from irtools.report.json import ModelResult, envelope, to_json
from irtools.report.terminal import Style, folded
from irtools.text import is_url, plural, printable, shortened, size_text, visible
from irtools.timing import hearing, step

__all__ = [
    "EXPORT",
    "PATH",
    "Ui",
    "about_model",
    "attempt",
    "interrupt_code",
    "model_argument",
    "output_options",
    "part_option",
    "print_entry",
    "print_error",
    "remote_notes",
    "run_models",
    "system_error",
    "write_stdout",
]

F = TypeVar("F", bound=Callable[..., Any])
_KEPT: list[object] = []
_KEPT.append(_KEPT)  # a cycle, which Python would only free in a collection, and there is none at the end

_PROGRESS_AFTER = 1.0
_CLEAR = "\r\x1b[2K"
_COLOURS = {"note": "cyan", "next": "green", "error": "red"}


class _PathType(click.Path):
    """Path type of every argument and option.

    It refuses an empty text, which is usually an unset shell variable and not the working directory. It
    does not test for readability: click would also test output files, and one bad path would end the
    command for all models.

    Parameters
    ----------
    urls : bool
        Take the URL of an export too. It is opened when the path is used, so that an error is one of that export.
    """

    def __init__(self, *, urls: bool = False) -> None:
        super().__init__(readable=False, path_type=Path)
        self._urls = urls

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        if isinstance(value, str) and "://" in value:
            from irtools.remote import as_path

            if is_url(value):
                return as_path(value) if self._urls else self.fail(f"{value} is a URL; give a local path", param, ctx)
        return super().convert(value, param, ctx)


PATH = _PathType()
EXPORT = _PathType(urls=True)
"""An export that is read, which can be at a URL."""


model_argument = click.argument("model", metavar="[MODEL_DIR]", type=EXPORT, default=Path())
"""One model directory or ``.xml`` file; by default the working directory."""

part_option = click.option(
    "--part",
    metavar="PART",
    default="target",
    show_default=True,
    help="Part of the export: target, mtp, or a file stem without openvino_ and _model.",
)


def write_stdout(text: str, form: str = "text", *, styled: bool = False, exact: bool = False) -> None:
    """Write a result.

    Parameters
    ----------
    form, styled
        As for :func:`irtools.text.printable`, which every text goes through.
    exact : bool
        Write UTF-8 and unchanged line ends, as a diff needs, instead of the encoding and line ends of the stream.

    Raises
    ------
    StdoutError
        The stream fails now; text in its buffer can still fail later.
    """
    # `click.echo` would write UTF-8 to a stream whose encoding is ASCII.
    if sys.stdout is None:
        return
    text = printable(text, form, styled=styled, runner=_runner(), whole=exact)
    try:
        if exact and hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(text)
            sys.stdout.flush()  # a reader of many results sees each as it comes
    except OSError as error:
        raise StdoutError from error


def _write_stderr(text: str, style: Style, *, control: str = "") -> None:
    """Write escaped text to stderr, after a sequence that controls the terminal."""
    if sys.stderr is not None:
        with suppress(OSError):  # there is no other place for the message
            sys.stderr.write(control + printable(text, styled=style.colour, runner=_runner()))


def _clear() -> str:
    """Sequence that removes an unfinished line of progress; ``""`` where there is none."""
    return _CLEAR if sys.stderr is not None and sys.stderr.isatty() else ""


def _runner() -> bool:
    """True if a CI runner reads the output and obeys workflow commands in it."""
    return any(os.environ.get(name, "").lower() == "true" for name in ("GITHUB_ACTIONS", "TF_BUILD"))


def print_error(message: str) -> None:
    """Write one line to stderr: ``irtools: error: ...``."""
    _print_line("error", message, _COLOURS["error"])


def _print_line(kind: str, message: str, colour: str) -> None:
    style = Style.of(sys.stderr)
    line = f"irtools: {style.paint(f'{kind}:', 'bold', colour)} {visible(shortened(message))}"
    _write_stderr(f"{folded(line, style)}\n", style, control=_clear())


def interrupt_code(error: BaseException) -> int:
    """Exit code after an interrupt; :mod:`irtools.__main__` passes the number of the signal."""
    return 128 + (error.args[0] if error.args else signal.SIGINT)


def system_error(error: OSError, path: Path | None = None) -> ExportError:
    """Error of the operating system about the file that it names, else about ``path``."""
    named = error.filename if isinstance(error.filename, str | bytes) else None
    where = Path(os.fsdecode(named)) if named else path
    return ExportError(os_reason(error), path=where, hint="Correct this and try again.")


@contextmanager
def about_model(path: Path) -> Iterator[None]:
    """Convert ``OSError`` to an irtools error, and add the path of the model to errors that name no file.

    If a transfer of an export at a URL failed within the block, its error is raised whatever the block made of it.
    """
    try:
        with transferring(), about(path):
            yield
    except OSError as error:
        raise system_error(error, path) from error


def _remote() -> Any | None:
    """The module :mod:`irtools.remote`, once an export at a URL was named; before that, nothing was transferred."""
    return sys.modules["irtools.remote"] if "irtools.remote.snapshot" in sys.modules else None


def remote_notes() -> list[str]:
    """Take what was not read of exports at a URL, and why; each note once."""
    remote = _remote()
    taken: dict[str, None] = {}
    for one in remote.opened() if remote is not None else ():
        taken |= one.notes
        one.notes.clear()
    return list(taken)


@dataclass(frozen=True, slots=True)
class Ui:
    """Output channels of a command.

    Attributes
    ----------
    format : str
        ``text``, ``json`` or another format of the command.
    style : Style
        Style of stdout.
    said : list of (str, str) or None
        Gets the messages for stderr, each with its kind, instead of the stream; see :meth:`say`.
    """

    format: str = "text"
    quiet: bool = False
    verbose: bool = False
    style: Style = field(default_factory=Style)
    said: list[tuple[str, str]] | None = field(default=None, compare=False)

    def keep(self, *values: object) -> None:
        """Keep the model that a command works on until the process ends, unless it is one of many.

        It has millions of objects. Freeing them takes 4 % of the time, and the memory is not needed again.
        """
        if self.said is None:
            _KEPT[1:] = values

    def result(self, text: str, form: str = "text", *, exact: bool = False) -> None:
        """Write a result to stdout; for ``exact`` see :func:`write_stdout`."""
        if text:
            shown = text if exact or form != "text" else folded(text, self.style)
            write_stdout(f"{shown}\n", form, styled=self.style.colour, exact=exact)

    def note(self, message: str) -> None:
        """Write a note to stderr, unless ``--quiet`` is given."""
        if not self.quiet:
            self.say("note", message)

    def error(self, message: str) -> None:
        """Write one line to stderr: ``irtools: error: ...``."""
        self.say("error", message)

    def say(self, kind: str, message: str) -> None:
        """Write a message to stderr: a ``note``, an ``error``, the ``next`` command, or a ``line`` as it is."""
        if self.said is not None:
            self.said.append((kind, message))
        elif kind == "line":
            _write_stderr(f"{visible(message)}\n", Style(), control=_clear())
        else:
            _print_line(kind, message, _COLOURS[kind])

    def status(self, message: str) -> None:
        """Replace the line of progress on a terminal; ``""`` removes it. Elsewhere or if quiet, nothing is written."""
        if self._on_terminal():
            width = shutil.get_terminal_size().columns - 1
            _write_stderr(visible(message)[:width], Style(), control=_CLEAR)
            sys.stderr.flush()

    def line(self, message: str) -> None:
        """Write a line of an unfinished result to stderr, unless ``--quiet`` is given."""
        if not self.quiet:
            self.say("line", message)

    def telling_steps(self) -> AbstractContextManager[None]:
        """Write each step that ends within the block, if ``--verbose`` is given."""
        return hearing(self.step) if self.verbose else nullcontext()

    @contextmanager
    def telling_traffic(self) -> Iterator[None]:
        """Write what exports at a URL took, after the block; what was not read of them comes before it."""
        done = False
        try:
            yield
            done = True
        finally:
            remote = _remote()
            if remote is not None and (remote.traffic().requests or (done and remote.are_named())):
                for note in remote_notes():
                    self.note(note)
                taken = remote.traffic()
                least = "at least " if taken.partial else ""
                amount = f"{size_text(taken.bytes)} in {plural(taken.requests, 'request')}"
                self.line(f"irtools: {least}{amount} from the network")

    def step(self, name: str, seconds: float, depth: int) -> None:
        """Write a finished step and its time to stderr: those that it consists of come before it, indented."""
        self.say("line", f"irtools: {'  ' * depth}{name}: {seconds:.2f} s")

    def summary(self, make: Callable[[Style], str]) -> None:
        """Write several lines to stderr, made for its style, unless ``--quiet`` is given."""
        if not self.quiet:
            style = Style.of(sys.stderr)
            _write_stderr(f"{make(style)}\n", style, control=_clear())

    def _on_terminal(self) -> bool:
        """True if a line of progress may be written to stderr."""
        return not self.quiet and self.said is None and sys.stderr is not None and sys.stderr.isatty()

    @contextmanager
    def working(self, task: str) -> Iterator[Callable[[int, int], None]]:
        """Show progress on a terminal after one second; a step for ``--verbose``.

        Yields
        ------
        callable
            ``report(done, of)`` shows a percentage; the call is optional.
        """
        # Not click.progressbar: it needs the length in advance and appears at once.
        share: list[str] = [""]
        finished = threading.Event()

        def report(done: int, of: int) -> None:
            share[0] = f" {100 * done // max(of, 1)}%"

        def tell() -> None:
            pause = _PROGRESS_AFTER
            while not finished.wait(pause):
                pause = 0.2
                done = f" ...{share[0]} {time.monotonic() - started:.0f} s"
                room = max(shutil.get_terminal_size().columns - len(done) - 1, 0)
                sys.stderr.write(f"{_CLEAR}{visible(task)[:room]}{done}")  # a folded line could not be cleared
                sys.stderr.flush()
            if pause != _PROGRESS_AFTER:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()

        started = time.monotonic()
        thread = None
        if self._on_terminal():
            thread = threading.Thread(target=tell, daemon=True)
            thread.start()
        with step(task):
            try:
                yield report
            finally:
                finished.set()
                if thread is not None:
                    thread.join()


def output_options(*formats: str) -> Callable[[F], F]:
    """Add ``--format`` (by default text and json), ``-q`` and ``-v``, which the function gets as ``ui``."""

    def decorate(function: F) -> F:
        @click.option(
            "--format",
            "format_",
            type=click.Choice(formats or ("text", "json")),
            default="text",
            show_default=True,
            help="Output format.",
        )
        @click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
        @click.option("-v", "--verbose", is_flag=True, help="Print each step and its time on stderr.")
        @functools.wraps(function)
        def wrapper(*args: Any, format_: str, quiet: bool, verbose: bool, **kwargs: Any) -> Any:
            if quiet and verbose:
                raise click.UsageError("-q and -v cannot be used together")
            ui = Ui(format_, quiet, verbose, Style.of(sys.stdout))
            with ui.telling_steps(), ui.telling_traffic():
                return function(*args, ui=ui, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def run_models(ui: Ui, command: str, paths: Iterable[Path], work: Callable[[Path], ModelResult]) -> int:
    """Run ``work`` for each model in this process, print the results and return the highest exit code.

    An error in one model does not stop the others. ``command`` is the name in the JSON envelope.
    """
    entries: list[ModelResult] = []
    for path in paths:
        entry = attempt(path, work)
        print_entry(ui, entry, first=not any(earlier.text for earlier in entries))
        entries.append(entry)
        if ui.format == "text" and not ui.quiet and entry.next_step:
            ui.say("next", entry.next_step)
    if ui.format == "json":
        write_stdout(to_json(envelope(command, entries)), "json")
    return max((entry.exit_code for entry in entries), default=0)


def print_entry(ui: Ui, entry: ModelResult, *, first: bool) -> None:
    """Print the error of a model, and its text unless the format is another; a blank line separates two texts."""
    if entry.error is not None:
        print_error(entry.error)
    if ui.format == "text" and not ui.quiet and entry.text:
        if not first:
            ui.result("")
        ui.result(entry.text, exact=entry.exact)


def attempt(
    path: Path, work: Callable[[Path], ModelResult], *, passing: type[IrtoolsError] | None = None
) -> ModelResult:
    """Process one model; an error that a user can cause becomes its entry, unless it is of the class ``passing``."""
    try:
        with about_model(path):
            return work(path)
    except IrtoolsError as error:
        if passing is not None and isinstance(error, passing):
            raise
        refused = "refused" if isinstance(error, LocateRefusedError) else "failed"
        status = "differs" if isinstance(error, AnnotationDiffersError) else refused
        return ModelResult(str(path), status, error.exit_code, str(error))
    except Exception as error:
        if not is_defect(error):
            raise
        return ModelResult(str(path), "failed", 2, defect_text(error, path))
