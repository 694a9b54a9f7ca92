"""Write what irtools makes itself: pictures, reports, baselines. Parts of an export: :mod:`irtools.ir.save`."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from irtools.ir.files import explained, flush_directory, temporary

__all__ = ["write_output"]


def write_output(path: Path, data: bytes) -> Path:
    """Write a file in one step: the old one or the new one is there, whole, whatever happens.

    A symbolic link is followed; mode, and where allowed owner and extended attributes, of an old
    file are kept. A device or pipe is simply written to.

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
        It could not be written; an old file is as it was, unless the message says that it was replaced.
    """
    with explained(path, elsewhere="another file"):
        where = Path(os.path.realpath(path))
        old = _status(where)
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if old is not None and not stat.S_ISREG(old.st_mode):
            path.write_bytes(data)
            return path
        if old is not None and not os.access(where, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with temporary(where, data, old) as new:
            new.replace(where)
    flush_directory(where)
    return path


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
