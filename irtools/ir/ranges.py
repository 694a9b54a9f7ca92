"""Copy selected constants of a ``.bin`` to a new one, range by range.

Shared and overlapping ranges stay shared and overlapping, and every constant keeps its offset within a cache
line. Memory use is a few megabytes for files of any size.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from irtools.errors import ExportError, unreadable
from irtools.ir.constants import Constant
from irtools.ir.reading import chunks, open_file
from irtools.ir.scan import Span

__all__ = ["Ranges"]

_LINE = 64  # bytes of a cache line; OpenVINO itself does not align constants


@dataclass(frozen=True, slots=True)
class Ranges:
    """Mapping from byte ranges of a ``.bin`` to offsets in a new one.

    Attributes
    ----------
    old : tuple of Span
        Disjoint byte ranges of the old file, in order.
    new : tuple of int
        Start of each range in the new file.
    """

    old: tuple[Span, ...]
    new: tuple[int, ...]

    @classmethod
    def of(cls, constants: Iterable[Constant]) -> Ranges:
        """Ranges that cover the given constants."""
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
        """Size of the new file in bytes."""
        return self.new[-1] + self.old[-1].end - self.old[-1].start if self.old else 0

    @property
    def needed(self) -> int:
        """Minimum size of the old file in bytes."""
        return self.old[-1].end if self.old else 0

    def moved(self, offset: int) -> int:
        """Offset in the new file of a byte of the old file."""
        at = bisect.bisect_right(self.old, offset, key=lambda span: span.start) - 1
        return self.new[at] + offset - self.old[at].start

    def read(self, path: Path, progress: Callable[[int, int], None] | None = None) -> Iterator[bytes | memoryview]:
        """Yield the content of the new file, from the old one, in pieces; each is valid until the next one is read.

        Parameters
        ----------
        progress : callable, optional
            Called with the bytes done and the total bytes.

        Raises
        ------
        ExportError
            The file cannot be read, or was truncated meanwhile.
        """
        if not self.old:
            return
        position = 0
        try:
            with open_file(path) as file:
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
                        raise ExportError("was truncated while it was copied; run the command again", path=path)
        except OSError as error:
            raise unreadable(path, error, "; repair it, or get the export again") from error
