"""Read regular files of an export, up to a ceiling that depends on the kind of the file.

A pipe or device is refused because reading it could block forever, and a file above its ceiling because a sparse file
of terabytes takes a few kilobytes in an archive. Whatever irtools reads as a whole, it reads here.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, Protocol, TypeVar

from irtools.text import size_text

__all__ = [
    "KINDS",
    "LFS_POINTER",
    "Kind",
    "NotFetchedError",
    "Provider",
    "chunks",
    "given_read_limit",
    "is_lfs_pointer",
    "kind_of",
    "open_file",
    "parse_json",
    "provide",
    "provider_of",
    "read_file",
    "read_into",
    "read_json",
    "read_limit",
    "require_size",
    "set_read_limit",
    "shallow",
]

LFS_POINTER = b"version https://git-lfs"
"""First bytes of a Git-LFS pointer, which a clone without Git-LFS contains instead of the file."""
_LARGEST_POINTER = 1024  # Git LFS takes nothing longer for one
_CHUNK = 8 << 20
_MIB = 1 << 20
_SMALL_READ = 512
_MAX_NESTING = 64  # levels of objects, tables and lists
_Content = TypeVar("_Content")


@dataclass(frozen=True, slots=True)
class Kind:
    """Ceilings of one kind of file.

    Attributes
    ----------
    noun : str
        With its article, for messages.
    size : int
        Largest file in bytes.
    elements : int
        Largest number of elements: start tags of an XML, or values of a JSON file; 0 for text. A Python object takes
        up to 30 times the bytes of a short element, so the size alone does not bound the memory.
    """

    noun: str
    size: int
    elements: int = 0


KINDS = {
    "xml": Kind("an IR", 512 * _MIB, 12_000_000),
    "json": Kind("a JSON file", 16 * _MIB, 1_000_000),
    "tokenizer": Kind("a tokenizer.json", 128 * _MIB, 8_000_000),
    "template": Kind("a chat template", 4 * _MIB),
    "toml": Kind("a TOML file", _MIB),
    "baseline": Kind("a baseline", 64 * _MIB, 4_000_000),
    "prompts": Kind("a file of prompts", 64 * _MIB, 4_000_000),
    "corpus": Kind("a file of texts", 4096 * _MIB),  # read in pieces
    "ids": Kind("a file of token ids", 16 * _MIB, 4_000_000),
    "record": Kind("a record", 64 * _MIB, 4_000_000),
    "graph": Kind("a graph of Model Server", _MIB // 4),
}
"""Ceilings by kind; the largest real files that are known have less than a quarter of them."""
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json")
_BY_SUFFIX = {".xml": "xml", ".json": "json", ".jinja": "template", ".toml": "toml"}
_raised = [0]


def set_read_limit(size: int) -> None:
    """Read files of every kind up to a size in bytes, if their ceiling is lower; the elements grow in proportion."""
    _raised[0] = size


def given_read_limit() -> int:
    """The size that was set; 0 if none was."""
    return _raised[0]


def read_limit(kind: str) -> Kind:
    """The ceilings that count for a kind of file."""
    known = KINDS[kind]
    if _raised[0] <= known.size:
        return known
    return Kind(known.noun, _raised[0], known.elements * _raised[0] // known.size)


def kind_of(path: Path) -> str:
    """Kind of a file of an export by its name; an unknown one is text, such as a template."""
    return "tokenizer" if path.name in _TOKENIZER_FILES else _BY_SUFFIX.get(path.suffix.lower(), "template")


class Provider(Protocol):
    """Gets bytes of files that are not whole, such as those of an export at a URL."""

    def fill(self, path: str, ranges: Sequence[tuple[int, int]], /) -> None:
        """Put the bytes of some ranges, each from a start to an end, in their places; else ``NotFetchedError``."""

    def hashes(self, path: str, /) -> Mapping[str, str]:
        """Known hashes of a whole file: ``sha256``, or ``git`` for the SHA-1 that Git gives to its content."""


class NotFetchedError(OSError):
    """Bytes of a file at a URL that were not fetched: a check that needs them is not made."""


_providers: dict[str, Provider] = {}


def provide(directory: Path, provider: Provider) -> None:
    """Let a provider get the bytes of all files below a directory before they are read."""
    _providers[str(directory)] = provider


def provider_of(path: Path) -> Provider | None:
    """The provider of a file; None for a file that is whole."""
    text = os.fspath(path)  # for a path at a URL, this registers its provider
    while _providers and (above := os.path.dirname(text)) != text:  # noqa: PTH120  # a Path for each step is slow
        if above in _providers:
            return _providers[above]
        text = above
    return None


class _Provided(FileIO):
    """A file whose bytes a provider gets before they are read."""

    def __init__(self, handle: int, provider: Provider, path: str) -> None:
        super().__init__(handle, "rb")
        self._provider, self._path = provider, path

    def readinto(self, buffer: Any, /) -> int | None:
        start = self.tell()
        self._provider.fill(self._path, [(start, start + memoryview(buffer).nbytes)])
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._provider.fill(self._path, [(self.tell(), os.fstat(self.fileno()).st_size)])
        return super().readall()


def is_lfs_pointer(path: Path) -> bool:
    """True if a file is the pointer that a clone without Git LFS leaves in place of the content."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_POINTER:
                return False
            return file.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:
        return False


def open_file(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one.

    Raises
    ------
    OSError
        The file cannot be opened, or is not a regular file.
    """
    _require_regular(path.stat().st_mode, path)  # before it is opened: that alone can rewind a tape
    # Not blocking, because another process can put a pipe in its place now.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        _require_regular(os.fstat(handle).st_mode, path)
        provider = provider_of(path)
        if provider is not None:
            return BufferedReader(_Provided(handle, provider, os.fspath(path)), _SMALL_READ)
        return open(handle, "rb")  # noqa: PTH123
    except BaseException:
        os.close(handle)
        raise


def _require_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))


def read_file(path: Path, kind: str = "") -> bytes:
    """Bytes of a regular file.

    Parameters
    ----------
    kind : str
        A key of ``KINDS``; by default :func:`kind_of` the file.

    Raises
    ------
    OSError
        As :func:`open_file`; or the file is larger than the ceiling of its kind, which is found before it is read.
    """
    kind = kind or kind_of(path)
    ceiling = read_limit(kind)
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        _require_size(path, size, ceiling)
        data = file.read(size + 1)
        if len(data) > size:  # it grows, or is one of /proc, which have the size 0
            data += file.read(ceiling.size + 1 - len(data))
            _require_size(path, len(data), ceiling)
    mark = b"<" if kind == "xml" else b","
    if ceiling.elements and len(data) > ceiling.elements and data.count(mark) > ceiling.elements:
        raise _too_large(path, "it has too many elements", f"{ceiling.elements:,} of {ceiling.noun}")
    return data


def require_size(path: Path, kind: str) -> None:
    """Refuse a file above the ceiling of its kind, for a caller that reads it in pieces.

    Raises
    ------
    OSError
        As :func:`read_file`.
    """
    with open_file(path) as file:
        _require_size(path, os.fstat(file.fileno()).st_size, read_limit(kind))


def _require_size(path: Path, size: int, ceiling: Kind) -> None:
    if size > ceiling.size:
        raise _too_large(path, f"it has {size_text(size)}", f"{size_text(ceiling.size)} of {ceiling.noun}")


def _too_large(path: Path, what: str, most: str) -> OSError:
    advice = "if it should be so large, give `irtools --read-limit SIZE` before the command"
    return OSError(errno.EFBIG, f"{what}, and irtools reads at most {most}; {advice}", str(path))


def parse_json(data: bytes | str) -> Any:
    """Parse JSON; raises ``ValueError``, also for nesting that is too deep."""
    try:
        return shallow(json.loads(data))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def shallow(content: _Content) -> _Content:
    """Return parsed content; raises ``ValueError`` for more than 64 levels, which code that recurses cannot take."""
    level: list[Any] = [content]
    for _ in range(_MAX_NESTING):
        level = [child for value in level if isinstance(value, dict | list) for child in _children(value)]
        if not level:
            return content
    raise ValueError("nested too deeply")


def _children(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def read_json(path: Path, kind: str = "") -> Any:
    """Content of a JSON file; None if the file does not exist.

    Raises
    ------
    ValueError
        The file is not valid JSON in UTF-8.
    OSError
        The file cannot be read.
    """
    try:
        return parse_json(read_file(path, kind))
    except FileNotFoundError:
        return None


def chunks(file: BufferedReader | FileIO, size: int | None = None) -> Iterator[memoryview]:
    """Yield up to ``size`` bytes of a file in pieces; each is valid until the next one is read.

    All pieces share one buffer: with a new buffer for each, copying takes eight times as long.
    """
    buffer = memoryview(bytearray(_CHUNK if size is None else min(_CHUNK, size)))
    left = size
    while left is None or left:
        count = read_into(file, buffer if left is None else buffer[:left])
        if not count:
            return
        yield buffer[:count]
        left = None if left is None else left - count


def read_into(file: BufferedReader | FileIO, buffer: memoryview) -> int:
    """Read into a buffer with one call; returns the byte count, 0 at the end of the file."""
    return file.readinto(buffer) or 0
