"""Public exceptions: errors that a user can cause. Each message is one sentence with the fault and the remedy.

Every exception carries the exit code of the command line. The functions of this module are internal.
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
    "RemoteError",
    "RenderError",
    "SaveError",
    "UnsupportedEncodingError",
    "UsageError",
]


class IrtoolsError(Exception):
    """Base class of all errors that irtools raises on purpose.

    Attributes
    ----------
    exit_code : int
        Exit code of the command line; 2 means that the command could not do its work.
    path : Path or None
        File or directory at fault; ``str`` puts it before the message.
    hint : str or None
        Advice, if the message contains none: sentences, or a clause in lower case, which follows a semicolon.
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
        return f"{message.rstrip('.')}{'; ' if self.hint[0].islower() else '. '}{self.hint}"


@contextmanager
def about(path: Path | None) -> Iterator[None]:
    """Set ``path`` on errors raised in the block, unless they have a path or concern no model."""
    try:
        yield
    except IrtoolsError as error:
        if error.path is None and not isinstance(error, OptionError):
            error.path = path
        raise


@contextmanager
def transferring() -> Iterator[None]:
    """Raise the error of the first transfer from a URL that failed in the block, whatever the block made of it.

    What reads a file takes bytes that are missing for a fault of the file.
    """
    before = len(failed_transfers)
    try:
        yield
    except (IrtoolsError, OSError):
        _raise_first(before)
        raise
    _raise_first(before)


def _raise_first(before: int) -> None:
    if len(failed_transfers) > before:
        raise failed_transfers[before] from None


def os_reason(error: OSError) -> str:
    """Reason of an ``OSError`` for the middle of a message."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]


class UsageError(IrtoolsError):
    """An invalid option or argument."""


class OptionError(UsageError):
    """An option that is invalid for every model; the message names no model."""


class ExportError(IrtoolsError):
    """A missing, empty, ambiguous or unreadable model directory or file."""


class RemoteError(ExportError):
    """An export at a URL that cannot be read: not there, not allowed, not reachable, or not what its listing says.

    Attributes
    ----------
    url : str
        The export or file at fault; ``str`` puts it before the message.
    """

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url

    def __str__(self) -> str:
        return f"{self.url}: {self.args[0]}" if self.url else super().__str__()


def unreadable(path: Path, error: OSError, advice: str = "") -> ExportError:
    """Error for a file or directory that cannot be read; the advice begins with its punctuation."""
    return ExportError(f"cannot be read: {os_reason(error)}{advice}", path=path)


failed_transfers: list[RemoteError] = []
"""Transfers from a URL that failed in this process, in order."""


class InvalidIRError(IrtoolsError):
    """A file that is not well-formed XML or not an OpenVINO IR.

    Attributes
    ----------
    line, column : int or None
        Position of the fault; lines count from 1, columns from 0.
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
    """A missing or invalid number or name that the format requires."""


class UnsupportedEncodingError(InvalidIRError):
    """XML in an encoding other than UTF-8, which irtools does not edit."""


class LocateRefusedError(IrtoolsError):
    """A graph without exactly one decoder stack that all witnesses agree on, or with one that cannot be annotated."""


class AnnotationDiffersError(IrtoolsError):
    """An existing annotation that differs from the new one.

    Attributes
    ----------
    old, new : str
        The annotation in the file, and the one to be written.
    """

    exit_code = 1

    def __init__(self, message: str, *, old: str, new: str, path: Path) -> None:
        super().__init__(message, path=path)
        self.old = old
        self.new = new


class CheckError(IrtoolsError):
    """A new file that the runtime rejects, or that could not be checked; nothing was written."""


class EditError(IrtoolsError):
    """An edit that is impossible, or that would make the IR inconsistent; nothing was changed."""


class RenderError(IrtoolsError):
    """A picture that cannot be drawn because there is no layout engine or nothing to draw."""


class SaveError(IrtoolsError):
    """A file that could not be written; the message says whether the old or the new one is there, complete."""
