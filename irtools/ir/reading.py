"""Read the files of an export: a pipe or device among them would be waited for for ever."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path

__all__ = ["LFS_POINTER", "chunks", "open_file", "read_file", "read_into"]

LFS_POINTER = b"version https://git-lfs"
"""How the file begins that a clone without Git-LFS leaves in place of the content."""
_CHUNK = 8 << 20


def open_file(path: Path) -> BufferedReader:
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


def chunks(file: BufferedReader | FileIO, size: int | None = None) -> Iterator[memoryview]:
    """The next ``size`` bytes of a file, or what there is; in pieces, each valid until the next is asked for.

    One buffer is used for all: with new memory for each piece, copying takes eight times as long.
    """
    buffer = memoryview(bytearray(_CHUNK if size is None else min(_CHUNK, size)))
    left = size
    while left is None or left:
        count = read_into(file, buffer if left is None else buffer[:left])
        if not count:
            return
        yield buffer[:count]
        left = None if left is None else left - count


def read_into(file: BufferedReader | FileIO, buffer: memoryview) -> int:
    """Fill a buffer from a file as far as one call does; 0 at its end."""
    return file.readinto(buffer) or 0
