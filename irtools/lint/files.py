"""Predicates on files that several rules share."""

from __future__ import annotations

from pathlib import Path

from irtools.ir.reading import LFS_POINTER, open_file

__all__ = ["claims_to_be_ir", "is_lfs_pointer"]


def claims_to_be_ir(path: Path) -> bool:
    """True if a file has the name of a part; other XML files in the directory are not checked."""
    return path.name.startswith("openvino_") and path.suffix == ".xml"


def is_lfs_pointer(path: Path) -> bool:
    """True if a file is the pointer that a clone without Git LFS leaves in place of the content."""
    try:
        with open_file(path) as file:
            return file.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:
        return False
