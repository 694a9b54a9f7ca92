"""Folders of a web server: those that it lists in a page, or the usual files of an export."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urljoin, urlsplit

from irtools.errors import RemoteError
from irtools.ir.reading import NotFetchedError
from irtools.remote.address import Address
from irtools.remote.http import Ask, HttpError, Location, client, fetch, get, head, int_of, origin
from irtools.remote.hub import general_sentence
from irtools.remote.listing import Entry, Listing, Sink, usable
from irtools.remote.meter import Meter

__all__ = ["WebSource"]

_MOST_LISTED = 2000
_PARTS = (
    "model",
    "language_model",
    "mtp_model",
    "text_embeddings_model",
    "vision_embeddings_model",
    "vision_embeddings_merger_model",
    "vision_embeddings_pos_model",
    "resampler_model",
    "tokenizer",
    "detokenizer",
)
_USUAL = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "openvino_config.json",
)
_WORKERS = 8


@dataclass
class WebSource:
    """A folder below an http or https URL."""

    address: Address
    meter: Meter = field(default_factory=Meter)
    _locations: dict[str, Location] = field(default_factory=dict, init=False, repr=False)

    def revision(self) -> str:
        """A folder has none; its files have ETags."""
        return ""

    def listing(self, revision: str) -> Listing:
        """Files that the page of the folder lists; without such a page, those of the usual names that exist."""
        try:
            client()
            names = self._listed()
            found = self._sized(names or self._usual(), required=bool(names))
        except HttpError as error:
            raise self._error(error) from None
        if not any(entry.name.endswith(".xml") for entry in found):
            raise RemoteError(
                "the server lists no .xml here and has no openvino_model.xml; "
                "give the URL of the folder or of one .xml",
                url=self.address.root,
            )
        entries, left_out = usable(found, self.address.root)
        return Listing(entries, "", left_out)

    def read(self, entry: Entry, start: int, end: int, sink: Sink, revision: str) -> None:
        """Read a range; the file must still be the version of the listing."""
        location = self._locations.setdefault(entry.name, Location(self._url(entry.name), self._login, "", entry.etag))
        try:
            client()
            fetch(location, entry.size, start, end, self._ask, sink)
        except HttpError as error:
            if error.code == "ranges":
                raise NotFetchedError(errno.EIO, str(error)) from None
            raise self._error(error, entry.name) from None

    @property
    def _ask(self) -> Ask:
        return Ask(origin(self.address.root), self.meter)

    @property
    def _login(self) -> dict[str, str]:
        """User and password that ~/.netrc has for the host."""
        return login(urlsplit(self.address.root).hostname or "")

    def _url(self, name: str) -> str:
        return f"{self.address.root}/{quote(name)}"

    def _listed(self) -> list[str]:
        """Names of the files that the page of the folder links to; empty if there is no such page."""
        try:
            page = get(f"{self.address.root}/", self._ask, self._login)
        except HttpError as error:
            if error.status in (400, 403, 404, 405):
                return []
            raise
        if "html" not in page.headers.get("Content-Type", ""):
            return []
        base = f"{self.address.root}/"
        names = list(dict.fromkeys(_names(page.text, str(page.url), base)))
        if len(names) > _MOST_LISTED:
            raise RemoteError(
                f"lists more than {_MOST_LISTED} files; give the folder of one export", url=self.address.root
            )
        return names if any(name.endswith(".xml") for name in names) else []

    def _usual(self) -> list[str]:
        stems = [f"openvino_{part}" for part in _PARTS]
        if self.address.inner.endswith((".xml", ".bin")):
            stems.insert(0, self.address.inner.rpartition(".")[0])
        return list(dict.fromkeys([*(f"{stem}{end}" for stem in stems for end in (".xml", ".bin")), *_USUAL]))

    def _sized(self, names: list[str], *, required: bool) -> list[Entry]:
        """Entries of the files that exist, with their sizes."""

        def ask(name: str) -> Entry | None:
            try:
                answer = head(self._url(name), self._ask, self._login)
            except HttpError as error:
                if error.status in (403, 404, 410) and not required:
                    return None
                raise self._error(error, name) from None
            size = int_of(answer.headers.get("Content-Length"))
            if size < 0:
                raise RemoteError("the server does not say how long the file is", url=self._url(name))
            return Entry(name, size, answer.headers.get("ETag") or answer.headers.get("Last-Modified", ""))

        with ThreadPoolExecutor(_WORKERS) as pool:
            return [entry for entry in pool.map(ask, names) if entry is not None]

    def _error(self, error: HttpError, name: str = "") -> RemoteError:
        where = self._url(name) if name else self.address.root
        if error.status == 404:
            return RemoteError("not found; check the URL", url=where)
        if error.status in (401, 403):
            return RemoteError("access denied; give the user and the password of the host in ~/.netrc", url=where)
        return RemoteError(f"{general_sentence(error, urlsplit(self.address.root).netloc)}", url=where)


def login(host: str) -> dict[str, str]:
    """The Authorization header for a host, from the file of NETRC or ~/.netrc; empty if that has no entry for it."""
    import base64
    import netrc
    import os
    from pathlib import Path

    try:
        known = netrc.netrc(os.environ.get("NETRC") or str(Path.home() / ".netrc")).authenticators(host)
    except (OSError, RuntimeError, netrc.NetrcParseError):
        return {}
    if known is None:
        return {}
    pair = base64.b64encode(f"{known[0]}:{known[2]}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.targets += [value for key, value in attrs if key == "href" and value]


def _names(page: str, here: str, base: str) -> Iterator[str]:
    """Names of files directly in the folder that a page links to; links to elsewhere are passed over."""
    links = _Links()
    links.feed(page)
    for target in links.targets:
        try:
            whole = urlsplit(urljoin(here, target))
        except ValueError:
            continue
        url = f"{whole.scheme}://{whole.netloc}{whole.path}"
        name = unquote(url[len(base) :]) if url.startswith(base) and not whole.query else ""
        if name and "/" not in name and name not in (".", ".."):
            yield name
