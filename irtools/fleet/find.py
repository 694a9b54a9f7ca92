"""Exports below directories, found by their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["find"]


def find(paths: Iterable[Path], recursive: bool = False) -> Iterator[Path]:
    """Find the exports that paths and patterns stand for, in the order of the paths, each once."""
    yield from paths
