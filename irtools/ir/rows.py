"""Read the elements of chosen tokens from a constant in a ``.bin``, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from irtools.errors import ExportError, unreadable
from irtools.ir.constants import ELEMENT_BITS, Constant, byte_size
from irtools.ir.reading import open_file

if TYPE_CHECKING:
    from io import BufferedReader

    import numpy as np
    import numpy.typing as npt

    Elements: TypeAlias = npt.NDArray[np.uint8]

__all__ = ["Rows"]

_ELEMENTS = 4 << 20  # of one piece
_PACKED = (2, 4)  # bits of elements that share bytes, the first in the lowest bits


@dataclass(frozen=True, slots=True)
class Rows:
    """The elements of chosen tokens of one constant.

    Attributes
    ----------
    path : Path
        The ``.bin``.
    axis : int
        Axis of the constant that has one element per token.
    tokens : range or sequence of int
        Token ids in the order of the result.
    """

    path: Path
    constant: Constant
    axis: int
    tokens: Sequence[int]

    @property
    def readable(self) -> bool:
        """True if elements of this type can be told apart."""
        bits = ELEMENT_BITS.get(self.constant.element_type, 0)
        return (bits % 8 == 0 and bits > 0) or (self.constant.element_type not in ("u3", "u6") and bits in _PACKED)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        shape = self.constant.shape
        return (*shape[: self.axis], len(self.tokens), *shape[self.axis + 1 :])

    @property
    def size(self) -> int:
        """Bytes of the result."""
        return byte_size(self.constant.element_type, prod(self.shape)) or 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the result.

        Raises
        ------
        ExportError
            The file cannot be read, or is too short.
        """
        import numpy as np

        bits = ELEMENT_BITS[self.constant.element_type]
        rest: Elements = np.empty(0, np.uint8)
        try:
            with open_file(self.path) as file:
                for elements in self._elements(file, bits):
                    if bits >= 8:
                        yield elements.tobytes()
                        continue
                    joined = np.concatenate((rest, elements))
                    whole = len(joined) - len(joined) % (8 // bits)
                    rest = joined[whole:]
                    yield _packed(joined[:whole], bits)
        except OSError as error:
            raise unreadable(self.path, error, "; repair it, or get the export again") from error
        if len(rest):
            yield _packed(np.concatenate((rest, np.zeros(8 // bits - len(rest), np.uint8))), bits)

    def _elements(self, file: BufferedReader, bits: int) -> Iterator[Elements]:
        """Yield elements of at least 8 bits as bytes, smaller ones as one byte each."""
        import numpy as np

        shape = self.constant.shape
        inner, count = prod(shape[self.axis + 1 :]), shape[self.axis]
        if self.axis == 0:
            for first, number in _runs(self.tokens, max(1, _ELEMENTS // max(inner, 1))):
                yield self._read(file, first * inner, number * inner, bits)
            return
        chosen = np.asarray(self.tokens)
        for outer in range(prod(shape[: self.axis])):
            line = self._read(file, outer * count * inner, count * inner, bits)
            yield line.reshape(count, -1)[chosen].reshape(-1)

    def _read(self, file: BufferedReader, start: int, count: int, bits: int) -> Elements:
        import numpy as np

        first = self.constant.offset + start * bits // 8
        last = self.constant.offset + -(-(start + count) * bits // 8)
        file.seek(first)
        data = file.read(last - first)
        if len(data) < last - first:
            raise ExportError("the weights are truncated or another model's; get them again", path=self.path)
        elements = np.frombuffer(data, np.uint8)
        if bits >= 8:
            return elements
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        unpacked: Elements = ((elements[:, None] >> shifts) & np.uint8((1 << bits) - 1)).astype(np.uint8).reshape(-1)
        skipped = start % (8 // bits)
        return unpacked[skipped : skipped + count]


def _packed(elements: Elements, bits: int) -> bytes:
    import numpy as np

    lanes = elements.reshape(-1, 8 // bits) << np.arange(0, 8, bits, dtype=np.uint8)
    packed: Elements = np.bitwise_or.reduce(lanes, axis=1).astype(np.uint8)
    return packed.tobytes()


def _runs(tokens: Sequence[int], longest: int) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive tokens as pairs of the first token and the length."""
    first = number = 0
    for token in tokens:
        if number and token == first + number and number < longest:
            number += 1
            continue
        if number:
            yield first, number
        first, number = token, 1
    if number:
        yield first, number
