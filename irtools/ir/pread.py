"""Read single byte ranges of a ``.bin``, within a limit on the bytes that are read in all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from irtools.ir.constants import Constant, byte_size
from irtools.ir.numbers import INTEGER_CODES, unpack
from irtools.ir.reading import is_lfs_pointer, provider_of

__all__ = ["Allowance", "WeightsReader", "fetch_small"]

_SMALL = 64


@dataclass(slots=True)
class Allowance:
    """Bytes that may still be read from the files of one export; all readers of the export share it."""

    left: int


@dataclass(slots=True, eq=False)
class WeightsReader:
    """Byte ranges of one ``.bin``, each read once.

    Attributes
    ----------
    size : int
        Bytes in the file; 0 for a file that is missing, unreadable or a Git-LFS pointer.
    """

    path: Path
    allowance: Allowance
    size: int = field(init=False)
    _pieces: dict[tuple[int, int], bytes] = field(default_factory=dict, init=False, repr=False)
    _descriptor: int = field(default=-1, init=False, repr=False)

    def __post_init__(self) -> None:
        readable = self.path.is_file() and not is_lfs_pointer(self.path)
        self.size = self.path.stat().st_size if readable else 0

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, offset: int, size: int) -> bytes | None:
        """A range of bytes; None if the file does not have it, or the allowance is used up."""
        known = self._pieces.get((offset, size))
        if known is not None:
            return known
        if not size or offset + size > self.size or size > self.allowance.left:
            return None
        self.allowance.left -= size
        provider = provider_of(self.path)
        try:
            if provider is not None:
                provider.fill(os.fspath(self.path), [(offset, offset + size)])
        except OSError:
            return None
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            piece = _read_at(self._descriptor, size, offset)
        except OSError:
            self.size = 0
            return None
        if len(piece) < size:
            return None
        self._pieces[offset, size] = piece
        return piece

    def expect(self, ranges: Iterable[tuple[int, int]], most: int | None = None) -> None:
        """Announce ranges, each an offset and a size, that will be read: a file at a URL is then asked for all at once.

        Those beyond the allowance are left out, as :meth:`read` does it, and beyond ``most`` bytes.
        """
        provider = provider_of(self.path) if self.size else None
        if provider is None:
            return
        left, wanted = min(self.allowance.left, most or self.allowance.left), []
        for offset, size in dict.fromkeys(ranges):
            if (offset, size) not in self._pieces and 0 < size <= left and offset + size <= self.size:
                left -= size
                wanted.append((offset, offset + size))
        with suppress(OSError):  # each read meets it again
            provider.fill(os.fspath(self.path), wanted)

    def expect_integers(self, constants: Iterable[Constant], most: int) -> None:
        """Announce integer constants, as :meth:`expect` does it with ranges."""
        self.expect(((one.offset, one.size) for one in constants if _has_integers(one)), most)

    def integers(self, constant: Constant, most: int) -> tuple[int, ...] | None:
        """Values of an integer constant with at most ``most`` elements; None if they cannot be read."""
        if constant.element_type not in INTEGER_CODES or constant.faults or constant.elements > most:
            return None
        if not constant.elements:
            return ()
        piece = self.read(constant.offset, constant.size) if _has_integers(constant) else None
        return None if piece is None else unpack(piece, constant.element_type)


def fetch_small(path: Path, constants: Iterable[Constant]) -> bool:
    """Get the constants of a file at a URL that have at most 64 elements; False for a file that is whole anyway.

    Raises
    ------
    NotFetchedError
        They cannot be fetched.
    """
    provider = provider_of(path)
    if provider is None:
        return False
    small = [(one.offset, one.end) for one in constants if not one.faults and one.elements <= _SMALL]
    provider.fill(os.fspath(path), small)
    return True


def _has_integers(constant: Constant) -> bool:
    kind = constant.element_type
    return kind in INTEGER_CODES and not constant.faults and constant.size == byte_size(kind, constant.elements)


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    if not hasattr(os, "pread"):  # Windows
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)
    return os.pread(descriptor, size, offset)
