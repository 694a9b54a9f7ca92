"""Put whole files into a model directory, and take files out of it, in a given order.

All new files are ready under temporary names, and flushed to the disk, before the first file changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from irtools.errors import SaveError
from irtools.ir.files import beside, explained, flush_directory, identity, stale, sweep, temporary
from irtools.ir.listing import real_path
from irtools.ir.reading import chunks, open_file, read_file
from irtools.ir.save import CopyProgress, Saved, lock, transfer

__all__ = ["Drop", "Put", "Step", "place_files", "same_content"]

_STATE = "the existing files are unchanged"


@dataclass(frozen=True, slots=True)
class Put:
    """A new file, or one that replaces an old one.

    Attributes
    ----------
    source : Path or bytes
        File, not a link, that is cloned, hard-linked (weights only) or copied; or the content. With a content, an old
        file keeps its mode and owner.
    seen : os.stat_result or None
        Status of the source when its content was examined; it may not have changed since.
    original : bytes or None
        Expected content of the old file; None if it does not matter.
    """

    path: Path
    source: Path | bytes = field(repr=False)
    seen: os.stat_result | None = field(default=None, repr=False)
    original: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Drop:
    """A file that is removed, if it exists; of a link, only the link."""

    path: Path


Step = Put | Drop
"""One step of :func:`place_files`."""


def place_files(steps: Sequence[Step], *, locked: Path, progress: CopyProgress | None = None) -> tuple[Saved, ...]:
    """Take steps in their order, after all new files are ready.

    Each step is atomic, and on the disk before the next one begins. After a crash, the first steps are done, the
    others are not; hidden temporary files that it leaves are removed by the next call. A link that is in the way is
    replaced; its target is never written.

    Parameters
    ----------
    locked : Path
        Existing file that is locked against other irtools processes meanwhile.

    Returns
    -------
    tuple of Saved
        One for each file that was written.

    Raises
    ------
    SaveError
        A file could not be written or removed, or changed meanwhile. Nothing is changed, unless the message says that
        steps before it were taken.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(explained(locked, "cannot be locked", state=_STATE))
        if stack.enter_context(lock(locked)):
            _remove_stale(steps)
        for directory in {step.path.parent for step in steps}:
            sweep(directory)
        ready = []
        for step in steps:
            stack.enter_context(explained(step.path, state=_STATE))
            ready.append((step.path, stack.enter_context(_ready(step, progress))))
        saved: list[Saved] = []
        for number, (path, take) in enumerate(ready):
            state = "the steps before it were taken; run the command again to complete them" if number else _STATE
            with explained(path, state=state):
                result = take()
            if result is not None:
                saved.append(result)
            flush_directory(path)
        return tuple(saved)


def _remove_stale(steps: Sequence[Step]) -> None:
    with contextlib.suppress(OSError):
        for step in steps:
            # A hard link has for a moment the temporary name of a temporary name, which begins with two points.
            for path in (step.path, step.path.with_name(f".{step.path.name}")):
                for left in stale(path):
                    left.unlink()


@contextlib.contextmanager
def _ready(step: Step, progress: CopyProgress | None) -> Iterator[Callable[[], Saved | None]]:
    """Prepare a step, and yield the function that takes it."""
    if isinstance(step, Drop):
        yield lambda: step.path.unlink(missing_ok=True)
    else:
        before = _link_status(step.path)
        if step.original is not None and (before is None or read_file(step.path) != step.original):
            raise _changed(step.path)
        with _new_file(step, progress) as new:

            def put() -> Saved:
                now = _link_status(step.path)  # None also if the step before removed the file
                if now is not None and (before is None or identity(now) != identity(before)):
                    raise _changed(step.path)
                link = real_path(step.path) if step.path.is_symlink() else None
                new.replace(step.path)
                return Saved(step.path, link)

            yield put


@contextlib.contextmanager
def _new_file(step: Put, progress: CopyProgress | None) -> Iterator[Path]:
    if isinstance(step.source, bytes):
        like = step.path.stat() if step.path.exists() else None
        with temporary(step.path, step.source, like) as new:
            yield new
        return
    name, made = beside(step.path), list[Path]()
    try:
        transfer(step.source, name, made, progress, suffix=step.path.suffix)
        handle = os.open(name, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if step.seen is not None and identity(step.source.stat()) != identity(step.seen):
            raise _changed(step.source)
        yield name
    finally:
        with contextlib.suppress(OSError):
            name.unlink()


def _link_status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _changed(path: Path) -> SaveError:
    return SaveError("changed while irtools was working; run the command again", path=path)


def same_content(a: Path, b: Path) -> bool:
    """True if two files have the same bytes; equal inodes are not read.

    Raises
    ------
    OSError
        One of them cannot be read.
    """
    with open_file(a) as one, open_file(b) as other:
        first, second = os.fstat(one.fileno()), os.fstat(other.fileno())
        if os.path.samestat(first, second):
            return True
        if first.st_size != second.st_size:
            return False
        return all(x == y for x, y in zip(chunks(one), chunks(other), strict=False))
