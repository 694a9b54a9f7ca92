"""Write what irtools makes itself: pictures, reports. Parts of an export go through :mod:`irtools.ir.save`."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from irtools.errors import SaveError

__all__ = ["write_output"]

_ADVICE = {
    errno.EACCES: "get write permission for its directory, or give another -o",
    errno.EPERM: "get write permission for its directory, or give another -o",
    errno.EROFS: "give an -o on a file system that can be written",
    errno.ENOSPC: "free some space, or give an -o on another disk",
    errno.EDQUOT: "free some space, or give an -o on another disk",
    errno.ENOENT: "create its directory first",
    errno.ENOTDIR: "a file is where its directory should be; give another -o",
    errno.EISDIR: "name a file in it",
    errno.ENAMETOOLONG: "give a shorter name",
}


def write_output(path: Path, data: bytes) -> Path:
    """Write a file in one step: the old one or the new one is there, whole, whatever happens.

    A symbolic link is followed, the mode of an old file kept. A device or pipe is simply written to.

    Parameters
    ----------
    path : Path
    data : bytes

    Returns
    -------
    Path
        As given.

    Raises
    ------
    SaveError
        It could not be written; an old file is as it was.
    """
    try:
        where = path.resolve()
        old = where.stat() if where.exists() else None
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if old is not None and not stat.S_ISREG(old.st_mode):
            path.write_bytes(data)
            return path
        _replace(where, data, old)
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        number = getattr(error, "errno", None) or errno.ELOOP
        advice = _ADVICE.get(number, "see to that and try again")
        raise SaveError(f"cannot be written: {os.strerror(number).lower()}; {advice}", path=path) from error
    return path


def _replace(where: Path, data: bytes, old: os.stat_result | None) -> None:
    if old is not None and not os.access(where, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    temporary = where.with_name(f".{where.name[:100]}.{secrets.token_hex(4)}.irtools-tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            temporary.chmod(stat.S_IMODE(old.st_mode))
        temporary.replace(where)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
