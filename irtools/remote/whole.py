"""What needs a whole export, and what is written for one at a URL."""

from __future__ import annotations

import os
from pathlib import Path

from irtools.errors import RemoteError
from irtools.ir.reading import provider_of
from irtools.remote.address import parse
from irtools.remote.copies import Copy
from irtools.remote.lines import download_line, upload_line
from irtools.remote.path import RemotePath
from irtools.text import plural, size_text

__all__ = ["is_remote", "note_unmade", "require_local", "upload_of"]


def is_remote(path: Path) -> bool:
    """True for an export, or a file of one, at a URL."""
    return _copy_of(path) is not None


def require_local(path: Path, task: str) -> None:
    """Refuse an export at a URL for a task that reads it whole; a noun phrase such as ``a proof``.

    Raises
    ------
    RemoteError
        It says what a download would take, and how to do it.
    """
    copy = _copy_of(path)
    if copy is None:
        return
    address = parse(str(path)) if isinstance(path, RemotePath) else parse(copy.url)
    prefix = f"{address.folder}/" if address.folder else ""
    sizes = [one.size for name, one in copy.entries.items() if name.startswith(prefix)]
    raise RemoteError(
        f"{task} needs the whole export, and nothing was downloaded: {size_text(sum(sizes))} in "
        f"{plural(len(sizes), 'file')}; run `{download_line(address, copy.listing.revision)}` and give that directory",
        url=str(path),
    )


def note_unmade(path: Path, what: str) -> None:
    """Note that a check of an export at a URL was not made; the command line shows it."""
    copy = _copy_of(path)
    if copy is not None:
        copy.notes[f"{path}: {what}"] = None


def upload_of(path: Path, written: Path) -> str:
    """The command that uploads a new version of a file at a URL; ``""`` if there is none."""
    copy = _copy_of(path)
    if copy is None:
        return ""
    name = os.path.relpath(os.path.realpath(path), os.path.realpath(copy.directory)).replace(os.sep, "/")
    return upload_line(parse(copy.url), name, str(written))


def _copy_of(path: Path) -> Copy | None:
    # A directory has the provider of what is in it.
    provider = provider_of(path / "_")
    return provider if isinstance(provider, Copy) else None
