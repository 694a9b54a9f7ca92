"""Read regular files of an export; a pipe or device is refused because reading it could block forever."""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

__all__ = ["LFS_POINTER", "chunks", "is_lfs_pointer", "open_file", "read_file", "read_into", "read_json"]

LFS_POINTER = b"version https://git-lfs"
"""First bytes of a Git-LFS pointer, which a clone without Git-LFS contains instead of the file."""
_CHUNK = 8 << 20


def is_lfs_pointer(path: Path) -> bool:
    """True if a file is the pointer that a clone without Git LFS leaves in place of the content."""
    try:
        with open_file(path) as file:
            return file.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:
        return False


def open_file(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one.

    Raises
    ------
    OSError
        The file cannot be opened, or is not a regular file.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # `open` reports a directory itself
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return path.open("rb")


def read_file(path: Path) -> bytes:
    """Bytes of a regular file; raises the same errors as :func:`open_file`."""
    with open_file(path) as file:
        return file.read()


def read_json(path: Path) -> Any:
    """Content of a JSON file; None if the file does not exist.

    Raises
    ------
    ValueError
        The file is not valid JSON in UTF-8.
    OSError
        The file cannot be read.
    """
    try:
        return json.loads(read_file(path))
    except FileNotFoundError:
        return None
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def chunks(file: BufferedReader | FileIO, size: int | None = None) -> Iterator[memoryview]:
    """Yield up to ``size`` bytes of a file in pieces; each is valid until the next one is read.

    All pieces share one buffer: with a new buffer for each, copying takes eight times as long.
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
    """Read into a buffer with one call; returns the byte count, 0 at the end of the file."""
    return file.readinto(buffer) or 0
