"""Low-level file writing: write a temporary file beside the target, flush it to the disk, rename it.

All files are written with :func:`temporary`. :mod:`irtools.ir.save` uses it for parts of an export,
:mod:`irtools.ir.output` for pictures and reports. Temporary names contain the process that made them, so that a later
run removes what a killed one has left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from irtools.errors import SaveError, os_reason

__all__ = [
    "NEW",
    "SUFFIX",
    "UNDONE",
    "abandoned",
    "beside",
    "explained",
    "flush_directory",
    "identity",
    "make_directories",
    "remove_made",
    "scratch",
    "stale",
    "sweep",
    "temporary",
    "write_all",
]

SUFFIX = ".irtools-tmp"
"""Suffix of temporary files."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""Flags of ``os.open`` for a new file."""
UNDONE = "what had been created was removed"
"""State after a failure to fill a new directory."""

_MAKER = re.compile(r"[.-]([0-9a-f]{4})-([0-9a-f]{1,8})-[0-9a-f]{8}(?:\.irtools-tmp)?$")
_LONGEST = 255 - len("..1234-12345678-12345678") - len(SUFFIX)
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
_IN_USE = (5, 32, 33, 1224)
"""Errors of Windows for a file that another process has open, locked or mapped; 5 is also a lack of permission."""


@contextlib.contextmanager
def explained(
    path: Path,
    failure: str = "cannot be written",
    *,
    state: str = "",
    advice: str | None = None,
    elsewhere: str = "an --output-dir",
) -> Iterator[None]:
    """Convert an ``OSError`` to a ``SaveError`` with the failure, the current state and advice.

    Parameters
    ----------
    failure : str
        Predicate of the message: what failed.
    state : str
        Current state of the files.
    advice : str, optional
        Advice that replaces the advice for the error number.
    elsewhere : str
        Phrase for another output location in the advice.
    """
    try:
        yield
    except OSError as error:
        if getattr(error, "winerror", None) in _IN_USE:
            advice = f"close the programs that have it open, or give {elsewhere}"
        advice = advice or _ADVICE.get(error.errno or 0, "fix that and try again").format(elsewhere=elsewhere)
        now = f" ({state})" if state else ""
        raise SaveError(f"{failure}: {os_reason(error)}{now}; {advice}", path=path) from error


def _stem(path: Path) -> str:
    """Prefix of the temporary files of a file, short enough for file systems with names of 255 bytes."""
    name = os.fsencode(path.name)
    if len(name) <= _LONGEST:
        return f".{path.name}."
    import hashlib  # imported late: few names are so long

    digest = hashlib.sha256(name).hexdigest()[:16]
    return f".{os.fsdecode(name[: _LONGEST - 17]).encode('utf-8', 'ignore').decode()}.{digest}."


def beside(path: Path) -> Path:
    """A new temporary name in the directory of a file."""
    return path.with_name(f"{_stem(path)}{_maker()}{SUFFIX}")


def _maker() -> str:
    """Text that names this process, and is new with each call."""
    return f"{_host()}-{os.getpid():x}-{os.urandom(4).hex()}"


def _host() -> str:
    # Not `socket.gethostname` and a hash: a process that has given up its rights may not be able to import them.
    name = os.uname().nodename if hasattr(os, "uname") else ""
    return f"{int.from_bytes(os.fsencode(name), 'big') % 65521:04x}"


def abandoned(name: str) -> bool:
    """True for a temporary name of a process that was running on this machine and has ended."""
    match = _MAKER.search(name)
    if match is None or match[1] != _host() or os.name != "posix":  # elsewhere, signal 0 ends a process
        return False
    process = int(match[2], 16)
    if process in (0, os.getpid()):
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it runs as another user
        return False
    try:  # a process that was killed keeps its number until its parent asks for its exit code
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except (OSError, IndexError):
        return False


def sweep(directory: Path) -> None:
    """Remove the temporary files that killed processes have left in a directory."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if entry.name.endswith(SUFFIX) and abandoned(entry.name) and not entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    Path(entry.path).unlink()


@contextlib.contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """A directory for temporary files, removed at the end; what killed processes have left is removed before."""
    import shutil  # imported late, with tempfile: few commands need it
    import tempfile

    root = Path(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        for entry in os.scandir(root):
            if entry.name.startswith("irtools-") and abandoned(entry.name) and _own_directory(entry):
                shutil.rmtree(entry.path, ignore_errors=True)
    directory = root / f"irtools-{purpose}-{_maker()}"
    try:
        directory.mkdir(0o700)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _own_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == _user()


def _user() -> int:
    """The user, as in ``st_uid``, which is 0 on Windows."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def stale(path: Path) -> Iterator[Path]:
    """Existing temporary files for ``path``."""
    for other in path.parent.iterdir():
        if other.name.startswith(_stem(path)) and other.name.endswith(SUFFIX):
            yield other


@contextlib.contextmanager
def temporary(path: Path, data: bytes | Iterable[bytes | memoryview], like: os.stat_result | None) -> Iterator[Path]:
    """Write a flushed temporary file beside ``path``; it is removed at the end unless it was renamed.

    Parameters
    ----------
    data : bytes or iterable of bytes or memoryview
        Content, in pieces if it is too large for memory.
    like : os.stat_result or None
        Status of the old file, or None without one. The new file gets its mode and, where permitted, its
        owner and extended attributes.
    """
    name = beside(path)
    try:  # starts before the file exists, because an interrupt can come between any two steps
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
    """Write all data; one call of ``os.write`` may write only a part of it."""
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
            with contextlib.suppress(OSError):  # some attributes may not be set, such as security.selinux
                os.setxattr(handle, name, os.getxattr(path, name))
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _extended_attributes(path: Path) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError:
        return []


def identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """Values by which a file that was replaced or written is recognised as changed."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def flush_directory(path: Path) -> None:
    """Make a rename in the directory of ``path`` survive a power failure.

    Raises
    ------
    SaveError
        The directory could not be flushed; the new file is there.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    with explained(
        path, "was written, but its directory could not be flushed to the disk", state="the new file is there"
    ):
        try:
            handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:  # the directory may be writable but not readable
            return
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot flush a directory
                raise
        finally:
            os.close(handle)


def make_directories(wanted: Iterable[Path], made: list[Path]) -> None:
    """Create directories with their missing parents, and append each new one to ``made``.

    Raises
    ------
    SaveError
        One of them is a dangling link.
    """
    for directory in wanted:
        # Not `mkdir(parents=True)`, which does not report which directories it created.
        missing = [parent for parent in (directory, *directory.parents) if not parent.exists()]
        for path in reversed(missing):
            if path.is_symlink():
                raise SaveError("is a link to nothing; remove it, or give another directory", path=path)
            path.mkdir()
            made.append(path)


def remove_made(made: Iterable[Path]) -> None:
    """Remove created files and directories, last first; a directory with other files in it stays."""
    for path in reversed(list(made)):
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
