"""The ``.bin`` beside an ``.xml``: whether it exists, is a Git-LFS pointer, is long enough, and has rows of irtools."""

from __future__ import annotations

import struct
from pathlib import Path

from irtools.errors import ExportError, IrtoolsError, os_reason
from irtools.ir.reading import is_lfs_pointer, open_file

__all__ = ["FOOTER_SIZE", "added_rows", "footer", "require_weights"]

_FOOTER = struct.Struct("<16sQQ")
_MAGIC = b"irtools.own-head"
FOOTER_SIZE = _FOOTER.size
"""Bytes of the footer of a file to which rows were added."""


def footer(before: int, end: int) -> bytes:
    """Bytes that end a file to which rows were added, from its former size ``before`` to the offset ``end``."""
    return _FOOTER.pack(_MAGIC, before, end + _FOOTER.size)


def added_rows(path: Path) -> range | None:
    """Bytes of a ``.bin`` that hold added rows, by its footer; None if it has none.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _FOOTER.size))
        data = file.read()
    if len(data) < _FOOTER.size:
        return None
    magic, before, whole = _FOOTER.unpack(data)
    end = size - _FOOTER.size
    return range(before, end) if magic == _MAGIC and whole == size and before <= end else None


def require_weights(
    path: Path, needed: int, reader: str, *, otherwise: str = "", error: type[IrtoolsError] = ExportError
) -> None:
    """Require that a ``.bin`` exists and is long enough.

    Parameters
    ----------
    needed : int
        Minimum size in bytes.
    reader : str
        Subject of the message: what needs the weights.
    otherwise : str
        Alternative advice at the end of the message: ``, or ...``.
    error : type
        Exception to raise if the file is missing, a Git-LFS pointer, too short or unreadable.
    """
    try:
        pointer = is_lfs_pointer(path)
        with open_file(path) as file:
            size = file.seek(0, 2)
    except FileNotFoundError:
        message = "the weights are missing; get them and put them beside the .xml"
    except OSError as fault:
        message = f"the weights cannot be read ({os_reason(fault)}); repair the file, or get it again"
    else:
        if pointer:
            message = "a Git-LFS pointer instead of the weights; run `git lfs pull` to get them"
        elif size < needed:
            wrong = "the weights are truncated or another model's; get them again"
            message = f"has {size} bytes, and {reader} needs the first {needed}: {wrong}"
        else:
            return
    raise error(f"{message}{otherwise}", path=path)
