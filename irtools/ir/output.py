"""Write output of irtools: pictures, reports, baselines. For parts of an export see :mod:`irtools.ir.save`."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from irtools.errors import SaveError
from irtools.ir.files import explained, flush_directory, sweep, temporary
from irtools.ir.listing import holds_ir, may_be_ir, refuse_link
from irtools.timing import step

__all__ = ["write_output"]


_WEIGHTS = (".bin", ".safetensors", ".gguf")
_OF_EXPORT = (".jinja", ".model", ".tiktoken", ".py")
_OWN_JSON = (b'"schema_version"', b'"$schema"')
"""First key of every JSON file that irtools writes."""


def write_output(path: Path, data: bytes, exports: Iterable[Path] = ()) -> Path:
    """Write a file atomically: after any failure the complete old or the complete new file is there.

    A symbolic link is followed, unless it could have come with an export. The new file keeps the mode and, where
    permitted, the owner and extended attributes of the old file. A device or pipe is written directly. The path is
    returned unchanged.

    Parameters
    ----------
    exports : iterable of Path
        Model directories of the command.

    Raises
    ------
    SaveError
        The file could not be written, or is a part of an export. An old file is unchanged unless the message says that
        it was replaced.
    """
    with step(f"Writing {path}"), explained(path, elsewhere="another file"):
        refuse_link(path, exports)
        target = Path(os.path.realpath(path))
        old = None
        with contextlib.suppress(FileNotFoundError):
            old = target.stat()
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if old is not None and not stat.S_ISREG(old.st_mode):
            path.write_bytes(data)
            return path
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if old is not None and old.st_size and _of_export(target):
            raise SaveError("is a file of an export, which an output does not replace; give another name", path=path)
        sweep(target.parent)
        with temporary(target, data, old) as new:
            new.replace(target)
    flush_directory(target)
    return path


def _of_export(path: Path) -> bool:
    """True for an IR or weights anywhere, and beside an IR for every file that could belong to it."""
    suffix = path.suffix.lower()
    if suffix == ".xml":
        return may_be_ir(path)
    if suffix in _WEIGHTS:
        return True
    if suffix == ".json":
        return holds_ir(path.parent) and not _own_json(path)
    return (suffix in _OF_EXPORT or path.name in ("merges.txt", "vocab.txt")) and holds_ir(path.parent)


def _own_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(100).lstrip(b"{ \r\n\t").startswith(_OWN_JSON)
