"""Read the files of an export: a pipe or device among them would be waited for for ever."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_file", "read_file"]


def open_file(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one.

    Raises
    ------
    OSError
        It cannot be opened, or is no regular file.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # of a directory the system says what it is
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return path.open("rb")


def read_file(path: Path) -> bytes:
    """Bytes of a regular file. Raises as :func:`open_file` does."""
    with open_file(path) as file:
        return file.read()
