"""Write parts of an export, in place or as a complete export in another directory.

A file is replaced atomically: a temporary file beside it is written, flushed to the disk, checked, and renamed
over the old file. No file is opened for writing; another directory gets clones, hard links or copies of weights.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from irtools.errors import SaveError
from irtools.ir.files import (
    NEW,
    SUFFIX,
    UNDONE,
    beside,
    explained,
    flush_directory,
    identity,
    make_directories,
    remove_made,
    stale,
    sweep,
    temporary,
    write_all,
)
from irtools.ir.listing import UNFINISHED, list_export, real_path, remove_leftover, require_empty
from irtools.ir.reading import chunks, open_file, provider_of, read_file
from irtools.text import short_repr

try:
    import fcntl
except ImportError:  # Windows: without locks and clones; concurrent changes are still detected
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "CopyProgress",
    "FileChange",
    "FileCheck",
    "Saved",
    "WeightsChange",
    "lock",
    "save_export",
    "save_files",
    "transfer",
]

FileCheck = Callable[[Path, Path | None], tuple[str, ...]]
"""Check of the temporary file, with the new weights if they change; returns notes or raises ``CheckError``."""
CopyProgress = Callable[[Path, int, int], None]
"""Callback during a copy: file, bytes done, total bytes."""

_WEIGHTS = (".bin", ".safetensors", ".gguf")
_FICLONE = 0x40049409
_BINARY = getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class WeightsChange:
    """New end of a ``.bin``: the file keeps its first bytes, and other bytes follow them.

    Attributes
    ----------
    kept : int
        Number of bytes that stay.
    original : int
        Expected current size of the file in bytes.
    added : callable
        Yields the bytes that follow, in pieces.
    """

    path: Path
    kept: int
    original: int
    added: Callable[[], Iterable[bytes | memoryview]] = tuple

    def data(self) -> Iterator[bytes | memoryview]:
        """Yield the new content in pieces."""
        with open_file(self.path) as file:
            yield from chunks(file, self.kept)
        yield from self.added()


@dataclass(frozen=True, slots=True)
class FileChange:
    """New content for one file.

    Attributes
    ----------
    original : bytes
        Expected current content of the file.
    check : callable or None
        Check of the new file, under a temporary name, before the rename.
    weights : WeightsChange or None
        Change of its weights. The old file can read the new weights if they only grow, and the new file can read the
        old weights if they only shrink, so they are replaced before or after it.
    """

    path: Path
    data: bytes = field(repr=False)
    original: bytes = field(repr=False)
    check: FileCheck | None = None
    weights: WeightsChange | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """One file that was written.

    Attributes
    ----------
    replaced_link : Path or None
        Target of the symbolic link that was replaced; the target is unchanged.
    notes : tuple of str
        Notes of the check.
    """

    path: Path
    replaced_link: Path | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, str(self.path), *self.notes)

    @property
    def link_note(self) -> str:
        """Note about the symbolic link that was replaced; ``""`` if there was none."""
        if self.replaced_link is None:
            return ""
        return f"{self.path} was a symbolic link; it is now a file, and {self.replaced_link} is unchanged"


# -- in place --------------------------------------------------------------------------


def save_files(
    changes: Sequence[FileChange],
    written: Callable[[FileChange], None] | None = None,
    *,
    read: Mapping[Path, bytes] | None = None,
) -> tuple[Saved, ...]:
    """Replace files atomically, each at most once, after all of them passed their checks.

    After a failure or crash at any point, the complete old or the complete new file is there. A crash can
    leave a hidden temporary file, which the next call for the same file removes. The new file keeps the mode
    and, where permitted, the owner and extended attributes. A symbolic link is replaced; its target is never
    written.

    Parameters
    ----------
    written : callable, optional
        Called after each file that was replaced.
    read : mapping of Path to bytes, optional
        Other files with the content that the changes were computed from. They are locked meanwhile, so that they and
        the files that are written fit together.

    Raises
    ------
    CheckError
        A check rejects its file; no file was replaced.
    SaveError
        The named file could not be written, changed meanwhile, or is in use by another irtools; it is unchanged.
        If only the flush of its directory failed, the new file is there and the message says so. Files before it in
        ``changes`` have been replaced.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_held(read or {}))
        ready = [stack.enter_context(_prepared(change)) for change in changes]
        saved = []
        for change, replace in zip(changes, ready, strict=True):
            saved.append(replace())
            if written is not None:
                written(change)
            flush_directory(change.path)
        return tuple(saved)


@contextlib.contextmanager
def _held(read: Mapping[Path, bytes]) -> Iterator[None]:
    """Lock files that must still have this content."""
    with contextlib.ExitStack() as stack:
        for path, content in read.items():
            with explained(path, "cannot be read", state="nothing was written"):
                stack.enter_context(lock(path))
                _unchanged(path, content)
        yield


@contextlib.contextmanager
def _prepared(change: FileChange) -> Iterator[Callable[[], Saved]]:
    """Lock a file, write and check the temporary file, and yield the function that renames it."""
    path, state = change.path, "the old file is unchanged"
    if provider_of(path) is not None:
        raise SaveError("is at a URL, and irtools does not write there; give --output-dir", path=path)
    with explained(path, state=state), lock(path) as locked:
        before = _unchanged(path, change.original)
        if locked:
            _remove_stale(path)
        sweep(path.parent)
        link = real_path(path) if path.is_symlink() else None
        with temporary(path, change.data, before) as new, _prepared_weights(change.weights, locked) as weights:
            notes = change.check(new, weights.new if weights else None) if change.check is not None else ()

            def replace() -> Saved:
                with explained(path, state=state):
                    if identity(path.stat()) != identity(before):
                        raise _changed(path)
                    if weights is not None and weights.grow:
                        weights.replace()
                    new.replace(path)
                    if weights is not None and not weights.grow:
                        weights.replace()
                return Saved(path, link, notes)

            yield replace


@dataclass(frozen=True, slots=True)
class _Weights:
    """New weights under a temporary name."""

    path: Path
    new: Path
    before: os.stat_result
    grow: bool

    def replace(self) -> None:
        with explained(self.path):
            if identity(self.path.stat()) != identity(self.before):
                raise _changed(self.path)
            self.new.replace(self.path)
        flush_directory(self.path)


@contextlib.contextmanager
def _prepared_weights(change: WeightsChange | None, locked: bool) -> Iterator[_Weights | None]:
    """Write the new weights under a temporary name."""
    if change is None:
        yield None
        return
    with explained(change.path, state="the old files are unchanged"):
        before = change.path.stat()
        if before.st_size != change.original:
            raise _changed(change.path)
        if locked:
            _remove_stale(change.path)
        with temporary(change.path, change.data(), before) as new:
            yield _Weights(change.path, new, before, new.stat().st_size >= before.st_size)


def _reading(path: Path) -> contextlib.AbstractContextManager[None]:
    """Explain read errors while a new directory is being filled."""
    return explained(path, "cannot be read", state=UNDONE, advice="repair it, or get the export again")


@contextlib.contextmanager
def lock(path: Path) -> Iterator[bool]:
    """Lock a file against other irtools processes; yields True if that was possible.

    The kernel holds the lock. It ends with the process in any case and leaves no file.
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
        with contextlib.suppress(OSError):  # nothing was written to it
            os.close(handle)


def _locked(path: Path, handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SaveError("another irtools process is working on it; wait until it has finished", path=path) from None
    except OSError:  # some network file systems have no locks; changes are detected without one
        return False
    if not os.path.samestat(os.fstat(handle), path.stat()):
        raise _changed(path)
    return True


def _changed(path: Path) -> SaveError:
    return SaveError("changed while irtools was working, so nothing was written; run the command again", path=path)


def _unchanged(path: Path, original: bytes) -> os.stat_result:
    """Status of a file, after checking that it still has its original content."""
    try:
        status = path.stat()
        content = read_file(path)
    except FileNotFoundError:
        raise _changed(path) from None
    if content != original or identity(path.stat()) != identity(status):
        raise _changed(path)
    return status


def _remove_stale(path: Path) -> None:
    """Remove temporary files of a killed run; the lock on ``path`` excludes those of a running one."""
    with contextlib.suppress(OSError):
        for left in stale(path):
            left.unlink()


# -- into another directory ------------------------------------------------------------


def save_export(
    directory: Path,
    changes: Sequence[FileChange],
    output_dir: Path,
    *,
    instead: Mapping[str, Path | None] | None = None,
    read: Mapping[Path, bytes] | None = None,
    progress: CopyProgress | None = None,
) -> tuple[Saved, ...]:
    """Write a complete export to an empty or absent directory; of an export at a URL the changed files alone.

    All files of ``directory`` and its sub-directories are copied; symbolic links are followed. Files are
    cloned if the file system supports it; otherwise weights are hard-linked and other files copied. Changed
    files come last. A failure removes everything that was created.

    Raises
    ------
    CheckError
        A check rejects its file.
    SaveError
        The directory is not empty or lies inside the export, or a file could not be read or written.
    """
    with explained(output_dir, state="nothing was created"):
        require_empty(output_dir, directory)
    folders: list[Path] = []
    files: dict[Path, Path] = {}
    if provider_of(directory / UNFINISHED) is None:  # of an export at a URL, the changed files alone are written
        with _reading(directory):
            folders, files = list_export(directory, leave_out=SUFFIX)
    for name, source in (instead or {}).items():
        files.pop(Path(name), None)
        if source is not None:
            files[Path(name)] = source
    changed = {change.path.relative_to(directory): change for change in changes}
    with explained(output_dir, state="nothing was created"):
        remove_leftover(output_dir, {*folders, *files, *changed})
    made: list[Path] = []
    try:
        with explained(output_dir, state=UNDONE):
            make_directories([output_dir], made)
        with _held(read or {}), explained(output_dir, state=UNDONE), temporary(output_dir / UNFINISHED, b"", None):
            return _fill(directory, output_dir, folders, files, changed, made, progress)
    except BaseException:
        remove_made(made)
        raise


def _fill(
    directory: Path,
    output_dir: Path,
    folders: Iterable[Path],
    files: Mapping[Path, Path],
    changed: Mapping[Path, FileChange],
    made: list[Path],
    progress: CopyProgress | None,
) -> tuple[Saved, ...]:
    with explained(output_dir, state=UNDONE):
        make_directories([output_dir / folder for folder in folders], made)
    replaced = {*changed, *(c.weights.path.relative_to(directory) for c in changed.values() if c.weights is not None)}
    for relative, source in files.items():
        if relative not in replaced:
            with explained(output_dir / relative, state=UNDONE):
                transfer(source, output_dir / relative, made, progress)
    return tuple(_place(output_dir, relative, change, made) for relative, change in changed.items())


def transfer(
    source: Path, target: Path, made: list[Path], progress: CopyProgress | None, *, suffix: str | None = None
) -> None:
    """Clone, hard-link (weights only) or copy one file.

    Parameters
    ----------
    made : list of Path
        Gets ``target`` once it exists.
    suffix : str, optional
        Suffix of the name that the file will have; by default that of ``target``.
    """
    with _reading(source):
        reading = os.open(source, os.O_RDONLY | _BINARY)
    try:
        writing = os.open(target, NEW, 0o600)
        made.append(target)
        try:
            cloned = _clone(reading, writing)
            if not cloned and (suffix or target.suffix) in _WEIGHTS and _hard_link(source, target):
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
    """Share the blocks of a file copy-on-write; only some file systems support this."""
    try:
        return fcntl is not None and fcntl.ioctl(writing, _FICLONE, reading) == 0
    except OSError:
        return False


def _hard_link(source: Path, target: Path) -> bool:
    """Replace the empty file ``target`` by a hard link; impossible across file systems."""
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


def _copy(reading: int, writing: int, source: Path, progress: CopyProgress | None) -> None:
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


def _place(output_dir: Path, relative: Path, change: FileChange, made: list[Path]) -> Saved:
    """Write one changed file, and its weights if they change, to the new directory."""
    target = output_dir / relative
    weights = None
    if change.weights is not None:
        weights = target.with_name(change.weights.path.name)
        with explained(weights, state=UNDONE), temporary(weights, change.weights.data(), None) as new:
            made.append(weights)
            new.replace(weights)
    with explained(target, state=UNDONE):
        before = _unchanged(change.path, change.original)
        made.append(target)
        with temporary(target, change.data, before) as new:
            notes = change.check(new, weights) if change.check is not None else ()
            new.replace(target)
    flush_directory(target)
    return Saved(target, None, notes)
