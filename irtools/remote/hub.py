"""Repositories of the Hugging Face Hub, or of a server that speaks its API."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from irtools._version import __version__
from irtools.errors import RemoteError
from irtools.ir.reading import NotFetchedError
from irtools.remote.address import Address
from irtools.remote.http import Ask, Fault, HttpError, Location, asking, checked_hub, client, fetch, origin, retried
from irtools.remote.listing import MOST_FILES, Entry, Listing, Sink, usable
from irtools.remote.meter import Meter

__all__ = ["HubSource", "endpoint", "exports_of"]

T = TypeVar("T")
_HEX = frozenset("0123456789abcdef")
_TARGETS = ("openvino_model.xml", "openvino_language_model.xml")


def endpoint() -> str:
    """URL of the hub, which HF_ENDPOINT sets."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT).rstrip("/")


@dataclass
class HubSource:
    """A repository with models."""

    address: Address
    meter: Meter = field(default_factory=Meter)
    _locations: dict[str, Location] = field(default_factory=dict, init=False, repr=False)

    def revision(self) -> str:
        """The commit that the revision of the URL names."""
        given = self.address.revision
        if len(given) == 40 and set(given) <= _HEX:
            return given

        def ask() -> str:
            sha = self._api.model_info(self.address.place, revision=given or None).sha
            if not isinstance(sha, str) or len(sha) != 40 or not set(sha) <= _HEX:
                raise ValueError("no commit")
            return sha

        return self._call(ask)

    def listing(self, revision: str) -> Listing:
        """All files of a commit, with sizes and hashes."""

        def ask() -> tuple[tuple[Entry, ...], tuple[str, ...]]:
            tree = self._api.list_repo_tree(self.address.place, recursive=True, revision=revision)
            return usable(_entries(tree), self.address.root)

        entries, left_out = self._call(ask)
        return Listing(entries, revision, left_out)

    def read(self, entry: Entry, start: int, end: int, sink: Sink, revision: str) -> None:
        """Read a range through the address that the hub resolves the file to."""
        location = self._locations.get(entry.name)
        if location is None:
            url = f"{endpoint()}/{self.address.place}/resolve/{revision}/{quote(entry.name)}"
            location = self._locations.setdefault(entry.name, Location(url, self._headers))
        try:
            fetch(location, entry.size, start, end, Ask(origin(endpoint()), self.meter), sink)
        except HttpError as error:
            if error.code == "ranges":
                raise NotFetchedError(errno.EIO, str(error)) from None
            raise self._error(error, entry.name) from None

    @functools.cached_property
    def _api(self) -> Any:
        from huggingface_hub import HfApi

        client()
        return HfApi(endpoint(), library_name="irtools", library_version=__version__)

    @functools.cached_property
    def _headers(self) -> dict[str, str]:
        from huggingface_hub.utils._headers import build_hf_headers

        return dict(build_hf_headers(library_name="irtools", library_version=__version__))

    def _call(self, ask: Callable[[], T]) -> T:
        try:
            with asking(origin(endpoint()), self.meter):
                _ = self._api
                found: T = retried(lambda: checked_hub(ask))
                return found
        except HttpError as error:
            raise self._error(error) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise RemoteError(
                f"the answer of {endpoint()} is not that of a hub; check HF_ENDPOINT", url=self.address.root
            ) from None

    def _error(self, error: HttpError, name: str = "") -> RemoteError:
        where = f"{self.address.root}/{name}" if name else self.address.root
        return RemoteError(_sentence(error, self.address, asked="authorization" in self._headers), url=where)


def _sentence(error: HttpError, address: Address, *, asked: bool) -> str:
    page = f"{endpoint()}/{address.place}"
    if error.code == "GatedRepo":
        account = (
            "the account of the token" if asked else "an account, and give its token (`hf auth login`, or HF_TOKEN)"
        )
        return f"is gated; accept its conditions at {page} with {account}"
    if error.code == "RevisionNotFound":
        return f"has no revision {address.revision or 'main'!r}; see {page}/commits"
    if error.code == "DisabledRepo":
        return "is disabled by the hub"
    if error.code == "invalid":
        return "is not a valid name of a repository"
    if error.code in ("EntryNotFound", "RepoNotFound") or error.status in (401, 403, 404):
        if error.status == 403:
            return "the token does not permit reading it; give one that does (`hf auth login`, or HF_TOKEN)"
        if error.code == "EntryNotFound":
            return "the listing has the file, but the hub does not send it"
        if error.status == 401 and asked and error.code != "RepoNotFound":
            return "the hub does not accept the token; give a valid one (`hf auth login`, or HF_TOKEN)"
        private = (
            "the token may not read it" if asked else "it is private: then give a token (`hf auth login`, or HF_TOKEN)"
        )
        return f"not found; the name is wrong, or {private}"
    return general_sentence(error, endpoint())


def general_sentence(error: HttpError, server: str) -> str:
    """What an error means that says nothing of the export itself."""
    if error.status == 429:
        advice = "" if "wait" in str(error) else "; wait some minutes"
        return f"rate-limited: {error}{advice}, and run the command again"
    if error.kind == Fault.NETWORK:
        return f"no network, or {server} is not reachable ({error}); what the cache has can be read with --offline"
    if error.status >= 500:
        return f"{error}; run the command again later"
    return str(error)


def _entries(tree: Iterator[Any]) -> Iterator[Entry]:
    from huggingface_hub.hf_api import RepoFile

    for item in tree:
        if not isinstance(item, RepoFile):
            continue
        lfs = item.lfs
        size, name = item.size, item.path
        if lfs is not None and isinstance(lfs.size, int):
            size = lfs.size
        if not isinstance(size, int) or not isinstance(name, str):
            raise TypeError("a file without a size or a name")
        sha256 = str(lfs.sha256) if lfs is not None else ""
        git = "" if lfs is not None else str(item.blob_id)
        yield Entry(name, size, sha256 or git, sha256, git)


def exports_of(address: Address, meter: Meter) -> Iterator[str]:
    """URLs of the exports of an organisation or user: repositories, or folders in them, that hold a target IR."""
    source = HubSource(address, meter)

    def ask() -> list[str]:
        found: list[str] = []
        models = source._api.list_models(author=address.place, full=True)
        for count, model in enumerate(models, 1):
            if count > MOST_FILES:
                raise RemoteError(f"has more than {MOST_FILES:,} repositories; name those you mean", url=address.root)
            folders = sorted(
                {
                    name.rpartition("/")[0]
                    for name in (sibling.rfilename for sibling in model.siblings or ())
                    if name.rpartition("/")[2] in _TARGETS
                }
            )
            found += (f"hf://{model.id}/{folder}".rstrip("/") for folder in folders)
        return found

    yield from source._call(ask)
