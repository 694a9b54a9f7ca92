"""A change to one IR that has been worked out but not written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Patch"]


@dataclass(frozen=True, slots=True)
class Patch:
    """What a surgery would do to one file. Nothing has been written.

    Attributes
    ----------
    path : Path
        The ``.xml``.
    status : str
        ``would-write`` or ``unchanged``.
    old, new : str or None
        The annotation before and after; None for none.
    original, data : bytes
        The file before and after.
    notes : tuple of str
        Worth telling the user, such as an early form that is upgraded.
    """

    path: Path
    status: str
    old: str | None
    new: str | None
    original: bytes = field(repr=False)
    data: bytes = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the bytes differ."""
        return self.data != self.original

    def diff(self) -> str:
        """Unified diff of the file, ``""`` without a change."""
        raise NotImplementedError
