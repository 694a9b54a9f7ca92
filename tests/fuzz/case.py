"""One input of a fuzzer: a file or directory of the checkout, and edits to it. Small, and replayable from JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WHOLE = -1
"""Start of an edit that does something to a whole file; ``new`` names what."""
_REPEATED = re.compile(r"([^\s]{1,24}?)\1{39,}", re.DOTALL)
_LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of ``data[start:end]`` of a file by ``new``."""

    file: str
    start: int
    end: int
    new: bytes


@dataclass(frozen=True, slots=True)
class Case:
    """Input of a target; ``arguments`` of a command contain ``{model}``, ``{out}`` and ``{root}``."""

    target: str
    base: str
    edits: tuple[Edit, ...] = ()
    arguments: tuple[str, ...] = ()

    def to_json(self) -> str:
        edits = [[edit.file, edit.start, edit.end, shortened(edit.new.decode("latin-1"))] for edit in self.edits]
        content = {"target": self.target, "base": self.base, "edits": edits, "arguments": list(self.arguments)}
        return json.dumps(content, indent=1) + "\n"

    @staticmethod
    def of_json(text: str) -> Case:
        content = json.loads(text)
        edits = tuple(
            Edit(file, start, end, _whole(new).encode("latin-1")) for file, start, end, new in content["edits"]
        )
        return Case(content["target"], content["base"], edits, tuple(content["arguments"]))

    def data(self) -> bytes:
        """Bytes of the input of a target that reads one file."""
        return edited((ROOT / self.base).read_bytes(), self.edits)

    def build(self, directory: Path) -> None:
        """Write the directory that a command reads."""
        changed = {edit.file for edit in self.edits}
        directory.mkdir()
        for path in (ROOT / self.base).iterdir():
            if path.name not in changed and path.is_file():
                shutil.copyfile(path, directory / path.name)
        for file in sorted(changed):
            source = ROOT / self.base / file
            data = source.read_bytes() if source.is_file() else b""
            _write(directory / file, data, [edit for edit in self.edits if edit.file == file])

    def without(self, index: int) -> Case:
        """The case without one edit."""
        return replace(self, edits=self.edits[:index] + self.edits[index + 1 :])


def shortened(text: str) -> str | list[list[Any]]:
    """The text, or pieces of it with the number of their repetitions."""
    pieces: list[list[Any]] = []
    last = 0
    for match in _REPEATED.finditer(text):
        pieces += [[text[last : match.start()], 1], [match[1], len(match[0]) // len(match[1])]]
        last = match.end()
    return [piece for piece in [*pieces, [text[last:], 1]] if piece[0]] if pieces else text


def _whole(text: str | list[list[Any]]) -> str:
    return text if isinstance(text, str) else "".join(piece * count for piece, count in text)


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply replacements; later ones that overlap an earlier one are left out."""
    pieces, last = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start >= last:
            pieces += [data[last : edit.start], edit.new]
            last = max(edit.end, edit.start)
    return b"".join([*pieces, data[last:]])


def _write(path: Path, data: bytes, edits: list[Edit]) -> None:
    data = edited(data, (edit for edit in edits if edit.start != WHOLE))
    for edit in edits:
        if edit.start != WHOLE:
            continue
        what = edit.new.decode()
        if what == "absent":
            return None
        if what == "directory":
            return path.mkdir()
        if what == "fifo":
            return os.mkfifo(path)
        if what.startswith("link "):
            return path.symlink_to(what.removeprefix("link "))
        if what.startswith("sparse "):
            with path.open("wb") as file:
                file.truncate(int(what.removeprefix("sparse ")))
            return None
        data = encoded(data, what)
    path.write_bytes(data)
    return None


def encoded(data: bytes, what: str) -> bytes:
    """A file in another spelling."""
    if what == "empty":
        return b""
    if what == "lfs":
        return _LFS
    if what == "bom":
        return b"\xef\xbb\xbf" + data
    if what == "crlf":
        return data.replace(b"\n", b"\r\n")
    return data.decode("utf-8", "replace").encode(what, "replace")
