"""How irtools writes a file: under a temporary name beside it, flushed to the disk, then renamed.

Everything that is written goes through :func:`temporary`: parts of an export by way of
:mod:`irtools.ir.save`, pictures and reports by way of :mod:`irtools.ir.output`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from irtools.errors import SaveError

__all__ = [
    "NEW",
    "SUFFIX",
    "beside",
    "explained",
    "flush_directory",
    "make_directories",
    "remove_made",
    "stale",
    "temporary",
    "write_all",
]

SUFFIX = ".irtools-tmp"
"""How the names of temporary files end."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""How a new file is opened."""

_LONGEST = 255 - len("..12345678") - len(SUFFIX)
_ADVICE = {
    errno.EACCES: "get write permission for its directory, or give {elsewhere}",
    errno.EPERM: "get write permission for its directory, or give {elsewhere}",
    errno.EROFS: "give {elsewhere} on a file system that can be written",
    errno.ENOSPC: "free some space, or give {elsewhere} on another disk",
    errno.EDQUOT: "free some space, or give {elsewhere} on another disk",
    errno.EIO: "the disk reports an error: check it, or give {elsewhere} on another one",
    errno.ENOENT: "create its directory first",
    errno.ENOTDIR: "a file is where its directory should be; give {elsewhere}",
    errno.EISDIR: "name a file in it",
    errno.ENAMETOOLONG: "give a shorter name",
}


@contextlib.contextmanager
def explained(
    path: Path,
    what: str = "cannot be written",
    *,
    state: str = "",
    advice: str | None = None,
    elsewhere: str = "an --output-dir",
) -> Iterator[None]:
    """Turn an operating system error into a sentence: what failed, what there is now, what to do.

    Parameters
    ----------
    path : Path
    what : str
        What failed.
    state : str
        What there is now.
    advice : str, optional
        Instead of what the error number suggests.
    elsewhere : str
        How to name another place to write to.

    Raises
    ------
    SaveError
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        known = _ADVICE.get(error.errno or 0, "see to that and try again").format(elsewhere=elsewhere)
        now = f" ({state})" if state else ""
        raise SaveError(f"{what}: {reason}{now}; {advice or known}", path=path) from error


def _stem(path: Path) -> str:
    """What the names of the temporary files for a file begin with: no file system takes more than 255 bytes."""
    name = os.fsencode(path.name)
    if len(name) <= _LONGEST:
        return f".{path.name}."
    import hashlib  # few names need it

    digest = hashlib.sha256(name).hexdigest()[:16]
    return f".{os.fsdecode(name[: _LONGEST - 17]).encode('utf-8', 'ignore').decode()}.{digest}."


def beside(path: Path) -> Path:
    """A new temporary name in the directory of a file."""
    return path.with_name(f"{_stem(path)}{os.urandom(4).hex()}{SUFFIX}")


def stale(path: Path) -> Iterator[Path]:
    """Temporary files for ``path`` that are there."""
    for other in path.parent.iterdir():
        if other.name.startswith(_stem(path)) and other.name.endswith(SUFFIX):
            yield other


@contextlib.contextmanager
def temporary(path: Path, data: bytes | Iterable[bytes | memoryview], like: os.stat_result | None) -> Iterator[Path]:
    """A flushed file with the new content beside ``path``; what is not renamed away is removed.

    Parameters
    ----------
    path : Path
    data : bytes or iterable of bytes or memoryview
        In pieces what is too large to be held at once.
    like : os.stat_result or None
        Of the old file, whose mode it gets, and owner and extended attributes where that is
        allowed; None: there is no old file.
    """
    name = beside(path)
    try:  # before it is created: an interrupt can come between any two steps
        handle = os.open(name, NEW, 0o600 if like is not None else 0o666)
        try:
            for piece in (data,) if isinstance(data, bytes) else data:
                write_all(handle, piece)
            if like is not None:
                _keep_permissions(handle, path, like)
            os.fsync(handle)
        finally:
            os.close(handle)
        yield name
    finally:
        with contextlib.suppress(OSError):
            name.unlink()


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write all of it: one call may write less than it was given."""
    rest = memoryview(data)
    while rest:
        written = os.write(handle, rest)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = rest[written:]


def _keep_permissions(handle: int, path: Path, like: os.stat_result) -> None:
    if hasattr(os, "fchown") and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(OSError):
            os.fchown(handle, like.st_uid, like.st_gid)
    if hasattr(os, "listxattr"):
        for name in _extended_attributes(path):
            with contextlib.suppress(OSError):  # one that may not be set does not stop the others
                os.setxattr(handle, name, os.getxattr(path, name))
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _extended_attributes(path: Path) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError:
        return []


def flush_directory(path: Path) -> None:
    """Make a rename in the directory of ``path`` survive a power failure.

    Raises
    ------
    SaveError
        It could not be flushed; the new file is there.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    with explained(
        path, "was written, but its directory could not be flushed to the disk", state="the new file is there"
    ):
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


def make_directories(wanted: Iterable[Path], made: list[Path]) -> None:
    """Make directories and those above them that are missing; each is added to ``made``.

    Raises
    ------
    SaveError
        One of them is a link to nothing.
    OSError
    """
    for directory in wanted:
        missing = [parent for parent in (directory, *directory.parents) if not parent.exists()]
        for path in reversed(missing):
            if path.is_symlink():
                raise SaveError("is a link to nothing; remove it, or give another directory", path=path)
            path.mkdir()
            made.append(path)


def remove_made(made: Iterable[Path]) -> None:
    """Remove what has been made, last first; a directory that somebody else has put something into stays."""
    for path in reversed(list(made)):
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
