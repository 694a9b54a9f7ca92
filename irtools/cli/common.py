"""What the commands share: arguments, options, the loop over models, messages."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from irtools.errors import AnnotationDiffersError, ExportError, IrtoolsError, LocateRefusedError, about
from irtools.report.json import Entry, envelope, to_json
from irtools.report.terminal import Style
from irtools.text import visible

__all__ = [
    "PATH",
    "StdoutError",
    "Ui",
    "about_model",
    "attempt",
    "model_argument",
    "models_argument",
    "output_options",
    "part_option",
    "print_error",
    "run_models",
    "system_error",
    "write_stdout",
]

F = TypeVar("F", bound=Callable[..., Any])

_PROGRESS_AFTER = 1.0


class _PathType(click.Path):
    """A path, as every argument and option takes it.

    The empty text of an unset variable is not taken for the working directory. What cannot be read is
    found by who reads it: click would ask that even of a file to be written, and end for all models.
    """

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = _PathType()


def _default_to_here(_ctx: click.Context, _param: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    return value or (Path(),)


models_argument = click.argument("models", metavar="[MODEL_DIR]...", nargs=-1, type=PATH, callback=_default_to_here)
"""Model directories or ``.xml`` files; the working directory when there is none."""

model_argument = click.argument("model", metavar="[MODEL_DIR]", type=PATH, default=Path())
"""One model directory or ``.xml`` file; the working directory when there is none."""

part_option = click.option(
    "--part",
    metavar="PART",
    default="target",
    show_default=True,
    help="Part of the export: target, mtp, or a file's stem without openvino_ and _model.",
)


class StdoutError(Exception):
    """Standard output cannot be written; the ``OSError`` is its cause."""


def write_stdout(text: str, *, exact: bool = False) -> None:
    """Write a result.

    Parameters
    ----------
    text : str
    exact : bool
        In UTF-8 and with its own line ends, whatever the stream would make of it: a diff that is to be applied.

    Raises
    ------
    StdoutError
        It cannot be written, at once; what is still in the buffer can fail later.
    """
    # Not `click.echo`: it writes UTF-8 to a stream whose encoding is ASCII.
    if sys.stdout is None:
        return
    try:
        if exact and hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        else:
            sys.stdout.write(text)
    except OSError as error:
        raise StdoutError from error


def _write_stderr(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError):  # nobody is left to tell
            sys.stderr.write(text)


def print_error(message: str) -> None:
    """One line on stderr: ``irtools: error: ...``."""
    _print_line("error", message, "red")


def _print_line(kind: str, message: str, colour: str) -> None:
    style = Style.of(sys.stderr)
    _write_stderr(f"irtools: {style.paint(f'{kind}:', 'bold', colour)} {visible(message)}\n")


def system_error(error: OSError, path: Path | None = None) -> ExportError:
    """What the operating system has to say, as a sentence about the file it names, else about ``path``."""
    named = error.filename if isinstance(error.filename, str | bytes) else None
    where = Path(os.fsdecode(named)) if named else path
    return ExportError((error.strerror or type(error).__name__).lower(), path=where, hint="See to that and try again.")


@contextmanager
def about_model(path: Path) -> Iterator[None]:
    """Work on one model: every error inside names the file that it is about, else the model."""
    try:
        with about(path):
            yield
    except OSError as error:
        raise system_error(error, path) from error


@dataclass(frozen=True, slots=True)
class Ui:
    """Where a command's words go.

    Attributes
    ----------
    format : str
        ``text``, ``json`` or another format of the command.
    quiet, verbose : bool
    style : Style
        Of stdout.
    """

    format: str = "text"
    quiet: bool = False
    verbose: bool = False
    style: Style = field(default_factory=Style)

    def result(self, text: str, *, exact: bool = False) -> None:
        """A result, to stdout; ``exact`` as of :func:`write_stdout`."""
        if text:
            write_stdout(f"{text}\n", exact=exact)

    def note(self, message: str) -> None:
        """Something worth knowing, to stderr; not with ``--quiet``."""
        if not self.quiet:
            _print_line("note", message, "cyan")

    def detail(self, message: str) -> None:
        """What is being done, to stderr; only with ``--verbose``."""
        if self.verbose:
            _write_stderr(f"irtools: {visible(message)}\n")

    @contextmanager
    def working(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Say on a terminal what takes longer than a second, until it is done; how long it took with ``--verbose``.

        Yields
        ------
        callable
            ``report(done, of)`` adds a percentage; calling it is optional.
        """
        share: list[str] = [""]
        finished = threading.Event()

        def report(done: int, of: int) -> None:
            share[0] = f" {100 * done // max(of, 1)}%"

        def tell() -> None:
            pause = _PROGRESS_AFTER
            while not finished.wait(pause):
                pause = 0.2
                sys.stderr.write(f"\r\x1b[2K{visible(what)} ...{share[0]} {time.monotonic() - started:.0f} s")
                sys.stderr.flush()
            if pause != _PROGRESS_AFTER:
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()

        started = time.monotonic()
        thread = None
        if not self.quiet and sys.stderr is not None and sys.stderr.isatty():
            thread = threading.Thread(target=tell, daemon=True)
            thread.start()
        try:
            yield report
        finally:
            finished.set()
            if thread is not None:
                thread.join()
            self.detail(f"{what}: {time.monotonic() - started:.2f} s")


def output_options(*formats: str) -> Callable[[F], F]:
    """Add ``--format``, ``-q`` and ``-v``; the function gets them as ``ui``.

    Parameters
    ----------
    *formats : str
        Beside ``text`` and ``json``.
    """

    def decorate(function: F) -> F:
        @click.option(
            "--format",
            "format_",
            type=click.Choice(["text", "json", *formats]),
            default="text",
            show_default=True,
            help="How to print the result.",
        )
        @click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
        @click.option("-v", "--verbose", is_flag=True, help="Say on stderr what is done.")
        @functools.wraps(function)
        def wrapper(*args: Any, format_: str, quiet: bool, verbose: bool, **kwargs: Any) -> Any:
            if quiet and verbose:
                raise click.UsageError("-q and -v contradict each other")
            ui = Ui(format_, quiet, verbose, Style.of(sys.stdout))
            return function(*args, ui=ui, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def run_models(
    ui: Ui,
    command: str,
    paths: Iterable[Path],
    work: Callable[[Path], Entry],
    *,
    summary: Callable[[list[Entry]], Mapping[str, object]] | None = None,
) -> int:
    """Do a command's work for each model and print what comes of it.

    An error for one model does not stop the others.

    Parameters
    ----------
    ui : Ui
    command : str
        Name in the envelope.
    paths : iterable of Path
    work : callable
        Does the work for one model.
    summary : callable, optional
        The command's own keys for the summary.

    Returns
    -------
    int
        The exit code: the highest of all models.
    """
    entries: list[Entry] = []
    for path in paths:
        entry = attempt(path, work)
        if entry.error is not None:
            print_error(entry.error)
        if ui.format == "text" and not ui.quiet and entry.text:
            if any(earlier.text for earlier in entries):
                ui.result("")
            ui.result(entry.text, exact=entry.exact)
        entries.append(entry)
    if ui.format == "json":
        write_stdout(to_json(envelope(command, entries, summary(entries) if summary else None)))
    return max((entry.exit_code for entry in entries), default=0)


def attempt(path: Path, work: Callable[[Path], Entry]) -> Entry:
    """Do the work for one model; an error that a user can cause becomes its entry."""
    try:
        with about_model(path):
            return work(path)
    except IrtoolsError as error:
        return Entry(str(path), _status(error), error.exit_code, str(error))


def _status(error: IrtoolsError) -> str:
    if isinstance(error, AnnotationDiffersError):
        return "differs"
    return "refused" if isinstance(error, LocateRefusedError) else "failed"
