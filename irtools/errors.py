"""Errors that a user can cause: one sentence each, with what to do about it.

Every exception carries the exit code that the command line returns for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "AnnotationDiffersError",
    "CheckError",
    "EditError",
    "ExportError",
    "InvalidIRError",
    "IrtoolsError",
    "LocateRefusedError",
    "MalformedValueError",
    "OptionError",
    "RenderError",
    "SaveError",
    "UnsupportedEncodingError",
    "UsageError",
    "about",
]


class IrtoolsError(Exception):
    """Base class of everything that irtools raises on purpose.

    Attributes
    ----------
    exit_code : int
        What the command line exits with (2: it could not do its work).
    path : Path or None
        The file or directory that it is about; ``str`` puts it before the message.
    hint : str or None
        What to do about it, when the message does not say it already.
    """

    exit_code = 2

    def __init__(self, message: str, *, path: Path | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0])
        if self.path is not None:
            message = f"{self.path}: {message}"
        if not self.hint:
            return message
        return f"{message.rstrip('.')}. {self.hint[:1].upper()}{self.hint[1:]}"


@contextmanager
def about(path: Path | None) -> Iterator[None]:
    """Say in the errors of what is done inside which file they are about, unless they know better."""
    try:
        yield
    except IrtoolsError as error:
        if error.path is None and not isinstance(error, OptionError):
            error.path = path
        raise


class UsageError(IrtoolsError):
    """An option or argument that makes no sense."""


class OptionError(UsageError):
    """An option that makes no sense for any model: no model is named."""


class ExportError(IrtoolsError):
    """A model directory or file that is missing, empty, ambiguous or unreadable."""


class InvalidIRError(IrtoolsError):
    """A file that is not well-formed XML or not an OpenVINO IR.

    Attributes
    ----------
    line : int or None
        Line of the fault, counted from 1.
    column : int or None
        Column of the fault, counted from 0.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        path: Path | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.line = line
        self.column = column


class MalformedValueError(InvalidIRError):
    """A number or name that the format requires is missing or unusable."""


class UnsupportedEncodingError(InvalidIRError):
    """XML in an encoding whose bytes irtools does not edit (anything but UTF-8)."""


class LocateRefusedError(IrtoolsError):
    """The graph has no decoder stack, or not exactly one that the witnesses agree on."""


class AnnotationDiffersError(IrtoolsError):
    """An annotation is there already and says something else.

    Attributes
    ----------
    difference : str
        The first difference, as a clause: ``it says nothing about layer 3``.
    old, new : str
        The annotation in the file, and the one that was to be written.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        difference: str = "",
        old: str = "",
        new: str = "",
        path: Path | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.difference = difference
        self.old = old
        self.new = new


class CheckError(IrtoolsError):
    """The runtime would not accept the new file, or that could not be found out; nothing was written."""


class EditError(IrtoolsError):
    """An edit that cannot be made, or that would leave the IR inconsistent; nothing was changed."""


class RenderError(IrtoolsError):
    """A picture that cannot be drawn: no engine, or nothing to draw."""


class SaveError(IrtoolsError):
    """A file could not be written; the message says what is there now: the old one or the new one, whole."""
