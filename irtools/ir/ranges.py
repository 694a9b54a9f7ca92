"""Copy some constants of a ``.bin`` into a new one, range by range.

What is shared or overlaps in the old file does so in the new one, and every constant keeps its offset
within a cache line. A few megabytes are held at a time, however large the files are.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from irtools.errors import ExportError
from irtools.ir.constants import Constant
from irtools.ir.reading import chunks, open_file
from irtools.ir.scan import Span

__all__ = ["Ranges"]

_LINE = 64  # bytes of a cache line; OpenVINO itself writes one constant after the other


@dataclass(frozen=True, slots=True)
class Ranges:
    """Which bytes of a ``.bin`` go where in a new one.

    Attributes
    ----------
    old : tuple of Span
        Bytes of the old file, in order, none twice.
    new : tuple of int
        Where each of them begins in the new file.
    """

    old: tuple[Span, ...]
    new: tuple[int, ...]

    @classmethod
    def of(cls, constants: Iterable[Constant]) -> Ranges:
        """The bytes of some constants."""
        old: list[Span] = []
        for start, end in sorted({(constant.offset, constant.end) for constant in constants}):
            if old and start <= old[-1].end:
                old[-1] = Span(old[-1].start, max(end, old[-1].end))
            else:
                old.append(Span(start, end))
        new, position = [], 0
        for start, end in old:
            position += (start - position) % _LINE
            new.append(position)
            position += end - start
        return cls(tuple(old), tuple(new))

    @property
    def size(self) -> int:
        """Bytes of the new file."""
        return self.new[-1] + self.old[-1].end - self.old[-1].start if self.old else 0

    @property
    def needed(self) -> int:
        """Bytes that the old file must have."""
        return self.old[-1].end if self.old else 0

    def moved(self, offset: int) -> int:
        """Where a byte of the old file is in the new one."""
        at = bisect.bisect_right(self.old, offset, key=lambda span: span.start) - 1
        return self.new[at] + offset - self.old[at].start

    def read(self, path: Path, progress: Callable[[int, int], None] | None = None) -> Iterator[bytes | memoryview]:
        """Content of the new file, a few megabytes at a time; each piece is valid until the next.

        Parameters
        ----------
        path : Path
            The old ``.bin``.
        progress : callable, optional
            Called with the bytes done and the bytes in all.

        Raises
        ------
        ExportError
            The file cannot be read, or has become shorter.
        """
        if not self.old:
            return
        position = 0
        with _explained(path), open_file(path) as file:
            for (start, end), begin in zip(self.old, self.new, strict=True):
                if begin > position:
                    yield bytes(begin - position)
                position = begin
                file.seek(start)
                for chunk in chunks(file, end - start):
                    yield chunk
                    position += len(chunk)
                    if progress is not None:
                        progress(position, self.size)
                if position < begin + end - start:
                    raise ExportError("has become shorter while it was copied; run the command again", path=path)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ExportError(f"cannot be read: {reason}; repair it, or get the export again", path=path) from error
