"""Write parts of an export, in place or as a complete export elsewhere.

A file is replaced in one step: a temporary file beside it is written in full, flushed to the
disk, judged by a check if there is one, and renamed over the old file. Weights are never opened
for writing; into another directory they go as clones, hard links or copies.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from irtools.errors import SaveError
from irtools.ir.files import (
    NEW,
    SUFFIX,
    beside,
    explained,
    flush_directory,
    make_directories,
    remove_made,
    stale,
    temporary,
    write_all,
)
from irtools.ir.listing import list_export, real_path, require_empty
from irtools.ir.reading import chunks

try:
    import fcntl
except ImportError:  # Windows: changes are still noticed, and nothing is cloned
    fcntl = None  # type: ignore[assignment]

__all__ = ["Change", "Check", "Progress", "Saved", "save_export", "save_file", "save_files"]

Check = Callable[[Path], tuple[str, ...]]
"""Judges the temporary file; returns notes, or raises ``CheckError``."""
Progress = Callable[[Path, int, int], None]
"""Called while a file is copied: file, bytes done, bytes in all."""

_WEIGHTS = (".bin", ".safetensors", ".gguf")
_UNDONE = "what had been created was removed"
_FICLONE = 0x40049409
_BINARY = getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Change:
    """New content for one file.

    Attributes
    ----------
    path : Path
    data : bytes
        The new content.
    original : bytes
        What the file is expected to hold now.
    check : callable or None
        Judges the new file (under a temporary name) before it takes its place.
    """

    path: Path
    data: bytes = field(repr=False)
    original: bytes = field(repr=False)
    check: Check | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """One file that was written.

    Attributes
    ----------
    path : Path
    replaced_link : Path or None
        What the symbolic link that was replaced had pointed to; that file is as it was.
    notes : tuple of str
        What the check had to say.
    """

    path: Path
    replaced_link: Path | None = None
    notes: tuple[str, ...] = ()


# -- in place --------------------------------------------------------------------------


def save_file(change: Change) -> Saved:
    """Replace a file in one step.

    After a failure or a crash at any point the old file or the new one is there, whole. A crash
    can leave a hidden temporary file beside it, which the next call for the same file removes.
    Permissions are kept, and owner and extended attributes where that is allowed. A symbolic
    link is replaced, never written through.

    Parameters
    ----------
    change : Change

    Returns
    -------
    Saved

    Raises
    ------
    CheckError
        The check refuses the new file; the old one is as it was.
    SaveError
        The file could not be written, changed meanwhile, or another irtools is at work on it: it is as
        it was. Or it was written and its directory could not be flushed, as the message then says.
    """
    return save_files([change])[0]


def save_files(changes: Sequence[Change], written: Callable[[Change], None] | None = None) -> tuple[Saved, ...]:
    """Replace files, each in one step as :func:`save_file` does, and none before all are checked.

    Parameters
    ----------
    changes : sequence of Change
        At most one for a file.
    written : callable, optional
        Called when a file has been replaced.

    Returns
    -------
    tuple of Saved
        One per change.

    Raises
    ------
    CheckError
        A check refuses its file; no file was replaced.
    SaveError
        The file that it names was not replaced, or the message says that it was; those before it
        in ``changes`` may have been.
    """
    with contextlib.ExitStack() as stack:
        ready = [stack.enter_context(_prepared(change)) for change in changes]
        saved = []
        for change, replace in zip(changes, ready, strict=True):
            saved.append(replace())
            if written is not None:
                written(change)
            flush_directory(change.path)
        return tuple(saved)


@contextlib.contextmanager
def _prepared(change: Change) -> Iterator[Callable[[], Saved]]:
    """A file that only has to be renamed into its place, by calling what is yielded."""
    path, state = change.path, "the old file is as it was"
    with explained(path, state=state), _lock(path) as locked:
        before = _unchanged(change)
        if locked:
            _remove_stale(path)
        link = real_path(path) if path.is_symlink() else None
        with temporary(path, change.data, before) as new:
            notes = change.check(new) if change.check is not None else ()

            def replace() -> Saved:
                with explained(path, state=state):
                    if _identity(path.stat()) != _identity(before):
                        raise _changed(path)
                    new.replace(path)
                return Saved(path, link, notes)

            yield replace


def _reading(path: Path) -> contextlib.AbstractContextManager[None]:
    """The same for what is only read, while a new directory is being filled."""
    return explained(path, "cannot be read", state=_UNDONE, advice="repair it, or get the export again")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Keep other irtools off a file; says whether that was possible.

    The lock is the kernel's: it ends with the process, however that ends, and leaves no file.
    """
    if fcntl is None:
        yield False
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise _changed(path) from None
    try:
        yield _locked(path, handle)
    finally:
        with contextlib.suppress(OSError):  # it was only read
            os.close(handle)


def _locked(path: Path, handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SaveError("another irtools is at work on it; wait until it is done", path=path) from None
    except OSError:  # some network file systems have no locks; changes are noticed without
        return False
    if not os.path.samestat(os.fstat(handle), path.stat()):
        raise _changed(path)
    return True


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _changed(path: Path) -> SaveError:
    return SaveError("changed while irtools was at work, so nothing was written; run the command again", path=path)


def _unchanged(change: Change) -> os.stat_result:
    """Status of a file that still holds what it held when it was read."""
    try:
        status = change.path.stat()
        content = change.path.read_bytes()
    except FileNotFoundError:
        raise _changed(change.path) from None
    if content != change.original or _identity(change.path.stat()) != _identity(status):
        raise _changed(change.path)
    return status


def _remove_stale(path: Path) -> None:
    """Remove what a killed run left: while ``path`` is locked, nobody else has a temporary file for it."""
    with contextlib.suppress(OSError):
        for left in stale(path):
            left.unlink()


# -- into another directory ------------------------------------------------------------


def save_export(
    directory: Path, changes: Sequence[Change], output_dir: Path, *, progress: Progress | None = None
) -> tuple[Saved, ...]:
    """Write a complete export into an empty or absent directory.

    Everything in ``directory`` goes there, sub-directories too, symbolic links as what they
    point to. Files are cloned where the file system can, else weights are hard-linked and the
    rest copied. The changed files come last. A failure removes what was created.

    Parameters
    ----------
    directory : Path
        The export to copy; it is not changed.
    changes : sequence of Change
        New content of some of its files.
    output_dir : Path
    progress : callable, optional

    Returns
    -------
    tuple of Saved
        One per change.

    Raises
    ------
    CheckError
        A check refuses its file.
    SaveError
        The directory is not empty or lies inside the export, or a file could not be read or written.
    """
    with explained(output_dir, state="nothing was created"):
        require_empty(output_dir, directory)
    with _reading(directory):
        folders, files = list_export(directory, leave_out=SUFFIX)
    changed = {change.path.relative_to(directory): change for change in changes}
    made: list[Path] = []
    try:
        with explained(output_dir, state=_UNDONE):
            make_directories([output_dir, *(output_dir / folder for folder in folders)], made)
        for relative, source in files.items():
            if relative not in changed:
                with explained(output_dir / relative, state=_UNDONE):
                    _transfer(source, output_dir / relative, made, progress)
        return tuple(_place(output_dir / relative, change, made) for relative, change in changed.items())
    except BaseException:
        remove_made(made)
        raise


def _transfer(source: Path, target: Path, made: list[Path], progress: Progress | None) -> None:
    """Clone, hard-link (weights only) or copy one file."""
    with _reading(source):
        reading = os.open(source, os.O_RDONLY | _BINARY)
    try:
        writing = os.open(target, NEW, 0o600)
        made.append(target)
        try:
            cloned = _clone(reading, writing)
            if not cloned and target.suffix in _WEIGHTS and _hard_link(source, target):
                return
            if not cloned:
                _copy(reading, writing, source, progress)
        finally:
            os.close(writing)
        shutil.copystat(source, target)
    finally:
        with contextlib.suppress(OSError):
            os.close(reading)


def _clone(reading: int, writing: int) -> bool:
    """Let both files share their blocks until one is written; few file systems can."""
    try:
        return fcntl is not None and fcntl.ioctl(writing, _FICLONE, reading) == 0
    except OSError:
        return False


def _hard_link(source: Path, target: Path) -> bool:
    """Put a hard link in place of the empty file ``target``; not across file systems."""
    link = beside(target)
    try:
        os.link(source, link)
    except OSError:
        return False
    try:
        link.replace(target)
    finally:
        with contextlib.suppress(OSError):
            link.unlink()
    return True


def _copy(reading: int, writing: int, source: Path, progress: Progress | None) -> None:
    total, done = os.fstat(reading).st_size, 0
    with FileIO(reading, closefd=False) as file:
        pieces = chunks(file)
        while True:
            with _reading(source):
                piece = next(pieces, None)
            if piece is None:
                return
            write_all(writing, piece)
            done += len(piece)
            if progress is not None:
                progress(source, done, total)


def _place(target: Path, change: Change, made: list[Path]) -> Saved:
    """Write one changed file into the new directory."""
    with explained(target, state=_UNDONE):
        before = _unchanged(change)
        made.append(target)
        with temporary(target, change.data, before) as new:
            notes = change.check(new) if change.check is not None else ()
            new.replace(target)
    flush_directory(target)
    return Saved(target, None, notes)
