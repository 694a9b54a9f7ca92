"""Read the constants of an IR from its ``.bin`` file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from pathlib import Path

from irtools.errors import ExportError
from irtools.ir.constants import Constant
from irtools.ir.reading import open_file
from irtools.ir.weights_file import require_weights

__all__ = ["Blob", "same_bytes", "same_file"]

# struct, not numpy: importing numpy takes 0.1 s.
_TYPES = ("i8", "u8", "boolean", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64")
_FORMATS = dict(zip(_TYPES, "bB?hHiIqQefd", strict=True))
_MOST = 64
_CHUNK = 1 << 22


class Blob:
    """The memory-mapped weights of one IR.

    Attributes
    ----------
    fault : str or None
        Reason for unreadable weights.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault: str | None = None
        self._content: mmap.mmap | bytes = b""
        try:
            require_weights(path, 0, "the IR")
            with open_file(path) as file:
                # mmap refuses an empty file.
                if file.read(1):
                    self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ExportError) as error:
            self.fault = str(error)

    def require(self, needed: int) -> None:
        """Record a fault if the file is shorter than the IR needs."""
        try:
            require_weights(self.path, needed, "the IR")
        except ExportError as error:
            self.fault = str(error)

    def ignore(self) -> None:
        """Read no constant: those of the other side cannot be read."""
        self._content = b""

    def __len__(self) -> int:
        return len(self._content)

    def holds(self, constant: Constant) -> bool:
        """True if the file has all bytes of a constant."""
        return not constant.faults and constant.end <= len(self)

    def piece(self, start: int, size: int) -> bytes:
        """A range of bytes."""
        return self._content[start : start + size]

    def numbers(self, constant: Constant, *, floats: bool = False) -> tuple[float, ...] | None:
        """Values of a constant with at most 64 elements; None for a larger one, or for an unsupported type."""
        code = _FORMATS.get(constant.element_type)
        if code is None or constant.elements > _MOST or (code in "efd" and not floats) or not self.holds(constant):
            return None
        form = f"<{constant.elements}{code}"
        if struct.calcsize(form) != constant.size:
            return None
        return struct.unpack(form, self.piece(constant.offset, constant.size))


def same_bytes(a: Blob, b: Blob, pairs: Iterable[tuple[Constant, Constant]]) -> bool | None:
    """True if constants of equal size hold the same bytes; None if some bytes cannot be read."""
    for one, other in pairs:
        if not (a.holds(one) and b.holds(other)):
            return None
        for start in range(0, one.size, _CHUNK):
            size = min(_CHUNK, one.size - start)
            if a.piece(one.offset + start, size) != b.piece(other.offset + start, size):
                return False
    return True


def same_file(a: Path, b: Path) -> bool:
    """True if two files hold the same bytes.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    # Not filecmp.cmp: it reads 8 KiB at a time, which is slow for weights of many GiB.
    if a.samefile(b):
        return True
    if a.stat().st_size != b.stat().st_size:
        return False
    with open_file(a) as one, open_file(b) as other:
        while piece := one.read(_CHUNK):
            if piece != other.read(_CHUNK):
                return False
    return True
