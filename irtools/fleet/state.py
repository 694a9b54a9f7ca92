"""State of an unfinished run over many exports: rows that need not be computed again.

The file has a line of JSON for each row, appended when the row is there, so that a kill loses no other row. Its content
is untrusted, as everything that is read: nothing in it is code, and each line has a checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from irtools.errors import SaveError, UsageError, os_reason
from irtools.fleet.fingerprint import fingerprint
from irtools.fleet.installed import installed
from irtools.ir.files import explained, temporary, write_all
from irtools.ir.listing import refuse_link
from irtools.ir.output import write_output
from irtools.ir.reading import open_file, parse_json, read_limit
from irtools.ir.save import lock

__all__ = ["State"]

_VERSION = 1
_HEAD = '{"irtools_state": %d, "irtools": %s}\n'
_DIGITS = 16
_START = b'{"check": "'
_WASTE = 1000
"""Outdated lines that a state may have, beside as many as there are current ones, before it is written anew."""
_ELSEWHERE = "another file for the state"


class State:
    """Rows of earlier runs, by the path of an export and a fingerprint of what they depend on.

    The file is created if it does not exist. In memory are the positions of the rows, not the rows. As a context
    manager, the state is closed at the end of the block.

    Parameters
    ----------
    check : callable
        Raises any exception for a row of a wrong form, as a function does that reads it.

    Attributes
    ----------
    failure : SaveError or None
        Why rows are no longer remembered, such as a full disk; the file has the earlier ones, complete.

    Raises
    ------
    UsageError
        The file cannot be read, is damaged, is no state, or comes from a newer release.
    SaveError
        It cannot be written, or another run uses it.
    """

    def __init__(self, file: Path, check: Callable[[Any], object] = bool) -> None:
        self.failure: SaveError | None = None
        self._file = file
        self._check = check
        self._told: dict[str, str] = {}
        self._places: dict[str, tuple[str, int, int]] = {}  # by work: stamp, position, size
        self._lines = 0
        self._handle = -1
        self._open_files = ExitStack()
        with explained(file, elsewhere=_ELSEWHERE):
            refuse_link(file)
            if not file.exists() or (file.is_file() and not file.stat().st_size):
                write_output(file, _head())
        self._open()
        if self._lines - len(self._places) > len(self._places) + _WASTE:
            self._compact()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; rows are in it already."""
        self._open_files.close()

    def known(self, path: str, options: str) -> Any | None:
        """Row of an export, if neither the export nor what is installed has changed since it was remembered.

        Parameters
        ----------
        options : str
            Options that the row depends on, as text.

        Returns
        -------
        Any or None
            None if there is no such row.

        Raises
        ------
        UsageError
            The file cannot be read, or is damaged.
        """
        now = self._told[path] = self._stamp(path)
        old, start, size = self._places.get(_work(path, options), ("", 0, 0))
        if not now or old != now:
            return None
        try:
            with open_file(self._file) as file:
                file.seek(start)
                row = _content(file.read(size))["row"]
            self._check(row)
        except OSError as error:
            raise self._unreadable(error) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._damaged(f"the row of {path} cannot be read") from error
        return row

    def remember(self, path: str, options: str, row: Any, *, written: bool = False) -> None:
        """Append a row for which :meth:`known` was asked; ``failure`` is set if that is not possible.

        The row of an export that somebody changed meanwhile is not kept.

        Parameters
        ----------
        row : Any
            What JSON has.
        written : bool
            True if the work itself has changed the export.
        """
        before, now = self._told.pop(path, ""), self._stamp(path)
        if self.failure is not None or not now or (now != before and not written):
            return
        work = _work(path, options)
        line = _line({"path": path, "work": work, "stamp": now, "row": row})
        try:
            with explained(self._file, "the state cannot be written", elsewhere=_ELSEWHERE):
                end = os.lseek(self._handle, 0, os.SEEK_END)
                try:
                    write_all(self._handle, line)
                except OSError:
                    os.ftruncate(self._handle, end)
                    raise
        except SaveError as error:
            self.failure = error
            return
        self._places[work] = now, end, len(line)
        self._lines += 1

    def _stamp(self, path: str) -> str:
        """Digest of the export and of what is installed; ``""`` if it cannot be told."""
        export = fingerprint(path, without=self._file)
        return _digest([export, dict(installed()), read_limit("xml").size]) if export else ""

    def _open(self) -> None:
        """Open the file for appending, and read where its rows are."""
        try:
            open_file(self._file).close()  # `lock` would wait for the other end of a pipe
            self._open_files.enter_context(lock(self._file))
            flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
            with open_file(self._file) as file:
                self._handle = os.open(self._file, flags)
                self._open_files.callback(os.close, self._handle)
                end = self._read(file)
            if os.fstat(self._handle).st_size != end:  # the row that a killed run was writing
                os.ftruncate(self._handle, end)
        except OSError as error:
            self.close()
            raise self._unreadable(error) from error
        except BaseException:
            self.close()
            raise

    def _read(self, file: BufferedReader) -> int:
        """Read all lines; returns the end of the last complete one."""
        limit = read_limit("record").size
        self._require_head(file.readline(1000))
        while line := file.readline(limit + 1):
            start = file.tell() - len(line)
            if not line.endswith(b"\n"):
                if len(line) > limit:
                    raise self._damaged(f"line {self._lines + 2} is too long")
                return start
            try:
                content = _content(line)
                self._places[content["work"]] = content["stamp"], start, len(line)
            except ValueError as error:
                raise self._damaged(f"line {self._lines + 2}: {error}") from error
            self._lines += 1
        return file.tell()

    def _require_head(self, line: bytes) -> None:
        try:
            version = parse_json(line)["irtools_state"]
        except (ValueError, TypeError, KeyError):
            hint = "Give the file of an earlier --resume, or one that does not exist yet."
            raise UsageError("is not a state of irtools", hint=hint, path=self._file) from None
        if version != _VERSION:
            raise UsageError(
                f"is a state of version {version!r}, and this irtools reads version {_VERSION}",
                hint="Use the release that wrote it, or give a file that does not exist yet.",
                path=self._file,
            )

    def _compact(self) -> None:
        """Write the file anew, with the current rows only; a kill leaves the old or the new one."""
        with open_file(self._file) as file:

            def lines() -> Iterator[bytes]:
                yield _head()
                for _, start, size in sorted(self._places.values(), key=lambda place: place[1]):
                    file.seek(start)
                    yield file.read(size)

            with (
                explained(self._file, "the state cannot be written", elsewhere=_ELSEWHERE),
                temporary(self._file, lines(), self._file.stat()) as new,
            ):
                new.replace(self._file)
        self.close()
        self._places, self._lines = {}, 0
        self._open()

    def _unreadable(self, error: OSError) -> UsageError:
        hint = "Correct this, or give another file."
        return UsageError(f"the state cannot be read: {os_reason(error)}", hint=hint, path=self._file)

    def _damaged(self, what: str) -> UsageError:
        hint = "Delete it, and everything is computed again."
        return UsageError(f"the state is damaged ({what})", hint=hint, path=self._file)


def _head() -> bytes:
    return (_HEAD % (_VERSION, json.dumps(installed()["irtools"]))).encode()


def _work(path: str, options: str) -> str:
    """Name of what is done with an export. The spelling of the path counts, because it is in the row."""
    return _digest([os.path.abspath(path), path, options])  # noqa: PTH100


def _digest(told: object) -> str:
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _line(content: object) -> bytes:
    """A line with its checksum, which covers what follows it."""
    rest = json.dumps(content)[1:].encode() + b"\n"
    return _START + _check(rest) + b'", ' + rest


def _check(rest: bytes) -> bytes:
    return hashlib.sha256(rest).hexdigest()[:_DIGITS].encode()


def _content(line: bytes) -> dict[str, Any]:
    """Content of a line; raises ``ValueError`` if it is not as it was written."""
    at = len(_START) + _DIGITS
    rest = line[at + 3 :]
    if not line.startswith(_START) or line[len(_START) : at] != _check(rest):
        raise ValueError("its checksum is wrong")
    limit = read_limit("record").elements
    if rest.count(b",") > limit:
        raise ValueError("it has too many values")
    content = parse_json(b"{" + rest)
    if not isinstance(content, dict) or "row" not in content:
        raise ValueError("it has no row")
    if not (isinstance(content.get("work"), str) and isinstance(content.get("stamp"), str)):
        raise ValueError("it does not say of what")
    return content
