"""Write output of irtools: pictures, reports, baselines. For parts of an export see :mod:`irtools.ir.save`."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from irtools.ir.files import explained, flush_directory, temporary

__all__ = ["write_output"]


def write_output(path: Path, data: bytes) -> Path:
    """Write a file atomically: after any failure the complete old or the complete new file is there.

    A symbolic link is followed. The new file keeps the mode and, where permitted, the owner and extended
    attributes of the old file. A device or pipe is written directly. The path is returned unchanged.

    Raises
    ------
    SaveError
        The file could not be written. An old file is unchanged unless the message says that it was replaced.
    """
    with explained(path, elsewhere="another file"):
        target = Path(os.path.realpath(path))
        old = None
        with contextlib.suppress(FileNotFoundError):
            old = target.stat()
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if old is not None and not stat.S_ISREG(old.st_mode):
            path.write_bytes(data)
            return path
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with temporary(target, data, old) as new:
            new.replace(target)
    flush_directory(target)
    return path
