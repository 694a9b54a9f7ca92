"""The record beside an attached MTP head, by which it can be taken away again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from irtools._version import __version__
from irtools.errors import EditError, unreadable
from irtools.ir.markup import Splice, spliced
from irtools.ir.reading import open_file, parse_json, read_file

__all__ = ["RECORD_FILE", "AttachRecord", "ConfigEdit", "FileMark", "mark_of", "read_record"]

RECORD_FILE = "openvino_mtp_model.attached.json"
"""Name of the record in a model directory."""
_PURPOSE = "This MTP head was put here by `irtools attach`; `irtools attach --remove` needs this file."


@dataclass(frozen=True, slots=True)
class FileMark:
    """Size and SHA-256 of a file."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """The change of config.json.

    Attributes
    ----------
    key : str
        Key with its section, such as ``text_config.mtp_num_hidden_layers``.
    offset : int
        Byte offset of both texts.
    old, new : str
        Replaced and replacing text.
    before, after : str
        SHA-256 of the file.
    """

    key: str
    offset: int
    old: str
    new: str
    before: str
    after: str

    @classmethod
    def of(cls, key: str, data: bytes, splice: Splice) -> ConfigEdit:
        """The edit that a splice makes."""
        old = data[splice.start : splice.end].decode()
        return cls(key, splice.start, old, splice.new.decode(), _digest(data), _digest(spliced(data, [splice])))

    def undo(self, data: bytes) -> bytes | None:
        """The file before the edit; None if ``data`` is neither the file after nor before it."""
        if _digest(data) == self.before:
            return data
        undone = spliced(data, [Splice(self.offset, self.offset + len(self.new.encode()), self.old.encode())])
        return undone if _digest(data) == self.after and _digest(undone) == self.before else None


@dataclass(frozen=True, slots=True)
class AttachRecord:
    """Record of an attached head.

    Attributes
    ----------
    source : str
        Name of the directory of the other export.
    files : mapping of str to FileMark
        The files of the head, by name.
    config : ConfigEdit or None
        None if config.json was left as it was.
    """

    source: str
    files: Mapping[str, FileMark]
    config: ConfigEdit | None

    def data(self) -> bytes:
        """Content of the file."""
        content = {"purpose": _PURPOSE, "irtools": __version__, **asdict(self)}
        return json.dumps(content, indent=2).encode() + b"\n"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def mark_of(path: Path) -> tuple[FileMark, os.stat_result]:
    """Mark of a file, read in pieces, and its status.

    Raises
    ------
    ExportError
        The file cannot be read.
    """
    try:
        with open_file(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            status = os.fstat(file.fileno())
    except OSError as error:
        raise unreadable(path, error, "; repair it, or get the export again") from error
    return FileMark(status.st_size, digest), status


def read_record(directory: Path) -> AttachRecord | None:
    """The record of a model directory; None without one.

    Raises
    ------
    EditError
        The file is not a record.
    ExportError
        The file cannot be read.
    """
    path = directory / RECORD_FILE
    try:
        content: Any = parse_json(read_file(path, "record"))
        files = {str(name): FileMark(int(mark["size"]), str(mark["sha256"])) for name, mark in content["files"].items()}
        edit = content["config"]
        config = None
        if edit is not None:
            texts = (str(edit[key]) for key in ("old", "new", "before", "after"))
            config = ConfigEdit(str(edit["key"]), int(edit["offset"]), *texts)
        return AttachRecord(str(content["source"]), files, config)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = "is not a record of `irtools attach`; remove it, and the MTP head yourself if it was attached"
        raise EditError(message, path=path) from error
