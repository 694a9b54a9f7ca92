"""The one module that writes files.

A file is replaced in one step: a temporary file beside it is written in full, flushed to the
disk, judged by a check if there is one, and renamed over the old file. Weights are never opened
for writing; into another directory they go as clones, hard links or copies.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from irtools.errors import SaveError
from irtools.ir.listing import list_export, require_empty

try:
    import fcntl
except ImportError:  # Windows: changes are still noticed, and nothing is cloned
    fcntl = None  # type: ignore[assignment]

__all__ = ["Change", "Check", "Progress", "Saved", "save_export", "save_file"]

Check = Callable[[Path], tuple[str, ...]]
"""Judges the temporary file; returns notes, or raises ``CheckError``."""
Progress = Callable[[Path, int, int], None]
"""Called while a file is copied: file, bytes done, bytes in all."""

_SUFFIX = ".irtools-tmp"
_WEIGHTS = (".bin", ".safetensors", ".gguf")
_UNDONE = "what had been created was removed"
_CHUNK = 8 << 20
_FICLONE = 0x40049409
_BINARY = getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
_ADVICE = {
    errno.EACCES: "get write permission for its directory, or give --output-dir",
    errno.EPERM: "get write permission for its directory, or give --output-dir",
    errno.EROFS: "give an --output-dir on a file system that can be written",
    errno.ENOSPC: "free some space, or give an --output-dir on another disk",
    errno.EDQUOT: "free some space, or give an --output-dir on another disk",
    errno.EIO: "the disk reports an error: check it, or give an --output-dir on another one",
}


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
    SaveError
        The file could not be written, changed meanwhile, or another irtools is at work on it.
    """
    path = change.path
    with _explained(path), _lock(path) as locked:
        before = _unchanged(change)
        if locked:
            _remove_stale(path)
        link = path.resolve() if path.is_symlink() else None
        with _temporary(path, change.data, before) as temporary:
            notes = change.check(temporary) if change.check is not None else ()
            if _identity(path.stat()) != _identity(before):
                raise _changed(path)
            temporary.replace(path)
    _flush_directory(path)
    return Saved(path, link, notes)


@contextlib.contextmanager
def _explained(
    path: Path, what: str = "cannot be written", state: str = "the old file is as it was", advice: str | None = None
) -> Iterator[None]:
    """Turn an operating system error into a sentence: what failed, what there is now, what to do."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        advice = advice or _ADVICE.get(error.errno or 0, "see to that and try again")
        raise SaveError(f"{what}: {reason} ({state}); {advice}", path=path) from error


def _reading(path: Path) -> contextlib.AbstractContextManager[None]:
    """The same for what is only read, while a new directory is being filled."""
    return _explained(path, "cannot be read", _UNDONE, "repair it, or get the export again")


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
        for stale in path.parent.iterdir():
            if stale.name.startswith(f".{path.name}.") and stale.name.endswith(_SUFFIX):
                stale.unlink()


@contextlib.contextmanager
def _temporary(path: Path, data: bytes, like: os.stat_result) -> Iterator[Path]:
    """A flushed file with the new content beside ``path``; what is not renamed away is removed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
    handle = os.open(temporary, _NEW, 0o600)
    try:
        try:
            _write(handle, data)
            _keep_permissions(handle, path, like)
            os.fsync(handle)
        finally:
            os.close(handle)
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write(handle: int, data: bytes | memoryview) -> None:
    """Write all of it: one call may write less than it was given."""
    rest = memoryview(data)
    while rest:
        written = os.write(handle, rest)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = rest[written:]


def _keep_permissions(handle: int, path: Path, like: os.stat_result) -> None:
    """Give a new file the mode of the old one; owner and extended attributes where allowed."""
    if hasattr(os, "fchown") and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(OSError):
            os.fchown(handle, like.st_uid, like.st_gid)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(path):
                os.setxattr(handle, name, os.getxattr(path, name))
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _flush_directory(path: Path) -> None:
    """Make a rename in the directory of ``path`` survive a power failure."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with _explained(path, "was replaced, but its directory could not be flushed to the disk", "the new file is there"):
        try:
            handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:  # may be written but not read
            return
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system can
                raise
        finally:
            os.close(handle)


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
    SaveError
        The directory is not empty or lies inside the export, or a file could not be read or written.
    """
    with _explained(output_dir, state="nothing was created"):
        require_empty(output_dir, directory)
    with _reading(directory):
        folders, files = list_export(directory, leave_out=_SUFFIX)
    changed = {change.path.relative_to(directory): change for change in changes}
    made: list[Path] = []
    try:
        with _explained(output_dir, state=_UNDONE):
            _make_directories([output_dir, *(output_dir / folder for folder in folders)], made)
        for relative, source in files.items():
            if relative not in changed:
                with _explained(output_dir / relative, state=_UNDONE):
                    _transfer(source, output_dir / relative, made, progress)
        return tuple(_place(output_dir / relative, change, made) for relative, change in changed.items())
    except BaseException:
        _remove(made)
        raise


def _make_directories(wanted: list[Path], made: list[Path]) -> None:
    for directory in wanted:
        missing = [parent for parent in (directory, *directory.parents) if not parent.exists()]
        for path in reversed(missing):
            path.mkdir()
            made.append(path)


def _transfer(source: Path, target: Path, made: list[Path], progress: Progress | None) -> None:
    """Clone, hard-link (weights only) or copy one file."""
    with _reading(source):
        reading = os.open(source, os.O_RDONLY | _BINARY)
    try:
        writing = os.open(target, _NEW, 0o600)
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
    link = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_SUFFIX}")
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
    while True:
        with _reading(source):
            chunk = os.read(reading, _CHUNK)
        if not chunk:
            return
        _write(writing, chunk)
        done += len(chunk)
        if progress is not None:
            progress(source, done, total)


def _place(target: Path, change: Change, made: list[Path]) -> Saved:
    """Write one changed file into the new directory."""
    with _explained(target, state=_UNDONE):
        before = _unchanged(change)
        made.append(target)
        with _temporary(target, change.data, before) as temporary:
            notes = change.check(temporary) if change.check is not None else ()
            temporary.replace(target)
    _flush_directory(target)
    return Saved(target, None, notes)


def _remove(made: list[Path]) -> None:
    """Undo, last first; a directory that somebody else has put something into stays."""
    for path in reversed(made):
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
