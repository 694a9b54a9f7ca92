"""Read constants from the ``.bin`` beside an IR, as far as comparing needs them."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from pathlib import Path

from irtools.ir.constants import Constant
from irtools.ir.reading import open_file

__all__ = ["Blob", "same_bytes", "same_file"]

_FORMATS = {
    "i8": "b",
    "u8": "B",
    "boolean": "?",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
    "f16": "e",
    "f32": "f",
    "f64": "d",
}
_INTEGERS = frozenset(("i8", "u8", "boolean", "i16", "u16", "i32", "u32", "i64", "u64"))
_MOST = 64
_CHUNK = 1 << 22


class Blob:
    """The weights of one IR, mapped and not read.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    fault : str or None
        Why there are no values to read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault: str | None = None
        self._content: mmap.mmap | bytes = b""
        try:
            with open_file(path) as file:
                # An empty file cannot be mapped.
                if file.read(1):
                    self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            self.fault = f"{path.name} cannot be read: {(error.strerror or type(error).__name__).lower()}"

    def __len__(self) -> int:
        return len(self._content)

    def holds(self, constant: Constant) -> bool:
        """Whether all bytes of a constant are there."""
        return not constant.faults and constant.end <= len(self)

    def piece(self, start: int, size: int) -> bytes:
        """Some bytes."""
        return self._content[start : start + size]

    def numbers(self, constant: Constant, *, floats: bool = False) -> tuple[float, ...] | None:
        """The few numbers of a small constant; None for a large one, or one of another type."""
        kind = constant.element_type
        code = _FORMATS.get(kind)
        if code is None or constant.elements > _MOST or not (floats or kind in _INTEGERS) or not self.holds(constant):
            return None
        form = f"<{constant.elements}{code}"
        if struct.calcsize(form) != constant.size:
            return None
        return struct.unpack(form, self.piece(constant.offset, constant.size))


def same_bytes(a: Blob, b: Blob, pairs: Iterable[tuple[Constant, Constant]]) -> bool | None:
    """Whether constants of equal size hold the same bytes; None when some cannot be read."""
    for one, other in pairs:
        if not (a.holds(one) and b.holds(other)):
            return None
        for start in range(0, one.size, _CHUNK):
            size = min(_CHUNK, one.size - start)
            if a.piece(one.offset + start, size) != b.piece(other.offset + start, size):
                return False
    return True


def same_file(a: Path, b: Path) -> bool:
    """Whether two files hold the same bytes.

    Raises
    ------
    OSError
        One cannot be read.
    """
    if a.samefile(b):
        return True
    if a.stat().st_size != b.stat().st_size:
        return False
    with open_file(a) as one, open_file(b) as other:
        while piece := one.read(_CHUNK):
            if piece != other.read(_CHUNK):
                return False
    return True
