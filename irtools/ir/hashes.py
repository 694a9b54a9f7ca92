"""Compare files of which at least one is not whole, by hashes that a server knows."""

from __future__ import annotations

import hashlib
import os
from io import BufferedReader
from pathlib import Path

from irtools.ir.reading import NotFetchedError, chunks, open_file, provider_of

__all__ = ["file_hash", "hash_of", "require_same_hash", "same_hash"]


def file_hash(path: Path, kind: str) -> str:
    """Hash of a whole file; see :func:`hash_of`. Raises ``OSError`` if it cannot be read."""
    with open_file(path) as file:
        return hash_of(file, kind)


def hash_of(file: BufferedReader, kind: str) -> str:
    """Hash of an open file: ``sha256``, or ``git`` for the SHA-1 that Git gives to its content."""
    # That SHA-1 protects from no attack: who can change the file can change the listing too.
    state = hashlib.sha256() if kind == "sha256" else hashlib.sha1(usedforsecurity=False)
    if kind == "git":
        state.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
    for piece in chunks(file):
        state.update(piece)
    return state.hexdigest()


def same_hash(a: Path, b: Path) -> bool | None:
    """True or False if sizes or hashes tell whether two files hold the same bytes; None if they do not tell.

    A whole file is hashed for that.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    if a.stat().st_size != b.stat().st_size:
        return False
    known = [provider.hashes(os.fspath(path)) if (provider := provider_of(path)) else None for path in (a, b)]
    kinds = next((one for one in known if one is not None), {})
    for kind in kinds:
        pair = [
            one.get(kind) if one is not None else file_hash(path, kind) for one, path in zip(known, (a, b), strict=True)
        ]
        if None not in pair:
            return pair[0] == pair[1]
    return None


def require_same_hash(a: Path, b: Path) -> bool:
    """As :func:`same_hash`; raises ``NotFetchedError`` if hashes do not tell."""
    same = same_hash(a, b)
    if same is None:
        raise NotFetchedError(0, "its bytes are not fetched, and the server gives no hash of it", str(b))
    return same
