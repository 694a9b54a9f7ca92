"""Exceptions that nobody expected: defects of irtools, and an exhausted memory."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from pathlib import Path

import click

from irtools._version import __version__
from irtools.errors import IrtoolsError
from irtools.text import visible

__all__ = ["StdoutError", "defect_text", "is_defect", "print_traceback", "show_tracebacks", "tracebacks_shown"]

_LONGEST = 300
_shown = [False]


class StdoutError(Exception):
    """Standard output cannot be written; the cause is an ``OSError``."""


def show_tracebacks(arguments: list[str]) -> None:
    """Show tracebacks from now on if the command line has ``-v``, which can be one of several short options."""
    short = (a for a in arguments if a[:1] == "-" and a[1:2] != "-")
    _shown[0] = "--verbose" in arguments or any(a[1:].isalpha() and "v" in a for a in short)


def tracebacks_shown() -> bool:
    """True if tracebacks are shown."""
    return _shown[0]


def is_defect(error: BaseException) -> bool:
    """True for an exception that a user cannot cause: not a message of irtools or of the command line."""
    known = (IrtoolsError, OSError, StdoutError, click.ClickException, click.Abort, click.exceptions.Exit)
    return isinstance(error, Exception) and not isinstance(error, known)


def defect_text(error: Exception, path: Path | None = None) -> str:
    """One sentence about a defect: what happened, and where to report it. With ``-v`` the traceback is on stderr."""
    print_traceback("".join(traceback.format_exception(error)))
    about = f"{path}: " if path is not None else ""
    if isinstance(error, MemoryError):
        return f"{about}there is not enough memory; free some, or give a smaller part of the export"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {'/'.join(Path(frames[-1].filename).parts[-2:])}:{frames[-1].lineno}" if frames else ""
    shown = f"{type(error).__name__}: {error}".rstrip(": ")
    details = "the traceback above" if _shown[0] else "the traceback that -v prints"
    return (
        f"{about}this is a defect of irtools {__version__} ({shown[:_LONGEST]}{place}); report it, with {details}, "
        f"in {_tracker()}, and name the exporter of the model"
    )


def _tracker() -> str:
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        links = [link.split(", ", 1) for link in metadata("ov-irtools").get_all("Project-URL") or ()]
    except PackageNotFoundError:
        links = []
    return next((link[-1] for link in links if link[0] == "Issues"), "the issue tracker of ov-irtools")


def print_traceback(text: str) -> None:
    """Print a traceback on stderr if the user asked for details."""
    if _shown[0] and sys.stderr is not None:
        with suppress(OSError):  # there is no other place for it
            sys.stderr.write("".join(f"{visible(line)}\n" for line in text.splitlines()))
