"""Read the constants of an IR from its ``.bin`` file."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from irtools.errors import ExportError, os_reason
from irtools.ir.constants import Constant
from irtools.ir.hashes import require_same_hash
from irtools.ir.pread import fetch_small
from irtools.ir.reading import open_file, provider_of
from irtools.ir.weights_file import require_weights

__all__ = ["Blob", "same_bytes", "same_file"]

# struct, not numpy: importing numpy takes 0.1 s.
_TYPES = ("i8", "u8", "boolean", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64")
_FORMATS = dict(zip(_TYPES, "bB?hHiIqQefd", strict=True))
_MOST = 64
_CHUNK = 1 << 22


class Blob:
    """The memory-mapped weights of one IR.

    Parameters
    ----------
    constants : iterable of Constant
        All constants of the IR.

    Attributes
    ----------
    fault : str or None
        Reason why some constants cannot be read.
    whole : bool
        False for a file at a URL, of which only constants with at most 64 elements are there.
    """

    def __init__(self, path: Path, constants: Iterable[Constant]) -> None:
        self.path = path
        self.fault: str | None = None
        self._content: mmap.mmap | bytes = b""
        self.whole = True
        constants = list(constants)
        needed = 0
        for constant in constants:
            needed = max(needed, constant.end)
            if constant.faults and self.fault is None:
                self.fault = f"{path.with_suffix('.xml')}: the constant {constant.name!r} has no {constant.faults[0]}"
        try:
            require_weights(path, needed, "the IR")
            with open_file(path) as file:
                # mmap refuses an empty file.
                if os.fstat(file.fileno()).st_size:
                    self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.whole = not fetch_small(path, constants)
        except ExportError as error:
            self.fault = str(error)
        except OSError as error:
            self.fault = f"{path}: {os_reason(error)}"

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


def same_bytes(a: Blob, b: Blob, pairs: Iterable[tuple[Constant, Constant]]) -> bool:
    """True if constants of equal size hold the same bytes."""
    for one, other in pairs:
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
    if provider_of(a) is not None or provider_of(b) is not None:
        return require_same_hash(a, b)
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
