"""Snapshots of exports at a URL: opened once in a process, and found again by their path."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from irtools.errors import RemoteError, UsageError
from irtools.ir.reading import provide
from irtools.remote.address import Address, parse
from irtools.remote.cache import cache_folder, exports_folder, load, place_of, save, trim
from irtools.remote.copies import Copy, Failed, known_listing
from irtools.remote.listing import Entry, Listing, Sink, Source
from irtools.remote.meter import Meter

__all__ = [
    "are_named",
    "expand",
    "file_of",
    "is_offline",
    "opened",
    "register",
    "set_offline",
]

_INSTALL = "irtools reads URLs with packages that are not installed; run `pip install 'ov-irtools[remote]'`"
_offline = [False]
_roots: dict[str, Address] = {}
_folders: dict[str, dict[str, None]] = {}
_opened: dict[str, Copy | Failed] = {}
_guard = threading.RLock()


def set_offline(offline: bool) -> None:
    """Read exports at a URL from the cache only, or over the network as well."""
    _offline[0] = offline


def is_offline() -> bool:
    """True after :func:`set_offline`, or with HF_HUB_OFFLINE, which counts for every scheme."""
    if _offline[0]:
        return True
    from huggingface_hub import is_offline_mode

    return bool(is_offline_mode())


def register(address: Address) -> None:
    """Note that paths below the root of an address are at this URL; it is opened when one of them is used."""
    with _guard:
        _roots.setdefault(address.root, address)
        _folders.setdefault(address.root, {}).setdefault(address.folder)


def are_named() -> bool:
    """True once a URL was named in this process, which another process may have opened."""
    return bool(_roots)


def opened() -> tuple[Copy, ...]:
    """Exports at a URL that this process has opened."""
    with _guard:
        return tuple(copy for copy in _opened.values() if isinstance(copy, Copy))


def file_of(url: str) -> str:
    """Path in the cache of a URL below a registered root.

    Raises
    ------
    FileNotFoundError
        No export that was named begins like this.
    RemoteError
        The export cannot be read.
    """
    with _guard:
        roots = [root for root in _roots if url == root or url.startswith(f"{root}/")]
    if not roots:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    root = max(roots, key=len)
    return os.path.join(_copy(root).directory, *url[len(root) :].split("/"))  # noqa: PTH118  # a text for `__fspath__`


def expand(url: str) -> Iterator[str]:
    """URLs of the exports that a URL names: of an organisation all that hold a target IR, else the URL itself.

    Raises
    ------
    UsageError
        There can be no such URL.
    RemoteError
        The organisation cannot be read, or has no export.
    """
    address = parse(url)
    if not address.owner_only:
        yield url
        return
    with _guard:
        _roots.pop(address.root, None)  # it is above all its exports, and no folder
    _require_packages(address)
    if is_offline():
        raise RemoteError("repositories cannot be listed offline; name them", url=url)
    from irtools.remote.hub import exports_of

    found = list(exports_of(address, Meter()))
    if not found:
        raise RemoteError("no model of it has an openvino_model.xml or openvino_language_model.xml", url=url)
    yield from found


def _copy(root: str) -> Copy:
    with _guard:
        known = _opened.get(root)
        if isinstance(known, Failed):
            if known.is_recent:
                raise known.error
            known = None
        if known is None:
            try:
                _opened[root] = known = _open(_roots[root])
            except RemoteError as error:
                _opened[root] = Failed(error)
                raise
        folders = _folders[root]
        for folder in [*folders]:
            del folders[folder]
            try:
                known.prefetch(folder)
            except RemoteError as error:
                folders[folder] = None
                _opened[root] = Failed(error)
                raise
        return known


def _open(address: Address) -> Copy:
    if address.owner_only:
        raise UsageError(f"{address.root} names an owner, not an export; give {address.root}/NAME")
    _require_packages(address)
    source = _source(address)
    server = _server(address)
    offline = is_offline()
    revision = _remembered(address, server) if offline else source.revision()
    folder = exports_folder() / place_of(server, address.place, revision)
    listing = known_listing(folder) if revision or offline else None
    if listing is None:
        if offline:
            raise RemoteError("offline, and the cache does not have it", url=address.root)
        listing = source.listing(revision)
    before = load(_reference(address, server)).get("revision")
    earlier = exports_folder() / place_of(server, address.place, before) if isinstance(before, str) else None
    if not offline:
        _remember(address, server, revision)
    copy = Copy(
        address.root, folder, address.name, _Offline(address.root) if offline else source, listing, _lock(folder.name)
    )
    copy.make(earlier)
    for path in {copy.directory, Path(os.path.realpath(copy.directory))}:
        provide(path, copy)
    trim(folder)
    return copy


def _require_packages(address: Address) -> None:
    from importlib.util import find_spec

    packages = {"s3": ("fsspec", "s3fs"), "gs": ("fsspec", "gcsfs")}.get(address.scheme, ())
    if not all(map(find_spec, ("huggingface_hub", "filelock", *packages))):
        raise RemoteError(_INSTALL, url=address.root)


def _source(address: Address) -> Source:
    if address.scheme == "hf":
        from irtools.remote.hub import HubSource

        return HubSource(address)
    if address.scheme in ("http", "https"):
        from irtools.remote.web import WebSource

        return WebSource(address)
    from irtools.remote.store import StoreSource

    return StoreSource(address)


def _server(address: Address) -> str:
    if address.scheme == "hf":
        from irtools.remote.hub import endpoint

        return f"hf {endpoint()}"
    if address.scheme == "s3":
        return f"s3 {os.environ.get('AWS_ENDPOINT_URL_S3') or os.environ.get('AWS_ENDPOINT_URL', '')}"
    return address.scheme


def _lock(name: str) -> Callable[[], AbstractContextManager[object]]:
    from filelock import FileLock

    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / name)
    return lambda: lock


# A commit that a branch named last, so that the branch can be read offline.


def _reference(address: Address, server: str) -> Path:
    return cache_folder() / "refs" / f"{place_of(server, address.place, address.revision)}.json"


def _remember(address: Address, server: str, revision: str) -> None:
    path = _reference(address, server)
    if load(path).get("revision") != revision:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, {"url": address.root, "revision": revision})


def _remembered(address: Address, server: str) -> str:
    given = address.revision
    if address.scheme == "hf" and len(given) == 40 and set(given) <= set("0123456789abcdef"):
        return given
    found = load(_reference(address, server)).get("revision")
    if not isinstance(found, str):
        raise RemoteError("offline, and the cache does not have it", url=address.root)
    return found


class _Offline:
    """A source that gives nothing."""

    def __init__(self, url: str) -> None:
        self.meter = Meter()
        self._url = url

    def revision(self) -> str:
        return ""

    def listing(self, revision: str) -> Listing:
        raise RemoteError("offline, and the cache does not have it", url=self._url)

    def read(self, entry: Entry, start: int, end: int, sink: Sink, revision: str) -> None:
        raise RemoteError("offline, and the cache does not have its bytes", url=f"{self._url}/{entry.name}")
