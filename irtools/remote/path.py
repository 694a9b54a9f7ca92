"""Paths whose text is a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from irtools.remote.address import is_url, parse
from irtools.remote.snapshot import file_of, register

__all__ = ["RemotePath", "as_path"]

if TYPE_CHECKING:
    _Native = Path
else:
    _Native = type(Path())


class RemotePath(_Native):
    """A path below the root of an export at a URL, made by :func:`as_path`.

    ``str`` is the URL, which messages and reports show. The operating system gets the file of the cache, and opening it
    for the first time opens the URL: that can raise ``RemoteError``.
    """

    def __str__(self) -> str:
        text = super().__str__().replace("\\", "/")
        scheme, colon, rest = text.partition(":/")
        # `pathlib` makes one slash of two. What `resolve` returns is a path of the cache.
        return f"{scheme}://{rest.lstrip('/')}" if colon and "/" not in scheme and len(scheme) > 1 else text

    def __fspath__(self) -> str:
        text = str(self)
        return file_of(text) if is_url(text) else text

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_path, (str(self),)

    def is_absolute(self) -> bool:
        """True: a URL depends on no working directory."""
        return True

    def absolute(self) -> RemotePath:
        """The path itself."""
        return self

    def as_uri(self) -> str:
        """The URL."""
        text = str(self)
        return quote(text, safe=":/@%") if is_url(text) else super().as_uri()


def as_path(path: str | Path) -> Path:
    """A path; a :class:`RemotePath` for a URL.

    Raises
    ------
    UsageError
        irtools cannot read such a URL.
    """
    if isinstance(path, Path):
        return path
    if not is_url(path):
        return Path(path)
    address = parse(path)
    register(address)
    return RemotePath(address.url)
